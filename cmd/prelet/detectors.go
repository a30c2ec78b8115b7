package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/lab/sites"
	"github.com/prelet/prelet/internal/machine/detector"
	"github.com/prelet/prelet/internal/plan/lang"
)

func (a *cli) detectorsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "detectors",
		GroupID: "node",
		Short:   "List, lock and check vendors' detectors",
		Long: `A detector is a vendor's program that knows more about a device than the kernel reports.
It runs in a sandbox, with the permissions that the site grants,
and only if it is the program that was locked.`,
	}
	c.AddCommand(a.detectorsList(), a.detectorsLock(), a.detectorsCheck())
	return c
}

func (a *cli) detectorsList() *cobra.Command {
	var w where
	var long bool
	c := &cobra.Command{
		Use:   "list",
		Args:  refuseArguments,
		Short: "Show what is declared, installed, locked, matching and granted",
		Long: `Shows each detector that the site declares or that is installed:
whether a boot would start it on this machine, and what is missing if not.
It starts nothing. With --hardware it shows what would match on that machine.`,
		Example: "  prelet detectors list --long\n  prelet detectors list --config ./site --hardware ./machines/dgx",
		RunE: stopOnSignal(func(ctx context.Context, _ []string) error {
			found, err := sites.ListDetectors(ctx, a.env(), w.Request)
			if err != nil {
				return err
			}
			rows := printer.DetectorRows{
				FormatVersion: 1,
				All:           append([]detector.Row{}, found...),
				IsLong:        long,
			}
			return printResult(a, w.output.isJSON(), rows, printer.DetectorList)
		}),
	}
	w.addSiteFlags(c)
	addRootFlag(c, &w.Root)
	w.addHardwareFlag(c)
	c.Flags().BoolVar(&long, "long", false, "more: each detector's configuration, facts and permissions")
	return c
}

func (a *cli) detectorsLock() *cobra.Command {
	var w where
	var o sites.LockOptions
	c := &cobra.Command{
		Use:   "lock BINARY...",
		Args:  requireArgs(math.MaxInt, "the paths of detectors"),
		Short: "Lock detectors: allow these exact programs to run",
		Long: "Starts each program in the sandbox and writes its description and sha256 as a lock.\n" +
			"The lock goes into " + detector.Fragments + "/NAME.json, the place for packages,\n" +
			"with --out into that folder, for a package,\n" +
			"or with --site into the site's own file, which takes precedence.\n" +
			"With --out and --config, nodes have the program in " + detector.Programs + " or at --path.\n" +
			"A program that changed does not run until it is locked again.",
		Example: "  prelet detectors lock /usr/lib/prelet/detectors/gaudi\n  prelet detectors lock --out " +
			"debian/locks build/gaudi",
		RunE: stoppable(func(c *cobra.Command, args []string) error {
			o.Request = w.Request
			return sites.LockDetectors(c.Context(), a.env(), o, args, a.printLocked)
		}),
	}
	addOutFlag(c, &o.Out)
	c.Flags().BoolVar(&o.Site, "site", false,
		"write into the site's lock: "+detector.SiteLock+", or "+lang.LockFile+" in the last folder of --config")
	c.Flags().StringVar(&o.Path, "path", "",
		"the program's `PATH` on nodes, where it is not "+detector.Programs+"/NAME")
	w.addConfigFlag(c)
	addRootFlag(c, &w.Root)
	c.Flags().StringArrayVar(&o.Grant.Read, "read", nil,
		"a `PATH` that the program must read to describe itself (repeatable)")
	c.Flags().StringArrayVar(&o.Grant.Execute, "execute", nil,
		"a `PROGRAM` that it must run to describe itself; the interpreter of a #! need not be named (repeatable)")
	return c
}

// printLocked prints the locked detector, and the site's block that grants the permissions it needs.
func (a *cli) printLocked(l sites.Locked) {
	fmt.Fprintf(a.stdout, "Locked %s %s as it is (sha256 %s…) in %s. In a site:\n",
		l.Lock.Name, l.Version, l.Lock.SHA256[:12], l.Path)
	if l.Allow == "" {
		fmt.Fprintf(a.stdout, "    detector %q {}\n", l.Lock.Name)
		return
	}
	fmt.Fprintf(a.stdout, "    detector %q {\n      %s\n    }\n",
		l.Lock.Name, strings.ReplaceAll(l.Allow, "\n", "\n      "))
}

func (a *cli) detectorsCheck() *cobra.Command {
	var o sites.CheckOptions
	var output format
	c := &cobra.Command{
		Use:   "check BINARY [-- ARGUMENTS]",
		Args:  requireArgs(math.MaxInt, "the paths of detectors"),
		Short: "Check a detector without its device",
		Long: `Starts a detector, written in any language, as a boot would,
watches for access that it did not declare, and prints what its author has to fix:
handshake, description, configuration, deadline, sizes, determinism, files, network.`,
		Example: "  prelet detectors check ./gaudi\n" +
			"  prelet detectors check ./gaudi --machine ./machines/gaudi3 --detector-config '{\"ports\": 3}'",
		RunE: stoppable(func(c *cobra.Command, args []string) error {
			o.Command = args
			o.Output = output.name
			stdout := a.stdout
			var document bytes.Buffer
			if output.name == "yaml" { // the kit, which vendors have without prelet, writes JSON
				o.Output = "json"
				stdout = &document
			}
			checked, err := sites.CheckDetector(c.Context(), a.env(), o, stdout, a.stderr)
			if err == nil && document.Len() > 0 {
				err = a.printJSON(json.RawMessage(document.Bytes()))
			}
			if err != nil {
				return err
			}
			a.printed = true
			if checked.Code != "" {
				return quit(checked.Code)
			}
			return exit(checked.Status)
		}),
	}
	output.addFlag(c, "text", "json")
	c.Flags().StringVar(&o.Config, "detector-config", "{}",
		"the detector's configuration, as `JSON` or @FILE, where it has required attributes")
	c.Flags().StringVar(&o.Timeout, "timeout", "10s", "how long one detection may take")
	c.Flags().StringArrayVar(&o.Roots, "machine", nil,
		"a machine with devices that the detector knows, as a tree at `DIR` (repeatable)")
	return c
}
