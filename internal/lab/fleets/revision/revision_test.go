package revision

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/plan/lang"
)

// TestRevisionLimits: the size of a file is checked before it is read, and git never fetches: a repository decides which
// command that would run.
func TestRevisionLimits(t *testing.T) {
	tests := map[string]struct {
		text   string
		remove bool // the object, as in a partial clone
		want   string
	}{
		"large file":     {text: strings.Repeat("#", 2*lang.MaxBytes), want: "a file of a site has at most"},
		"missing object": {text: "# site\n", remove: true, want: "does not have the content of site.hcl"},
		"usual file":     {text: "# site\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			site := filepath.Join(dir, "site.hcl")
			marker := filepath.Join(dir, "fetched")
			if err := os.WriteFile(site, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			run := func(args ...string) string {
				t.Helper()
				args = append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)
				out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
				if err != nil {
					t.Fatalf("git %v: %v\n%s", args, err, out)
				}
				return strings.TrimSpace(string(out))
			}
			run("init", "-q")
			run("add", "site.hcl")
			run("commit", "-q", "-m", "site")
			run("config", "core.repositoryFormatVersion", "1")
			run("config", "extensions.partialClone", "origin")
			run("config", "remote.origin.url", "ssh://host.invalid/site")
			run("config", "remote.origin.promisor", "true")
			run("config", "core.sshCommand", "touch "+marker+"; false")
			if object := run("rev-parse", "HEAD:site.hcl"); test.remove {
				if err := os.Remove(filepath.Join(dir, ".git", "objects", object[:2], object[2:])); err != nil {
					t.Fatal(err)
				}
			}

			_, err := Read(t.Context(), "HEAD", []string{site})
			if test.want == "" && err != nil {
				t.Errorf("got %v, want no error", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if _, err := os.Lstat(marker); err == nil {
				t.Error("git ran core.sshCommand, want no fetch")
			}
		})
	}
}

// TestMovedTag moves a tag while the files of two folders are read: all are of one commit.
func TestMovedTag(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	script := `cd ` + dir + `
git init -q
git config user.name t
git config user.email t@example.com
mkdir a b
for v in 1 2; do
	echo "# $v" | tee a/a.hcl >b/b.hcl
	git add .
	git commit -q -m $v
	git tag v$v
done
git tag moving v1
cat >` + bin + `/git <<-EOF
	#!/bin/sh
	` + git + ` "\$@" && case "\$*" in *ls-tree*) ` + git + ` -C ` + dir + ` tag --force moving v2 >/dev/null;; esac
EOF
chmod +x ` + bin + `/git`
	if out, err := exec.CommandContext(t.Context(), "sh", "-e", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))

	files, err := Read(t.Context(), "moving", []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range files.files {
		if f.Mode().IsRegular() && string(f.text) != "# 1\n" {
			t.Errorf("%s: got %q, want that of the first commit", name, f.text)
		}
	}
}
