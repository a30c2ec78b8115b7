package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A folder of recordings ends in one line that says how many plans are how, and in the status of what to mend first.
func TestPlanOverAFolder(t *testing.T) {
	fleet := t.TempDir()
	put := func(name, from string) {
		b, err := os.ReadFile("../../testdata/recordings/v1/" + from + ".prelet")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(fleet, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	plan := func(args ...string) (int, string, string) {
		var stdout, stderr bytes.Buffer
		code := run(append([]string{"plan", "--from", fleet}, args...), &stdout, &stderr)
		return code, stdout.String(), stderr.String()
	}
	put("a.prelet", "gpu")
	put("b.prelet", "gpu")
	put("c.prelet", "base")
	code, out, _ := plan()
	if code != 0 || !strings.Contains(out, "━━ 3 recordings: 3 would change, 0 failed, 2 degraded; 2 different plans\n") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	if code, _, _ := plan("--detailed-exitcode"); code != 2 {
		t.Errorf("something would change, and the exit status is %d", code)
	}
	code, out, _ = plan("-o", "json")
	if code != 0 || strings.Count(out, "\n") != 3 || strings.Contains(out, "━━") {
		t.Errorf("exit %d, not one document for each:\n%s", code, out)
	}

	// One that is no recording (64), one whose site is refused (10): the lower one is told, and that there was one more.
	if err := os.WriteFile(filepath.Join(fleet, "d.prelet"), []byte("garbled\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := plan("--detailed-exitcode"); code != 64 || !strings.Contains(out, "d.prelet (exit status 64)") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	bad := filepath.Join(t.TempDir(), "bad.hcl")
	if err := os.WriteFile(bad, []byte("stage \"lable\" \"x\" {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, _ = plan("--config", bad)
	if code != 10 || !strings.Contains(out, "━━ 4 recordings: 0 would change, 4 failed, 0 degraded; 0 different plans\n   failed: ") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}
