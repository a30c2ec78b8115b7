package main

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commandsByPath returns each command that prelet's help shows and that can be run, by its path below prelet.
func commandsByPath(t *testing.T) map[string]*cobra.Command {
	t.Helper()

	found := map[string]*cobra.Command{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Hidden || sub.Name() == "completion" || sub.Name() == "help" {
				continue
			}
			if sub.Runnable() {
				found[strings.TrimPrefix(sub.CommandPath(), "prelet ")] = sub
			}
			walk(sub)
		}
	}
	walk((&cli{getenv: os.Getenv}).root())

	if len(found) < 25 {
		t.Fatalf("the command tree: got %d commands, want 25 or more", len(found))
	}
	return found
}

// A flag has one meaning: the same help and the same kind of value in each command.
func TestFlagsHaveOneMeaning(t *testing.T) {
	t.Parallel()
	otherwise := map[string]string{
		"report --against":      "a page has one comparison",
		"test --config":         "the default is the folder of the test file",
		"init --root":           "only with --from-node",
		"init --ca-file":        "it has the CA of the cluster, not of a registry",
		"status --long":         "what is shown in addition depends on the command",
		"detectors list --long": "what is shown in addition depends on the command",
	}

	type use struct{ command, help string }
	first := map[string]use{}
	all := commandsByPath(t)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		all[path].LocalFlags().VisitAll(func(f *pflag.Flag) {
			_, isKnown := otherwise[path+" --"+f.Name]
			if isKnown {
				delete(otherwise, path+" --"+f.Name)
			}
			if isKnown || f.Name == "help" {
				return
			}

			help := f.Shorthand + " " + f.Value.Type() + " " + f.Usage
			if f.Name == "output" { // the list of formats differs
				help, _, _ = strings.Cut(help, ":")
			}
			before, isSecond := first[f.Name]
			if isSecond && before.help != help {
				t.Errorf("--%s has two meanings:\n%s: %s\n%s: %s", f.Name, path, help, before.command, before.help)
			}
			first[f.Name] = use{path, help}
		})
	}
	for unused := range otherwise {
		t.Errorf("the exception %q: got no such flag, want one", unused)
	}
}

// A command has a description and an example, and -o json unless its result is a file or another program's.
func TestCommandsAreComplete(t *testing.T) {
	t.Parallel()
	withoutJSON := map[string]string{
		"bundle":         "writes an archive",
		"detectors lock": "writes a lock, which is JSON",
		"fmt":            "writes sites",
		"graph":          "draws a picture",
		"import":         "writes a site",
		"init":           "writes a site",
		"record":         "writes a recording",
		"report":         "writes a page",
	}

	for path, c := range commandsByPath(t) {
		if c.Long == "" || c.Short == "" {
			t.Errorf("prelet %s: got no description, want Short and Long", path)
		}
		if !strings.Contains(c.Example, "prelet "+path) {
			t.Errorf("prelet %s: got the examples %q, want one of the command", path, c.Example)
		}

		output := c.Flags().Lookup("output")
		_, isFile := withoutJSON[path]
		hasJSON := output != nil && strings.Contains(output.Usage, "json")
		if hasJSON == isFile {
			t.Errorf("prelet %s: -o json: got %t, want %t", path, hasJSON, !isFile)
		}
	}
}

// A command about a node or a site finds both below --root.
func TestCommandsHaveRoot(t *testing.T) {
	t.Parallel()
	without := map[string]string{
		"detectors check": "is about a program",
		"fleet merge":     "reads reports",
		"fmt":             "is about files",
		"import":          "is about a file",
		"pull":            "is about a registry",
		"push":            "is about a folder",
		"schema":          "is about the language",
		"site sign":       "is about a folder",
		"site verify":     "is about a folder",
		"test":            "is about sites with recorded machines",
		"verify":          "is about the kubelet of this machine",
		"version":         "is about the program",
	}

	for path, c := range commandsByPath(t) {
		_, isWithout := without[path]
		if hasRoot := c.Flags().Lookup("root") != nil; hasRoot == isWithout {
			t.Errorf("prelet %s: --root: got %t, want %t", path, hasRoot, !isWithout)
		}
	}
}
