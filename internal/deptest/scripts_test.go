package deptest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestModulesScript holds that the script that writes the modules of Kubernetes leaves them as they were after a
// failure, here for lack of a network.
func TestModulesScript(t *testing.T) {
	script, err := os.ReadFile("../../test/kube/modules.sh")
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	before := map[string]string{"modules.sh": string(script), "go.mod": "module example.com/kube\n", "go.sum": "a sum\n"}
	for name, text := range before {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, "modules.sh"), "new")
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod", "GOMODCACHE="+t.TempDir(), "TMPDIR="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("modules.sh without a network: got status 0; want another one:\n%s", out)
	}

	for name, want := range before {
		if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != want {
			t.Errorf("%s after a failure: got %q, %v; want %q", name, got, err, want)
		}
	}
}

// TestGoldenImageChecksFirst holds that the script that builds an image names all missing packages before it begins.
func TestGoldenImageChecksFirst(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	script := "../../packaging/image/mmdebstrap/build.sh"
	cmd := exec.CommandContext(t.Context(), bash, script, filepath.Join(dir, "golden.raw"), "1.37.1", dir)
	cmd.Env = []string{"PATH=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if want := "missing programs: apt-get install mmdebstrap"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("build.sh without its programs: got %v and\n%s\nwant an error and %q", err, out, want)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files after that: got %v, %v; want none", left, err)
	}
}
