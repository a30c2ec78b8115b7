package matrix

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestFailureOutside: a suite of which only something else than a noted test has failed did not pass.
func TestFailureOutside(t *testing.T) {
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		t.Skip("this reads packages of Debian")
	}
	root, folder := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"etc/apt/sources.list": "deb http://localhost trixie main\n",
		"var/lib/dpkg/status": "Package: systemd\nStatus: install ok installed\nArchitecture: amd64\nVersion: 257.13-1\n" +
			"Maintainer: x\nDescription: x\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	for _, outside := range []string{"", "what needs no machine"} {
		r := &Run{}
		t.Run("noted", r.Watch)
		if outside != "" {
			r.Fail(outside)
		}
		if err := r.Write(folder, root); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(folder, "trixie.matrix.json"))
		if err != nil {
			t.Fatal(err)
		}
		var got SuiteResult
		err = json.Unmarshal(text, &got)
		hasFailed := slices.Equal(got.Failed, []string{outside})
		if err != nil || got.Passed != 1 || got.Systemd != "257.13" || hasFailed != (outside != "") {
			t.Errorf("outside %q: got %+v, %v", outside, got, err)
		}
	}
}
