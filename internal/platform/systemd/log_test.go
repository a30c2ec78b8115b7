package systemd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What journalctl is asked for, and what becomes of its answer. That the real one gives it is seen in test/boot.
func TestLog(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	script := func(text string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, "journalctl"), []byte("#!/bin/sh\n"+text), 0o755))
	}
	at := time.Unix(1_800_000_000, 123_456_789)
	script(`printf '%s\n' "$@"`)
	got, err := Log(t.Context(), "kubelet.service", at)
	if want := "--quiet --no-pager --lines=4000 --output=cat --since=@1800000000.123456 " +
		"_SYSTEMD_UNIT=kubelet.service"; err != nil ||
		strings.Join(got, " ") != want {
		t.Errorf("%q, %v, want %s", got, err, want)
	}
	text, err := BootLog(t.Context(), "a.service", "b.service")
	if want := "--quiet --no-pager --lines=4000 --boot --output=short-iso-precise --unit=a.service " +
		"--unit=b.service"; err != nil || strings.ReplaceAll(text, "\n", " ") != want {
		t.Errorf("BootLog: got %q, %v; want %s", text, err, want)
	}
	got, err = StartLog(t.Context(), "kubelet.service", 7)
	if want := "--quiet --no-pager --boot --output=cat _SYSTEMD_UNIT=kubelet.service _PID=7"; err != nil ||
		strings.Join(got, " ") != want {
		t.Errorf("StartLog: got %q, %v; want %s", got, err, want)
	}
	script(":")
	if got, err := StartLog(t.Context(), "x", 7); len(got) != 0 || err != nil {
		t.Errorf("a process without lines: got %q, %v; want nothing", got, err)
	}
	if got, err := Log(t.Context(), "x", at); len(got) != 0 || err != nil {
		t.Errorf("an empty log: got %q, %v; want nothing", got, err)
	}
	script("echo No journal files were found. >&2; exit 1")
	if _, err := Log(t.Context(), "x", at); err == nil || !strings.Contains(err.Error(), "No journal files") {
		t.Errorf("no journal: got %v, want journalctl's error", err)
	}
	if _, err := StartLog(t.Context(), "x", 7); err == nil || !strings.Contains(err.Error(), "No journal files") {
		t.Errorf("no journal: got %v from StartLog, want journalctl's error", err)
	}
	script(
		"i=0; while [ $i -lt 40000 ]; do echo \"line $i " +
			"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"; i=$((i+1)); done",
	)
	if got, err := Log(t.Context(), "x", at); err != nil || !strings.HasPrefix(got[len(got)-1], "line 39999 ") ||
		len(strings.Join(got, "\n")) > logBytes {
		t.Errorf("a flood: got %d lines, %v; want the newest %d bytes", len(got), err, logBytes)
	}
	first, err := StartLog(t.Context(), "x", 7)
	if err != nil || !strings.HasPrefix(first[0], "line 0 aaa") || len(strings.Join(first, "\n")) > startBytes {
		t.Errorf("the first lines of a flood: got %d lines, %v; want the oldest %d bytes", len(first), err, startBytes)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Log(t.Context(), "x", at); err == nil {
		t.Error("without journalctl: got no error, want one")
	}
}
