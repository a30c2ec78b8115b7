package dryrun

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/judge"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// fakeContainerd reads a root file and its imports. It refuses the first that has the word bad, quoting its line, and
// names no file.
const fakeContainerd = `#!/bin/sh
imports=$(sed -n 's/^imports = \[//p' "$2" | tr -d '",]')
cd "${2%/*}" # where later versions than 1.6 look for relative imports
for f in "$2" $imports ${2%/*}/conf.d/.*.toml; do
	test -e "$f" || continue
	bad=$(grep bad "$f") && echo "containerd: cannot decode $bad" >&2 && exit 1
done
echo accepted
`

// TestRuntimeAnswer checks which files containerd gets, and the answer about them.
func TestRuntimeAnswer(t *testing.T) {
	const (
		config  = "/etc/containerd/config.toml"
		site    = "/etc/containerd/conf.d/90-site.toml"
		other   = "/etc/containerd/conf.d/10-other.toml"
		hidden  = "/etc/containerd/conf.d/.99-hidden.toml"
		linked  = "/etc/containerd/conf.d/99-linked.toml"
		imports = "imports = [\"/etc/containerd/conf.d/*.toml\", \"/opt/named.toml\"]\n"
	)
	whole := func(change map[string]string) map[string]string {
		all := map[string]string{config: imports, other: "version = 3\n", "/opt/named.toml": "", site: "bad = \"old\"\n"}
		for file, text := range change {
			if all[file] = text; text == "-" {
				delete(all, file)
			}
		}
		return all
	}
	write := func(path, text string) []desired.File {
		return []desired.File{{Path: path, Kind: desired.Regular, Text: secret.PlainText(text)}}
	}
	for name, c := range map[string]struct {
		root    map[string]string
		files   []desired.File
		changed []string
		absent  bool
		link    string // what a drop-in of others links to
		refusal string
		file    string
		code    fault.Code
		why     string // a part of why there is no answer
	}{
		"accepted":        {root: whole(nil), files: write(site, "x = 1\n")},
		"the site's file": {root: whole(nil), files: write(site, "bad = 1\n"), refusal: "bad = 1", file: site},
		"a file of others": {
			root: whole(map[string]string{other: "bad = 2\n"}), files: write(site, "x = 1\n"), refusal: "bad = 2", file: other,
		},
		"a hidden file of others": {
			root: whole(map[string]string{hidden: "bad = 2\n"}), files: write(site, "x = 1\n"), refusal: "bad = 2", file: hidden,
		},
		"a password of others": {
			root:  whole(map[string]string{other: "bad.auth = { password = \"hunter2-hunter2\" }\n"}),
			files: write(site, "x = 1\n"), refusal: "password = ", file: other,
		},
		"the root file": {root: whole(nil), files: write(config, "bad = 3\n"), changed: []string{config}, refusal: "bad = 3", file: config},
		"a removed file": {
			root: whole(nil), files: []desired.File{{Path: site, Kind: desired.Missing}},
		},
		"a missing import": {
			root: whole(map[string]string{"/opt/named.toml": "-"}), files: write(site, "x = 1\n"),
			refusal: "open /opt/named.toml: no such file", file: config,
		},
		"a planned import": {
			root: whole(map[string]string{"/opt/named.toml": "-", site: "x = 1\n"}), files: write("/opt/named.toml", "x = 1\n"),
			changed: []string{"/opt/named.toml"},
		},
		"an import that is created only": {
			root: whole(map[string]string{"/opt/named.toml": "-", site: "x = 1\n"}), changed: []string{"/opt/named.toml"},
			files: []desired.File{
				{Path: "/opt/named.toml", Kind: desired.Regular, CreateOnly: true, Text: secret.PlainText("bad = 4\n")},
			},
			refusal: "bad = 4", file: "/opt/named.toml",
		},
		"an import that exists, and is created only": {
			root: whole(map[string]string{site: "x = 1\n"}), changed: []string{"/opt/named.toml"},
			files: []desired.File{
				{Path: "/opt/named.toml", Kind: desired.Regular, CreateOnly: true, Text: secret.PlainText("bad = 4\n")},
			},
		},
		"a missing import below /run": {
			root:  whole(map[string]string{config: "imports = [\"/run/later.toml\", \"/etc/containerd/conf.d/*.toml\"]\n"}),
			files: write(site, "x = 1\n"), code: fault.RuntimeConfig,
		},
		"a link to nothing": {
			root: whole(nil), files: write(site, "x = 1\n"), link: "/opt/gone.toml",
			refusal: "open " + linked + ": no such file", file: linked,
		},
		"a link to nothing below /run": {
			root: whole(nil), files: write(site, "x = 1\n"), link: "/run/later.toml", code: fault.RuntimeConfig,
		},
		"a link to a file": {
			root: whole(map[string]string{"/opt/x.toml": "bad = 8\n"}), files: write(site, "x = 1\n"), link: "/opt/x.toml",
			refusal: "bad = 8", file: linked,
		},
		"an import of an import": {
			root:    whole(map[string]string{"/opt/named.toml": "imports = [\"more.toml\"]\n", "/opt/more.toml": "x = 1\n", site: ""}),
			files:   write("/opt/more.toml", "x = 2\n"),
			changed: []string{"/opt/more.toml"},
		},
		"a file that it does not read": {
			root: whole(nil), files: write("/etc/containerd/certs.d/x/hosts.toml", "bad = 1\n"),
			changed: []string{"/etc/containerd/certs.d/x/hosts.toml"}, code: fault.Unread,
		},
		"no root file": {root: map[string]string{other: "bad = 2\n"}, files: write(site, "bad = 1\n"), code: fault.Unread},
		"a named root file": {
			root: map[string]string{
				"/etc/systemd/system/containerd.service": "[Service]\nExecStart=/usr/bin/containerd -c /opt/c.toml\n",
				"/opt/c.toml":                            "imports = [\"*.d/x.toml\"]\n", "/opt/e.d/x.toml": "bad = 7\n",
			},
			files: write("/opt/e.d/y.toml", ""), changed: []string{"/opt/c.toml"}, refusal: "bad = 7", file: "/opt/e.d/x.toml",
		},
		"a root file that a variable names": {
			root: map[string]string{
				"/etc/systemd/system/containerd.service": "[Service]\nEnvironment=CONTAINERD_CONFIG=/opt/c.toml\n" +
					"ExecStart=/usr/bin/containerd --config ${CONTAINERD_CONFIG}\n",
				"/opt/c.toml": "bad = 9\n",
			},
			files: write("/opt/c.toml", "bad = 9\n"), changed: []string{"/opt/c.toml"}, refusal: "bad = 9", file: "/opt/c.toml",
		},
		"a root file that a variable in a file names": {
			root: map[string]string{
				"/etc/systemd/system/containerd.service": "[Service]\nEnvironmentFile=-/etc/default/containerd\n" +
					"ExecStart=/usr/bin/containerd $ARGS\n",
				"/etc/default/containerd": "ARGS=-c /opt/c.toml\n", "/opt/c.toml": "bad = 9\n",
			},
			refusal: "bad = 9", file: "/opt/c.toml",
		},
		"behind a script": {
			root: whole(map[string]string{
				"/etc/systemd/system/containerd.service": "[Service]\nExecStart=/usr/bin/start-containerd /usr/bin/containerd\n",
			}),
			files: write(site, "bad = 1\n"), code: fault.RuntimeConfig, why: "starts /usr/bin/start-containerd",
		},
		"behind a script, a file that it does not read": {
			root: whole(map[string]string{
				"/etc/systemd/system/containerd.service": "[Service]\nExecStart=/bin/sh -c 'exec containerd'\n",
			}),
			files: write("/etc/containerd/x.toml", "bad = 1\n"), changed: []string{"/etc/containerd/x.toml"}, code: fault.Unread,
		},
		"an image's whole configuration": {root: whole(nil), refusal: "bad = \"old\"", file: site},
		"too many files":                 {root: whole(many()), code: fault.RuntimeConfig},
		"another machine":                {absent: true, files: write(site, "version = 3\nbad = 1\n"), refusal: "bad = 1", file: site},
		"another machine, accepted":      {absent: true, files: write(site, "version = 3\n")},
		"another machine, another file":  {absent: true, files: write("/opt/x.toml", "bad = 1\n"), changed: []string{"/opt/x.toml"}, code: fault.Unread},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			osfile.WriteTree(t, root, c.root)
			if c.link != "" {
				if err := os.Symlink(c.link, root+linked); err != nil {
					t.Fatal(err)
				}
			}
			program := filepath.Join(root, "usr/bin/containerd")
			osfile.Write(t, program, fakeContainerd, 0o755)
			a := RuntimeAsker{Root: nodefile.Root(root), Redactor: secret.NewRedactor(), Folder: t.TempDir()}
			if c.absent {
				a.Binary, _ = kubeletbin.At(program)
				a.Root = "/nonexistent"
			}
			if c.changed == nil && c.files != nil {
				c.changed = []string{site}
			}
			a.Finish(judge.FinishedRuntime{Files: c.files, Changed: c.changed})
			ans := a.Over(nil).Ask(t.Context(), tape.ConfigDump.Question(tape.ConfigDumpReq{}))

			var got tape.ConfigDumpAns
			if ans.Fault == nil {
				if err := json.Unmarshal(ans.Value, &got); err != nil {
					t.Fatal(err)
				}
			}
			isRefused := strings.Contains(got.Refusal, c.refusal) && (got.Refusal == "") == (c.refusal == "")
			if ans.Code() != c.code || !isRefused || got.File != c.file || !strings.Contains(ans.Why(), c.why) {
				t.Errorf("got %+v, %v; want code %q %q, refusal %q of %s", got, ans.Fault, c.code, c.why, c.refusal, c.file)
			}
			if text := string(ans.Value) + ans.Why(); strings.Contains(text, "hunter2") {
				t.Errorf("got %s, want no password", text)
			}
		})
	}
}

// many returns more files than are read.
func many() map[string]string {
	all := map[string]string{}
	for n := range maxRuntimeFiles {
		all[fmt.Sprintf("/etc/containerd/conf.d/%d.toml", n)] = "version = 3\n"
	}

	return all
}
