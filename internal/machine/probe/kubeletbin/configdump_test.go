package kubeletbin

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/table"
)

// TestConfigDump checks how each end of containerd is understood.
func TestConfigDump(t *testing.T) {
	for name, c := range table.YAML[map[string]struct {
		Script     string
		IsAccepted bool
		HasAnswer  bool
		Want       string // a part of the refusal, or of why there is no answer
	}](t, `
accepts: {script: 'echo "password = \"hunter2secret\""', isAccepted: true, hasAnswer: true}
reads its files: {script: 'test "$1 $3 $4" = "--config config dump" && cat $2 ${2%/*}/conf.d/*.toml', isAccepted: true,
  hasAnswer: true}
refuses: {script: 'echo ''password = "hunter2secret"''; echo "time=1 msg=hunter2secret" >&2; echo
  "containerd: failed to load TOML from $2: got 4" >&2; exit 1', hasAnswer: true,
  want: 'failed to load TOML from /etc/containerd/config.toml: got 4'}
panics: {script: 'printf "time=1 x\npanic: interface conversion\n\ngoroutine 1:\nmain.go hunter2secret\n" >&2; exit 2',
  hasAnswer: true, want: 'panic: interface conversion'}
has no such command: {script: 'echo "No help topic for ''dump''" >&2; exit 3', want: does not know the command}
hangs: {script: sleep 60, want: no answer within}
prints for ever: {script: 'while echo hunter2secret hunter2secret hunter2secret; do :; done', want: no answer within}
is killed: {script: kill -9 $$, want: 'signal: killed'}
writes elsewhere: {script: 'echo "containerd: open /x: permission denied" >&2; exit 1', want: permission denied}
`) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := 2 * time.Minute
			if c.Want == "no answer within" {
				limit = 2 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			d := ConfigDump{Program: filepath.Join(t.TempDir(), "containerd"), Folder: t.TempDir(), Files: []ConfigFile{
				{"/etc/containerd/config.toml", []byte(`imports = ["conf.d/*.toml"]`)},
				{"/etc/containerd/conf.d/a.toml", []byte("version = 3\n")},
			}}
			writeProgram(t, d.Program, "#!/bin/sh\n"+c.Script+"\n")
			v, err := d.Run(ctx)
			out := v.Refusal
			if err != nil {
				out = err.Error()
			}
			if v.Accepted != c.IsAccepted || (err == nil) != c.HasAnswer || !strings.Contains(out, c.Want) {
				t.Errorf("got accepted %t, %q, error %v; want accepted %t, an answer: %t, with %q",
					v.Accepted, out, err, c.IsAccepted, c.HasAnswer, c.Want)
			}
			if strings.Contains(out, "hunter2") || strings.Contains(out, folderPrefix) {
				t.Errorf("got %q, want no password and no private path", out)
			}
			if left, _ := os.ReadDir(d.Folder); len(left) != 0 {
				t.Errorf("files left: got %v, want none", left)
			}
		})
	}
}

// TestMoveImports: all imports of the document, and nothing else, are below the private folder.
func TestMoveImports(t *testing.T) {
	d := ConfigDump{Files: []ConfigFile{{Path: "/etc/containerd/conf.d/a.toml"}, {Path: "/opt/b.toml"}, {Path: "/etc/c.toml"}}}
	for text, want := range map[string]string{
		"imports = [\"/etc/containerd/conf.d/*.toml\", # all\n '/opt/b.toml',]\nroot = \"/x\"\n": "imports = [\"/F/etc/containerd/conf.d/*.toml\", # all\n '/F/opt/b.toml',]\nroot = \"/x\"\n",
		"'imports' = [\"../c.toml\", \"conf.d/a.toml\"]":                                         "'imports' = [\"/F/etc/c.toml\", \"/F/etc/containerd/conf.d/a.toml\"]",
		"imports = [\"/none.toml\", \"/opt/*.yaml\"]":                                            "imports = [\"/F/none/*\", \"/F/none/*\"]",
		"imports = [\"conf.d/*.toml\", \"/opt/[*\", \"../c*\"]":                                  "imports = [\"conf.d/*.toml\", \"/F/opt/[*\", \"/F/etc/c*\"]",
		"[grpc]\nimports = [\"/opt/b.toml\"]":                                                    "[grpc]\nimports = [\"/opt/b.toml\"]",
		"x.imports = [\"/opt/b.toml\"]":                                                          "x.imports = [\"/opt/b.toml\"]",
		"imports = \"/opt/b.toml\"":                                                              "imports = \"/opt/b.toml\"",
		"imports = [\"/opt/b.toml\"":                                                             "imports = [\"/opt/b.toml\"",
	} {
		f := ConfigFile{"/etc/containerd/config.toml", []byte(text)}
		if got := d.moveImports(f, "/F"); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}
