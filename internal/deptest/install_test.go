package deptest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

// TestInstall tags this tree as tools/tag.sh tags a release, serves the tagged modules from a folder as a module proxy
// does, and installs the programs from it, without git and without a network. `make check-install` selects it.
func TestInstall(t *testing.T) {
	if os.Getenv("PRELET_INSTALL") == "" {
		t.Skip("compiles all programs; PRELET_INSTALL=1 selects it")
	}
	const (
		version = "v0.99.7"
		module  = "github.com/prelet/prelet"
	)
	repository := commitTree(t)
	head := runIn(t, repository, nil, "git", "rev-parse", "HEAD")

	others := "file://" + strings.TrimSpace(runIn(t, ".", nil, "go", "env", "GOMODCACHE")) + "/cache/download"
	offline := []string{"GOPROXY=off", "GOSUMDB=off", "GOFLAGS=-trimpath"}
	push := runIn(t, repository, offline, "tools/tag.sh", strings.TrimPrefix(version, "v"))

	tags := []string{"editors/prelet-ls/" + version, "plugins/" + version, version}
	if got := strings.Fields(runIn(t, repository, nil, "git", "tag")); !slices.Equal(got, tags) {
		t.Errorf("tags: got %q, want %q", got, tags)
	}
	if want := "git push --atomic origin"; !strings.HasPrefix(push, want) {
		t.Errorf("output of tag.sh: got %q, want the command %q", push, want)
	}
	if got := runIn(t, repository, nil, "git", "rev-parse", "HEAD"); got != head {
		t.Errorf("HEAD of the checkout: got %s, want it as before: %s", got, head)
	}
	for _, folder := range []string{"", "plugins/", "editors/prelet-ls/", "examples/detector-template/"} {
		text := runIn(t, repository, nil, "git", "show", version+":"+folder+"go.mod")
		if strings.Contains(text, "\nreplace ") {
			t.Errorf("%sgo.mod at %s: got\n%s\nwant no replace, which `go install` refuses", folder, version, text)
		}
	}

	// What a proxy has of the repository at these tags, made by Go's own code.
	cache := filepath.Join(t.TempDir(), "modules")
	runIn(t, t.TempDir(), append(offline,
		"GOMODCACHE="+cache, "GOPROXY="+others, "GOPRIVATE="+module, "GOFLAGS=-modcacherw", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url.file://"+repository+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+module,
	), "go", "mod", "download", module+"@"+version, module+"/plugins@"+version, module+"/editors/prelet-ls@"+version)

	bin := t.TempDir()
	flags := "GOFLAGS=-modcacherw -trimpath -gcflags=all=-dwarf=false -tags=grpcnotrace" // those of make build, which are compiled
	user := append(offline, "GOBIN="+bin, "GOMODCACHE="+filepath.Join(t.TempDir(), "modules"), flags,
		"GOPROXY=file://"+cache+"/cache/download,"+others, "GOVCS=*:off")
	for program, args := range table.YAML[map[string][]string](t, `
/cmd/prelet: [version]
/cmd/kubectl-prelet: [--version]
/editors/prelet-ls: [-version]
/cmd/prelet-detect:
/cmd/prelet-detector-check:
/plugins/cmd/lldp:
`) {
		runIn(t, bin, user, "go", "install", module+program+"@"+version)
		if args == nil {
			continue
		}
		got := runIn(t, bin, nil, filepath.Join(bin, filepath.Base(program)), args...)
		if !strings.Contains(got, " "+strings.TrimPrefix(version, "v")) {
			t.Errorf("%s %s: got %q, want the version %s", program, args, got, version)
		}
	}

	again := exec.CommandContext(t.Context(), "tools/tag.sh", strings.TrimPrefix(version, "v"))
	again.Dir = repository
	if out, err := again.CombinedOutput(); err == nil || !strings.Contains(string(out), "exists already") {
		t.Errorf("tag.sh of the same version again: got %v, %s; want an error", err, out)
	}
}

// commitTree returns a repository with one commit: this tree, without what git ignores.
func commitTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	runIn(t, root(t), nil, "sh", "-c", `git ls-files -z -co --exclude-standard |
		tar -c --null --files-from=- --ignore-failed-read | tar -x -C "$1"`, "sh", dir)
	runIn(t, dir, nil, "git", "init", "-q")
	for name, value := range map[string]string{"user.name": "test", "user.email": "test@example.com", "tag.gpgSign": "false"} {
		runIn(t, dir, nil, "git", "config", name, value)
	}
	runIn(t, dir, nil, "git", "add", "-A")
	runIn(t, dir, nil, "git", "commit", "-q", "--no-gpg-sign", "-m", "all of it")

	return dir
}

// runIn runs a command in a folder and returns its standard output.
func runIn(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: got %v, want no error\n%s", name, strings.Join(args, " "), err, &stderr)
	}

	return string(out)
}
