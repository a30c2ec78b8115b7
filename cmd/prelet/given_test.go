package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// No command takes an empty value for one that was not given, whichever of its flags has it; and none steps out of the check.
func TestNotEmpty(t *testing.T) {
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
			if err := refuseEmptyFlags(one, nil); err == nil || !strings.Contains(err.Error(), "--"+f.Name+" is empty") {
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
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, args := range []string{"version", "version -o json", "--version", "schema", "explain code/usage"} {
		var stderr bytes.Buffer
		if code := run(strings.Fields(args), full, &stderr); code != 70 || !strings.Contains(stderr.String(), "cannot print") {
			t.Errorf("%s: exit %d: %s", args, code, &stderr)
		}
	}
}

// Before the first run there is no time at which it began.
func TestStatusBeforeAnyRun(t *testing.T) {
	m := newMachine(t)
	for _, args := range [][]string{{"status"}, {"status", "-o", "json"}} {
		e := m.as("", args...)
		if e.exit != 3 || strings.Contains(e.out, "0001-01-01") {
			t.Errorf("exit %d: %s", e.exit, e.out)
		}
		if !slices.Contains(args, "json") && !strings.Contains(strings.Join(strings.Fields(e.out), " "), "prelet history --root DIR") {
			t.Errorf("it does not say where runs with --root are: %s", e.out)
		}
	}
}
