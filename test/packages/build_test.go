package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// builds are the paths of a deb and an rpm.
type builds struct{ deb, rpm string }

var (
	buildMutex sync.Mutex // tools/package.sh collects files in bin/package
	built      = map[string]builds{}
)

// laterLine is at the end of each unit and of the gate's drop-in in packages of the version newer.
const laterLine = "# Of a later version."

// buildPackages makes packages once for each version: older of this tree's programs in .cache, and newer of a copy of
// this tree in which the units, the gate's drop-in and the program's version differ.
func buildPackages(t *testing.T, version string) builds {
	t.Helper()
	buildMutex.Lock()
	defer buildMutex.Unlock()
	if b, ok := built[version]; ok {
		return b
	}

	folder, err := filepath.Abs(filepath.Join(".cache", "packages-"+version))
	must(t, err)
	must(t, os.RemoveAll(folder))
	if version == newer {
		env := []string{"SOURCE_DATE_EPOCH=" + commitTime(t)}
		build(t, copyTree(t), env, "sh", "-c", `
			for file in packaging/systemd/*.service packaging/systemd/kubelet.service.d/*; do echo "$1" >>"$file"; done
			make build VERSION="$2" && tools/package.sh "$2" "$3"`, "sh", laterLine, version, folder)
	} else {
		build(t, "../..", nil, "tools/package.sh", version, folder)
	}
	built[version] = findPackages(t, folder)

	return built[version]
}

func build(t *testing.T, dir string, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Env = append(cmd.Env, env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: got %v, want no error\n%s", name, strings.Join(args, " "), err, out)
	}
}

func findPackages(t *testing.T, folder string) builds {
	t.Helper()
	debs, _ := filepath.Glob(folder + "/prelet_*.deb")
	rpms, _ := filepath.Glob(folder + "/prelet-[0-9]*.rpm")
	if len(debs) != 1 || len(rpms) != 1 {
		t.Fatalf("packages in %s: got %q, %q; want one deb and one rpm", folder, debs, rpms)
	}

	return builds{debs[0], rpms[0]}
}

// copyTree returns a copy of the tree without what git ignores.
func copyTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build(t, "../..", nil, "sh", "-c", `git ls-files -z -co --exclude-standard |
		tar -c --null --files-from=- --ignore-failed-read | tar -x -C "$1"`, "sh", dir)

	return dir
}

// commitTime returns the time that packages get: that of the commit, in seconds.
func commitTime(t *testing.T) string {
	t.Helper()
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		return epoch
	}

	return output(t, "git", "log", "-1", "--format=%ct")
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}

	return strings.TrimSpace(string(out))
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)

	return content
}
