package main

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
			noError(t, err)
			noError(t, one.Flags().Set(f.Name, ""))
			if err := refuseEmptyFlags(one); err == nil ||
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
	if err := refuseEmptyFlags(root); err != nil {
		t.Errorf("nothing was given: %v", err)
	}
}

// TestErrorWithoutFault: an error that is not about the command line is one of prelet, which its unit tries again.
func TestErrorWithoutFault(t *testing.T) {
	t.Parallel()
	got := toExitError(errors.New("attempts: no space"))
	if got.code != fault.Internal || got.status != 70 || got.Error() != "attempts: no space" || !got.code.IsRetried() {
		t.Errorf("got %q, %d, %q; want %q, 70 and the text alone", got.code, got.status, got.Error(), fault.Internal)
	}
}

// TestRefusedByCobra: what cobra finds wrong with a command line is a fault of the caller, and only that.
func TestRefusedByCobra(t *testing.T) {
	t.Parallel()
	for line, isValid := range map[string]bool{
		"version":                      true,
		"version x":                    false,
		"statuz":                       false,
		"detectors lock":               false,
		"status --image --root /mnt/x": false,
		"status --nothing":             false,
		"help statuz":                  true, // a command, which refuses its argument
	} {
		a := cli{stdout: io.Discard, stderr: io.Discard, getenv: os.Getenv}
		got := a.execute(strings.Fields(line))
		want := exitError{status: 64, code: fault.Usage}
		if line == "version" {
			want = exitError{}
		}
		if got.status != want.status || got.code != want.code || a.begun != isValid {
			t.Errorf("prelet %s: got %d, %q, valid %t; want %d, %q, valid %t",
				line, got.status, got.code, a.begun, want.status, want.code, isValid)
		}
	}
}

// TestOneCommandIsBuilt checks that a command line has the command that it names, and the help all.
func TestOneCommandIsBuilt(t *testing.T) {
	a := &cli{getenv: os.Getenv}
	for name, build := range a.commands() {
		if got := build().Name(); got != name {
			t.Errorf("commands: got the command %q for the name %q", got, name)
		}
	}

	count := func(args ...string) (n int) {
		for _, c := range a.root(args...).Commands() {
			if a.commands()[c.Name()] != nil {
				n++
			}
		}
		return n
	}
	all := len(a.commands())
	for _, tt := range []struct {
		args []string
		want int
	}{
		{[]string{"run", "--retry"}, 1},
		{[]string{"detectors", "lock"}, 1},
		{[]string{"help", "run"}, all},
		{[]string{"--root", "run"}, all},
		{[]string{"runn"}, all},
		{nil, all},
	} {
		if got := count(tt.args...); got != tt.want {
			t.Errorf("root of %q: got %d commands, want %d", tt.args, got, tt.want)
		}
	}
}
