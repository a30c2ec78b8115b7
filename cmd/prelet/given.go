package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/texts"
)

// refuseEmptyFlags refuses a flag whose value is empty, which its command would take for a flag that is not given:
// `--root "$DIR"` must not mean the machine's own root because DIR is not set.
func refuseEmptyFlags(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.String() == ""
		if l, ok := f.Value.(pflag.SliceValue); ok {
			empty = slices.Contains(l.GetSlice(), "")
		}
		if empty && err == nil {
			err = fault.Usage.Errorf("--%s is empty: is a shell variable unset?", f.Name)
		}
	})
	return err
}

// refuseArguments refuses arguments. One was probably meant as the value of a flag: of --html or --from by the end of
// its name, or of --config.
func refuseArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}

	for _, name := range []string{"var", "set"} {
		if f := c.Flags().Lookup(name); f != nil && f.Changed {
			if given := strings.Trim(f.Value.String(), "[]"); given != "" && !strings.ContainsAny(given, "=,") {
				return fault.Usage.Errorf("--%s needs a name and a value; did you mean --%s %s=%s?",
					name, name, given, args[0])
			}
		}
	}
	for _, f := range []struct{ flag, suffix string }{
		{"html", ".html"}, {"from", ".prelet"}, {"from", ".prelet.gz"}, {"from", ".tar.gz"}, {"config", ""},
	} {
		if c.Flags().Lookup(f.flag) != nil && strings.HasSuffix(args[0], f.suffix) {
			return fault.Usage.Errorf("%s takes no arguments; did you mean --%s %s?", c.Name(), f.flag, args[0])
		}
	}

	return fault.Usage.Errorf("%s takes no argument, but got %q\nprelet: see `%s --help`",
		c.Name(), args[0], c.CommandPath())
}

// describeFlagError describes an invalid flag, without the number parser's own text.
func describeFlagError(c *cobra.Command, err error) error {
	text := err.Error()
	if wrong, ok := strings.CutPrefix(text, "unknown flag: --"); ok {
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			known = append(known, f.Name)
		})
		near := texts.Nearest(wrong, known)
		if wrong == "out" { // no other flag is meant, such as --root
			near = ""
		}
		switch hint := otherFlags()[wrong]; {
		case strings.HasPrefix(hint, "-o ") && c.Flags().Lookup("output") != nil:
			text += "; did you mean " + hint + "?"
		case near != "":
			text += "; did you mean --" + near + "?"
		case hint != "":
			text += "; " + hint
		}
	}
	for _, other := range [][2]string{{"in -c", "config"}, {"in -f", "config"}, {"in -var", "var"}} {
		if strings.HasSuffix(text, other[0]) && c.Flags().Lookup(other[1]) != nil {
			text += "; did you mean --" + other[1] + "?"
		}
	}
	if strings.HasPrefix(text, "unknown shorthand flag: ") && strings.HasSuffix(c.Use, " EXPR") {
		text += "\nprelet: an expression that begins with - follows after --: " + c.CommandPath() + " -- '-1'"
	}
	var bad *pflag.InvalidValueError
	var number *strconv.NumError
	if errors.As(err, &bad) && errors.As(err, &number) {
		takes := "a whole number"
		if bad.GetFlag().Value.Type() == "bool" {
			takes = "true or false"
		}
		text = fmt.Sprintf("--%s %s: it takes %s", bad.GetFlag().Name, bad.GetValue(), takes)
	}
	var refused *fault.Fault
	if errors.As(err, &refused) { // of the flag's own type
		text = refused.Summary
	}
	return fault.Usage.Errorf("%s\nprelet: `%s --help` lists its flags", text, c.CommandPath())
}

// requireSubcommand makes a command that only has subcommands fail as wrong usage. Cobra would show help and exit with
// 0.
func requireSubcommand(root *cobra.Command) {
	for _, c := range root.Commands() {
		if c.Runnable() || !c.HasSubCommands() {
			continue
		}
		var below []string
		for _, sub := range c.Commands() {
			below = append(below, sub.Name())
		}
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(*cobra.Command, []string) error {
			return fault.Usage.Errorf("%s takes one of %s\nprelet: see `%s --help`",
				c.Name(), strings.Join(below, ", "), c.CommandPath())
		}
	}
}

// asUsage makes an error of cobra a fault. A fault stays as it is.
func asUsage(err error, root *cobra.Command, args []string) error {
	var known *fault.Fault
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case len(args) > 0 && strings.HasPrefix(err.Error(), "unknown command"):
		return unknownCommand(root, args[0])
	}

	return fault.Usage.Errorf("%s\nprelet: `prelet help` lists the commands", err)
}

// unknownCommand returns the error for a command that prelet does not have, and suggests the most similar command.
func unknownCommand(root *cobra.Command, name string) error {
	hints := neighbours()
	for _, c := range root.Commands() {
		hints[c.Name()] = "did you mean `prelet " + c.Name() + "`?"
	}
	hint := hints[name]
	if len(name) > 2 && hint == "" {
		hint = hints[texts.Nearest(name, slices.Sorted(maps.Keys(hints)))]
	}
	if hint != "" {
		hint = "; " + hint
	}

	return fault.Usage.Errorf("unknown command %q%s\nprelet: `prelet help` lists the commands", name, hint)
}

// otherFlags returns the flags to type instead of those of other tools.
func otherFlags() map[string]string {
	return map[string]string{
		"json":         "-o json",
		"yaml":         "-o yaml",
		"format":       "-o json",
		"dry-run":      "`prelet plan` shows what a run would change, and writes nothing",
		"check":        "`prelet plan --detailed-exitcode` exits 2 when a run would change something",
		"diff":         "`prelet plan` shows the difference of each file",
		"yes":          "a run asks no questions",
		"auto-approve": "a run asks no questions",
		"verbose":      "-o json has everything, `prelet explain` where it comes from",
		"debug":        "-o json has everything, `prelet analyze` how long it took",
		"out":          "write the file as an argument; `--help` shows its place",
		"release":      "`prelet rollback --release` unpins a generation",
		"site":         "did you mean --config?",
		"file":         "did you mean --config?",
		"target":       "a plan is always whole: `when` of a stage decides where it applies",
	}
}

// neighbours returns the commands to type instead of those of other tools.
func neighbours() map[string]string {
	hints := map[string]string{}
	for words, hint := range map[string]string{
		"apply up deploy sync install converge reconcile switch start": "`prelet run` makes the node as planned",
		"diff preview dry-run what-if": "`prelet plan` shows what a run would change, " +
			"`prelet history diff` what differs between generations",
		"show get describe state ls list": "`prelet status` shows the node, `prelet history show` a generation, " +
			"`prelet explain` an item of the plan",
		"destroy down delete remove reset uninstall": "`prelet rollback 0` puts the files back as before prelet",
		"undo revert restore rollout":                "`prelet rollback` goes back to an earlier generation",
		"lint check vet verify-site":                 "`prelet validate` checks a site",
		"format fix":                                 "`prelet fmt` formats a site",
		"facts setup inventory probe hardware":       "`prelet detect` shows the facts of the machine",
		"providers plugins plugin":                   "`prelet detectors` has the programs that read devices",
		"logs log events": "`prelet status` and `prelet analyze` show the last run, " +
			"journalctl -u prelet.service its log",
		"output print query": "`prelet eval EXPR` evaluates an expression",
		"why":                "`prelet explain ITEM` shows where an item comes from",
		"docs reference":     "`prelet schema` prints the language",
		"wait watch":         "`prelet status --wait` waits for the verdict",
		"snapshot capture dump": "`prelet record` records what a plan reads, " +
			"`prelet bundle` what a report of a problem needs",
		"new create generate":                "`prelet init` writes a first site",
		"workspace stack env module modules": "a site has layers: `--config base --config prod`",
		"refresh taint untaint":              "each plan reads the machine again; the node's taints are in the site",
	} {
		for _, word := range strings.Fields(words) {
			hints[word] = hint
		}
	}

	return hints
}
