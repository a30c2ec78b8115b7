package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/nearest"
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
		if wrong == "json" && c.Flags().Lookup("output") != nil {
			text += "; did you mean -o json?"
		} else if near := nearest.Word(wrong, known); near != "" {
			text += "; did you mean --" + near + "?"
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
func asUsage(err error) error {
	var known *fault.Fault
	if err == nil || errors.As(err, &known) {
		return err
	}
	return fault.Usage.Errorf("%s\nprelet: `prelet help` lists the commands", err)
}
