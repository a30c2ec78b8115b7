package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/fault"
)

// No command takes an empty value for one that was not given, whichever of its flags has it; and none steps out of
// the check.
func TestNotEmpty(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	fresh := func() *cobra.Command { return (&cli{getenv: os.Getenv}).root() }
	var walk func(c *cobra.Command, path []string)
	walk = func(c *cobra.Command, path []string) {
		if c.HasParent() && (c.PersistentPreRunE != nil || c.PersistentPreRun != nil) {
			t.Errorf("%s replaces the check", c.CommandPath())
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if typ := f.Value.Type(); typ != "string" && typ != "stringArray" {
				return
			}
			seen[f.Name]++
			one, _, err := fresh().Find(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := one.Flags().Set(f.Name, ""); err != nil {
				t.Fatal(err)
			}
			if err := refuseEmptyFlags(one, nil); err == nil ||
				!strings.Contains(err.Error(), "--"+f.Name+" is empty") {
				t.Errorf("%s --%s '': %v", c.CommandPath(), f.Name, err)
			}
		})
		for _, sub := range c.Commands() {
			walk(sub, append(slices.Clip(path), sub.Name()))
		}
	}
	root := fresh()
	if root.PersistentPreRunE == nil {
		t.Fatal("nothing checks")
	}
	walk(root, nil)
	for _, name := range []string{"root", "config", "hardware", "objects", "from"} {
		if seen[name] == 0 {
			t.Errorf("no command has --%s", name)
		}
	}
	if err := refuseEmptyFlags(root, nil); err != nil {
		t.Errorf("nothing was given: %v", err)
	}
}

// An output that takes nothing ends each command that prints with the same status.
func TestNothingPrinted(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatalf("open /dev/full: got error %v, want none", err)
	}
	defer full.Close()
	for _, args := range []string{"version", "version -o json", "--version", "schema", "explain code/usage"} {
		var stderr bytes.Buffer
		if code := run(strings.Fields(args), full, &stderr); code != 40 ||
			!strings.Contains(stderr.String(), "cannot print") {
			t.Errorf("%s: exit %d: %s", args, code, &stderr)
		}
	}
}

// Before the first run there is no time at which it began.
func TestStatusBeforeAnyRun(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for _, args := range [][]string{{"status"}, {"status", "-o", "json"}} {
		e := m.as("", args...)
		if e.exit != 3 || strings.Contains(e.out, "0001-01-01") {
			t.Errorf("exit %d: %s", e.exit, e.out)
		}
		if !slices.Contains(args, "json") &&
			!strings.Contains(strings.Join(strings.Fields(e.out), " "), "prelet history --root DIR") {
			t.Errorf("it does not say where runs with --root are: %s", e.out)
		}
	}
}

// A boot that has no report: status names what prelet.service does, as systemd knows it.
func TestStatusWithoutReport(t *testing.T) {
	t.Parallel()
	for want, unit := range map[string]activation.Unit{
		"process 17 of prelet.service has begun, and has not reported yet": {Active: "activating", MainPID: 17, Started: 1},
		"prelet.service waits for other units":                             {Active: "inactive", Job: 3},
		"has not run on this node":                                         {Active: "inactive"},
	} {
		m := newMachine(t)
		m.self = unit
		status := m.as("", "status")
		status.out = strings.Join(strings.Fields(status.out), " ")
		m.want("status", status, ended{3, want, ""})
	}
}

// TestWrongUsage: what cobra finds wrong with a command line is a fault of its caller.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"nosuch", "rollback 1 2", "init a b", "detectors lock", "detectors nosuch", "completion bash x", "run --nosuch",
		"status x",
	} {
		var stdout, stderr bytes.Buffer
		code := run(strings.Fields(line), &stdout, &stderr)
		if code != 64 || !strings.Contains(stderr.String(), "prelet: ") {
			t.Errorf("prelet %s: got exit %d, %q; want 64 and a next step", line, code, &stderr)
		}
	}
}

// TestErrorWithoutFault: an error that is not about the command line is one of prelet, which its unit tries again.
func TestErrorWithoutFault(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"run", "rollback 1", "detectors list"} {
		root := (&cli{getenv: os.Getenv}).root()
		err := describeUnknownCommand(root, strings.Fields(line), errors.New("attempts: no space"))
		got := toExitError(err)
		if got.code != fault.Internal || got.status != 70 || got.Error() != "attempts: no space" ||
			!got.code.IsRetried() {
			t.Errorf(
				"prelet %s: got %q, %d, %q; want %q, 70 and the text alone",
				line,
				got.code,
				got.status,
				got.Error(),
				fault.Internal,
			)
		}
	}
}

// TestNoSiteInJSON: a command without a result because of the site prints the site's errors as its document.
func TestNoSiteInJSON(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "site.hcl")
	if err := os.WriteFile(file, []byte("stage {"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"detect", "detectors list"} {
		var stdout, stderr bytes.Buffer
		code := run(append(strings.Fields(line), "--config", file, "-o", "json"), &stdout, &stderr)
		if code != 10 || !strings.Contains(stdout.String(), "site.hcl") ||
			!strings.Contains(stderr.String(), "stage {") {
			t.Errorf("prelet %s: exit %d; want 10, a document with the file, and its line for people\n%s\n%s",
				line, code, &stdout, &stderr)
		}
	}
}

// TestLockNothing: a program that is not there is named as it was given; no lock names it.
func TestLockNothing(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	file := filepath.Join(t.TempDir(), "none")
	code := run([]string{"detectors", "lock", file}, &stdout, &stderr)
	if want := "prelet: not there: " + file + "\n"; code != 64 || stderr.String() != want {
		t.Errorf("got exit %d, %q; want 64, %q", code, &stderr, want)
	}
}
