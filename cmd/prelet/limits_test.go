package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An evaluation that reached a limit goes on until its process ends. So a command begins no other after it, and a
// console ends.
func TestNoEvaluationAfterALimit(t *testing.T) {
	t.Parallel()
	const (
		hugeLocals = `
locals {
  a = range(0, 1000)
  s = join(",", [for x in local.a : "a text that is about sixty-four bytes long, and a little longer"])
  u = [for x in local.a : [for y in local.a : "${x}${y}${local.s}"]]
}
stage "label" "place" { labels = { "example.com/n" = length(local.u) } }
`
		hugeLine = `[for x in range(0, 1000) : [for y in range(0, 1000) : "${x}${y}` + "TEXT" + `"]]` + "\n"
	)
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}

		return name
	}
	site := filepath.Dir(write("site/site.hcl", hugeLocals))
	recording, err := os.ReadFile("../../testdata/recordings/v1/gpu.prelet")
	if err != nil {
		t.Fatal(err)
	}
	recordings := filepath.Join(dir, "recordings")
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		write("recordings/"+name+".prelet", string(recording))
	}
	line := strings.Replace(hugeLine, "TEXT", strings.Repeat("a long text, ", 4000), 1)

	// On a busy machine the limit of time may come before that of memory.
	console := exec.CommandContext(t.Context(), "prelet", "console", "--from", recordings+"/a.prelet")
	console.Stdin = strings.NewReader(line + "1 + 1\n")
	out, err := console.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "[limit]") || strings.Contains(string(out), "\n2\n") {
		t.Errorf("console: got %v and %.2000q; want that it ends with the limit", err, out)
	}

	plan := exec.CommandContext(t.Context(), "prelet", "plan", "--from", recordings, "--config", site)
	if out, err := plan.CombinedOutput(); err == nil || !strings.Contains(string(out), "[limit]") {
		t.Errorf("plan: got %v and %.2000q; want a status other than 0, and the limit", err, out)
	}
}
