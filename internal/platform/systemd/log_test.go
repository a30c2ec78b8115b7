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
	const at = 7 * time.Second // since boot
	joined := func(lines []string, err error) (string, error) { return strings.Join(lines, " "), err }
	log := func() (string, error) { return joined(Log(t.Context(), "kubelet.service", "b00d", at)) }
	start := func() (string, error) { return joined(StartLog(t.Context(), "kubelet.service", 7)) }
	boot := func() (string, error) {
		hide := strings.NewReplacer("secret", "(sensitive)", "\n", " ").Replace
		text, err := ExportLog(t.Context(), "a.service", "b.service")
		return HideInExport(text, hide), err
	}
	const arguments, failure = `printf '%s\n' "$@"`, "echo No journal files were found. >&2; exit 1"
	for _, c := range []struct {
		script    string
		read      func() (string, error)
		want, err string
	}{
		{`printf '__CURSOR=s\n__MONOTONIC_TIMESTAMP=7000000\nMESSAGE=%s\n\n' "$*"`, log, "--quiet --no-pager " +
			"--lines=4000 --output=export --output-fields=MESSAGE _BOOT_ID=b00d _SYSTEMD_UNIT=kubelet.service", ""},
		// The wall clock was set back: what this boot has written before has a later time.
		{`printf '__REALTIME_TIMESTAMP=2\n__MONOTONIC_TIMESTAMP=6999999\nMESSAGE=old\n\n'
			printf '__REALTIME_TIMESTAMP=1\n__MONOTONIC_TIMESTAMP=7000001\nMESSAGE\n\5\0\0\0\0\0\0\0a\n\33b\n\n\n'`,
			log, "a \x1bb ", ""},
		{`echo "A=$*"`, boot, "A=--quiet --no-pager --boot --lines=4000 --output=export --output-fields=MESSAGE,MESSAGE_ID," +
			"PRIORITY,SYSLOG_IDENTIFIER,_PID,_SYSTEMD_UNIT,UNIT,PRELET_STAGE,PRELET_GENERATION --unit=a.service " +
			"--unit=b.service\n", ""},
		{`printf 'A=a secret\nM\n\7\0\0\0\0\0\0\0\nsecret\n\nB=b\nM\n\7\0\0\0\0\0\0\0\nsecret'`, boot,
			"A=a (sensitive)\nM\n\x0c\x00\x00\x00\x00\x00\x00\x00 (sensitive)\n\nB=b\n", ""},
		{arguments, start, "--quiet --no-pager --boot --output=cat _SYSTEMD_UNIT=kubelet.service _PID=7", ""},
		{":", start, "", ""},
		{":", log, "", ""},
		{failure, log, "", "No journal files"},
		{failure, start, "", "No journal files"},
	} {
		script(c.script)
		got, err := c.read()
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("journalctl is %s: got %q, %v; want %q, %q", c.script, got, err, c.want, c.err)
		}
	}
	const message = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	script(`i=0; while [ $i -lt 40000 ]; do
		printf '__CURSOR=s\n__MONOTONIC_TIMESTAMP=7000000\nMESSAGE=line %d ` + message + `\n\n' $i; i=$((i+1)); done`)
	if got, err := Log(t.Context(), "x", "b00d", at); err != nil || !strings.HasPrefix(got[0], "line ") ||
		!strings.HasPrefix(got[len(got)-1], "line 39999 ") || len(strings.Join(got, "\n")) > logBytes {
		t.Errorf("a flood: got %d lines, %v; want the newest %d bytes", len(got), err, logBytes)
	}
	script(`i=0; while [ $i -lt 40000 ]; do echo "line $i ` + message + `"; i=$((i+1)); done`)
	first, err := StartLog(t.Context(), "x", 7)
	if err != nil || !strings.HasPrefix(first[0], "line 0 aaa") || len(strings.Join(first, "\n")) > startBytes {
		t.Errorf("the first lines of a flood: got %d lines, %v; want the oldest %d bytes", len(first), err, startBytes)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Log(t.Context(), "x", "b00d", at); err == nil {
		t.Error("without journalctl: got no error, want one")
	}
}
