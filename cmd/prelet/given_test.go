package main

import (
	"errors"
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
