// Package arm64 compares the programs of two architectures, on amd64: those of arm64 run by binfmt_misc with qemu-user.
package arm64

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// wanted is set by make e2e-arm64: without it the tests are skipped, with it they need a machine that runs arm64.
const wanted = "PRELET_ARM64"

// TestPlans plans each recorded machine with each site on amd64 and on arm64, and each kept recording. The plans must be
// equal, byte for byte, and so must messages and exit status.
func TestPlans(t *testing.T) {
	t.Parallel()
	if os.Getenv(wanted) == "" {
		t.Skip("needs a machine that runs programs of arm64: make e2e-arm64")
	}
	programs := map[string]string{"amd64": build(t, "amd64"), "arm64": build(t, "arm64")}
	facts, _ := filepath.Glob("../../testdata/hardware/facts/*.json")
	recordings, _ := filepath.Glob("../../testdata/recordings/v1/*.prelet")
	if len(facts) < 20 || len(recordings) < 5 {
		t.Fatalf("machines: got %d, recordings: got %d; want more", len(facts), len(recordings))
	}

	root := t.TempDir()
	var planned int
	compare := func(args ...string) {
		t.Helper()
		var outputs [][]byte
		for _, arch := range []string{"amd64", "arm64"} {
			cmd := exec.Command(programs[arch], append([]string{"plan", "-o", "json"}, args...)...)
			cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}
			out, err := cmd.CombinedOutput()
			if bytes.Contains(out, []byte(`"complete":true`)) {
				planned++
			}
			outputs = append(outputs, append(out, cmd.ProcessState.String()...))
			if cmd.ProcessState == nil {
				t.Fatalf("%s on %s: %v", cmd, arch, err)
			}
		}
		if !bytes.Equal(outputs[0], outputs[1]) {
			t.Errorf("prelet plan %s: got on arm64\n%s\nwant as on amd64\n%s", args, outputs[1], outputs[0])
		}
	}

	for _, site := range []string{"minimal", "kubeadm", "gpu-training"} {
		for _, machine := range facts {
			args := []string{
				"--config", "../../examples/" + site, "--objects", "../../examples/objects",
				"--hardware", machine, "--root", root,
			}
			if site != "minimal" {
				args = append(args, "--var", "zone=az1-r07")
			}
			compare(args...)
		}
	}
	for _, recording := range recordings {
		compare("--from", recording)
	}
	if all := 2 * (3*len(facts) + len(recordings)); planned < all*7/10 {
		t.Errorf("complete plans: got %d of %d, want at least seven in ten", planned, all)
	}
}

// build builds prelet for an architecture, and returns its path.
func build(t *testing.T, arch string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "prelet")
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace", "-o", program, "../../cmd/prelet")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build for %s: %v\n%s", arch, err, out)
	}
	if out, err := exec.Command(program, "--version").CombinedOutput(); err != nil {
		const hint = "install qemu-user-static, and register it in binfmt_misc"
		t.Fatalf("a program of %s does not run here (%s): %v\n%s", arch, hint, err, strings.TrimSpace(string(out)))
	}

	return program
}
