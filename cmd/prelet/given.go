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
)

// notEmpty refuses a flag whose value is empty. To its command it would be as if it was not given, and what
// `--root "$DIR"` means must not become the machine's own root because DIR is not set.
func notEmpty(c *cobra.Command, _ []string) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.String() == ""
		if l, ok := f.Value.(pflag.SliceValue); ok {
			empty = slices.Contains(l.GetSlice(), "")
		}
		if empty && err == nil {
			err = failure(fault.Usage, "--%s is empty: is a shell variable unset?", f.Name)
		}
	})
	return err
}

// noArgument is for commands that take none: where there is --config, an argument was probably meant as that.
func noArgument(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case c.Flags().Lookup("config") != nil:
		return failure(fault.Usage, "%s takes no argument: --config %s", c.Name(), args[0])
	}
	return failure(fault.Usage, "%s takes no argument, and there is %q\nprelet: `%s --help` shows what it takes", c.Name(), args[0], c.CommandPath())
}

// flagError tells what is wrong with a flag, in words of ours where the library's are those of a parser of numbers.
func flagError(c *cobra.Command, err error) error {
	said := err.Error()
	var bad *pflag.InvalidValueError
	var number *strconv.NumError
	if errors.As(err, &bad) && errors.As(err, &number) {
		takes := "a whole number"
		if bad.GetFlag().Value.Type() == "bool" {
			takes = "true or false"
		}
		said = fmt.Sprintf("--%s %s: it takes %s", bad.GetFlag().Name, bad.GetValue(), takes)
	}
	return failure(fault.Usage, "%s\nprelet: `%s --help` lists its flags", said, c.CommandPath())
}

// whichOf makes a command that only has commands below it end as what is asked wrongly does; the library shows help, with 0.
func whichOf(root *cobra.Command) {
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
			return failure(fault.Usage, "%s takes one of %s\nprelet: `%s --help` tells of them", c.Name(), strings.Join(below, ", "), c.CommandPath())
		}
	}
}
