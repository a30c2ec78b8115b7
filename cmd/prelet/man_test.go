package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each command has a manual page with its flags, and the language has one with its blocks. A time that cannot be read is
// an error: pages of a package must not depend on the day.
func TestManPages(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program once more")
	}

	dir := t.TempDir()
	program := filepath.Join(t.TempDir(), "man")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-tags", "grpcnotrace,man",
		"-ldflags", "-s -w", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build -tags man: got %v, want no error\n%s", err, out)
	}
	write := func(epoch string) (string, error) {
		c := exec.CommandContext(t.Context(), program, dir)
		c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+epoch)
		out, err := c.CombinedOutput()
		return string(out), err
	}

	out, err := write("yesterday")
	if want := "invalid $SOURCE_DATE_EPOCH \"yesterday\""; err == nil || !strings.Contains(out, want) {
		t.Errorf("at no time: got %v, %s; want an error with %q", err, out, want)
	}
	if out, err := write("1772323200"); err != nil { // 2026-03-01
		t.Fatalf("got %v, %s; want no error", err, out)
	}

	for page, wants := range map[string][]string{
		"prelet.8": {
			`"Mar 2026"`, `\fBprelet-plan(8)\fP`, "/run/prelet/status.json", "\\fB64\\fP\nThe command line is not valid.",
		},
		"prelet-plan.8":         {`\fB--against\fP=""`, `\fB-o\fP, \fB--output\fP=`, `\fB--full\fP`},
		"prelet-history-diff.8": {`\fBprelet history diff A [B] [flags]\fP`, "prelet-history(8)"},
		"prelet-fleet.8":        {`\fBprelet fleet [flags]\fP`, "Work with reports about many machines.", `prelet-fleet-merge`},
		"prelet.5": {
			"\\fBca_cert_hashes\\fR (list of string, null)\n", ".SS slug", ".SH Stage type reserve", ".SH Facts",
		},
		"prelet.bash": {"__start_prelet"},
		"prelet.fish": {"complete -c prelet"},
		"prelet.zsh":  {"#compdef prelet"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil {
			t.Errorf("%s: got %v, want a file", page, err)
			continue
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: got\n%.20000s\nwant it to contain %s", page, text, want)
			}
		}
	}

	for path := range commandsByPath(t) {
		name := "prelet-" + strings.ReplaceAll(path, " ", "-") + ".8"
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("prelet %s: got %v, want a page", path, err)
		}
	}
}
