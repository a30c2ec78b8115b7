// Command prelet turns a golden image into the right Kubernetes node. systemd runs it at boot, before the kubelet
// starts; later it verifies the kubelet, checks the node and updates the site.
//
// This file builds the command tree and turns errors into exit statuses. The flags and texts of a command are in the
// file of its name, or in that of the command above it. Its logic is in a package below internal/lab, or, if it changes
// a node, in internal/machine/run or delivery; the file prints the result.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/delivery"
	"github.com/prelet/prelet/internal/machine/detector"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/lang"
)

// version is set by the build.
var version = "0.3.0+dev"

// abortOnThrow makes a failure of Go's runtime (no thread, no memory) end the process by SIGABRT. By itself it ends
// with 2, which `plan --detailed-exitcode` gives for changes. It leaves no core, which would hold secrets: 1 byte is
// too little for a file, and also for a core_pattern that is a program.
func abortOnThrow() {
	limit := unix.Rlimit{Cur: 1, Max: 1}

	var now unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_CORE, &now)
	isLimited := err == nil && now.Cur == 1
	if isLimited || unix.Setrlimit(unix.RLIMIT_CORE, &limit) == nil {
		debug.SetTraceback("crash")
	}
}

// runMain is main for tests: it does not end the process.
func runMain(args []string, stdout, stderr io.Writer) int {
	c := cli{
		stdout: stdout,
		stderr: stderr,
		getenv: os.Getenv,
	}

	return c.main(args)
}

func (a *cli) main(args []string) int {
	return a.execute(args).status
}

// execute runs a command line, prints why it failed, and returns how it ended.
func (a *cli) execute(args []string) exitError {
	if len(args) > 0 && args[0] == "--version" { // what people type first
		args = append([]string{"version"}, args[1:]...)
	}

	a.document = documentFormat(args)
	for _, arg := range args { // a message may quote it without the flag that marks it as a secret
		a.secrets().HideEvident(arg)
	}
	stdout := printer.NewScreen(a.stdout, a.secrets())
	stderr := printer.NewScreen(a.stderr, a.secrets())
	defer stdout.Close()
	defer stderr.Close()
	if a.line = a.newProgressLine(); a.line != nil {
		defer a.line.close()
		stderr.Hold = a.line.hold
		if printer.IsTerminal(a.stdout) {
			stdout.Hold = a.line.hold
		}
	}
	a.exact = a.stdout
	a.stdout = stdout
	a.stderr = stderr

	root := a.root(args...)
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	requireSubcommand(root)
	if len(args) > 0 && args[0] == cobra.ShellCompRequestCmd {
		describeFlagsPlainly(root)
	}

	err := root.Execute()
	if !a.begun {
		err = asUsage(err, root, args)
	}
	x := toExitError(err)
	x.diags = a.nameRoots(x.diags)

	a.printError(x)
	if x.code != "" && !a.printed && a.document != "" {
		_ = a.printJSON(a.failureDocument("", x))
	}

	return x
}

// printError prints why a command failed.
func (a *cli) printError(x exitError) {
	switch {
	case len(x.diags) > 0:
		a.printDiagnostics(x.site, x.diags)
	case x.err != nil:
		fmt.Fprintln(a.stderr, "prelet:", a.nameRoot(x.err.Error()))
	}
}

// exitError is how a command ends, also with success: its exit status, and what main has to print.
type exitError struct {
	status int
	code   fault.Code      // of a failure; "" for a success, and for a status that is not a failure
	err    error           // what main prints; nil where everything is printed already
	diags  hcl.Diagnostics // the same in full, where it is more than a line
	site   *lang.Site      // that diags are about; nil for none
}

func (e exitError) Error() string {
	if e.err == nil {
		return ""
	}

	return e.err.Error()
}

// Unwrap gives the error that main prints.
func (e exitError) Unwrap() error { return e.err }

// toExitError returns how a command ends that returned err. An error without a fault is one of prelet: Internal.
func toExitError(err error) (x exitError) {
	var explained *lab.Explained
	switch {
	case err == nil:
		return x
	case errors.As(err, &x):
		return x
	case errors.As(err, &explained):
		x = newExitError(explained.Err)
		x.diags = explained.Messages
		x.site = &lang.Site{Sources: explained.Sources}
		return x
	}

	x = newExitError(err)
	if f, ok := err.(*fault.Fault); !ok || f.Err != nil || f.Next != "" { // else the line says it all
		x.diags = commit.Explain(err)
	}

	return x
}

// newExitError returns how a command ends that failed with an error.
func newExitError(err error) exitError {
	code := fault.CodeOf(err)

	return exitError{
		status: code.Exit(),
		code:   code,
		err:    err,
	}
}

// exit ends a command that has printed everything, with a status that is not a failure and that no code has.
func exit(status int) error {
	if status == 0 {
		return nil
	}
	return exitError{status: status}
}

// quit ends a command that has printed everything. "" means success.
func quit(code fault.Code) error {
	if code == "" {
		return nil
	}
	return exitError{status: code.Exit(), code: code}
}

// width returns how many columns help and messages fill.
func (a *cli) width() int { return printer.WidthOf(a.stdout, a.getenv) }

// wrapFlagUsages returns the function usage of cobra with flags that are wrapped at width.
func wrapFlagUsages(usage func(*cobra.Command) error, width int) func(*cobra.Command) error {
	return func(c *cobra.Command) error {
		out := c.OutOrStderr()

		var text strings.Builder
		c.SetOut(&text)
		defer c.SetOut(out)

		if err := usage(c); err != nil {
			return err
		}

		wrapped := text.String()

		for _, flags := range []*pflag.FlagSet{c.LocalFlags(), c.InheritedFlags()} {
			if !flags.HasAvailableFlags() {
				continue
			}

			lines := strings.TrimSpace(flags.FlagUsages())
			wrapped = strings.Replace(wrapped, lines, strings.TrimSpace(flags.FlagUsagesWrapped(width)), 1)
		}

		_, err := io.WriteString(out, wrapped)

		return err
	}
}

// root is the program's command, with the one below it that args begin with, or else all: to build the flags of all
// takes a boot longer than to read its site.
func (a *cli) root(args ...string) *cobra.Command {
	c := &cobra.Command{
		Use:   "prelet",
		Short: "The boot stage that turns a golden image into the right Kubernetes node",
		Long: "prelet reads the site's HCL files, fetches the cluster's CA and kubelet\n" +
			"configuration, looks at the hardware, computes reserved resources, labels and\n" +
			"taints, writes the kubelet's files in one crash-safe step, and makes sure that\n" +
			"the kubelet came up with them.",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			err := cmp.Or(refuseEmptyFlags(c), c.ValidateFlagGroups())
			a.begun = err == nil
			if f := c.Flags().Lookup("root"); f != nil && f.Value.String() != "/" {
				a.below = f.Value.String()
			}

			return err
		},
	}
	c.SetFlagErrorFunc(describeFlagError)
	c.AddGroup(
		&cobra.Group{ID: "site", Title: "Write and check a site:"},
		&cobra.Group{ID: "node", Title: "On a node, or with a recorded one:"},
		&cobra.Group{ID: "other", Title: "Other:"},
	)
	c.SetHelpCommandGroupID("other")
	c.SetCompletionCommandGroupID("other")
	c.SetHelpCommand(helpCommand())
	c.SetUsageFunc(wrapFlagUsages(c.UsageFunc(), a.width()))

	all := a.commands()
	isNamed := len(args) > 0 && all[args[0]] != nil
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !isNamed || name == args[0] {
			c.AddCommand(all[name]())
		}
	}
	a.addCompletions(c)
	c.InitDefaultCompletionCmd()

	help := c.HelpFunc()
	c.SetHelpFunc(func(sub *cobra.Command, args []string) {
		sub.Long = printer.Reflow(sub.Long, a.width())
		help(sub, args)
	})

	return c
}

func (a *cli) commands() map[string]func() *cobra.Command {
	return map[string]func() *cobra.Command{
		"init":      a.init,
		"site":      a.site,
		"validate":  a.validate,
		"graph":     a.graph,
		"test":      a.test,
		"fmt":       a.fmt,
		"schema":    a.schema,
		"import":    a.importSite,
		"push":      a.push,
		"pull":      a.pull,
		"plan":      a.plan,
		"upgrade":   a.upgrade,
		"fleet":     a.fleetCommand,
		"explain":   a.explain,
		"eval":      a.eval,
		"console":   a.console,
		"run":       a.run,
		"detect":    a.detect,
		"detectors": a.detectorsCommand,
		"record":    a.record,
		"status":    a.status,
		"analyze":   a.analyze,
		"report":    a.report,
		"history":   a.history,
		"rollback":  a.rollback,
		"verify":    a.verify,
		"check":     a.check,
		"stopping":  a.stopping,
		"recover":   a.recover,
		"doctor":    a.doctor,
		"seal":      a.seal,
		"bundle":    a.bundle,
		"version":   a.version,
	}
}

// helpCommand replaces cobra's, which exits with 0 for an unknown command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		GroupID: "other",
		Short:   "Show the help of a command",
		RunE: func(c *cobra.Command, args []string) error {
			sub, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(c.Root(), strings.Join(args, " "))
			}
			sub.InitDefaultHelpFlag()
			return sub.Help()
		},
	}
}

// cli is the terminal, which all commands share.
type cli struct {
	stdout, stderr io.Writer
	line           *progressLine // nil without a terminal
	exact          io.Writer     // stdout without redaction, for a text that is the caller's own
	getenv         func(string) string
	redactor       *secret.Redactor // see secrets
	document       string           // json or yaml: the format of documents; "" where a text is printed
	begun          bool             // the command line is valid: an error is not of its caller
	printed        bool             // a result is on stdout
	below          string           // --root; "" for none, and for /
	on             *machine.Host    // the machine that commands work on; nil is the one below us
	served         bool             // prelet-apply.service runs this for somebody
	// detectors changes where detectors are looked for and how they run; nil outside of tests.
	detectors func(*detector.HostConfig)
	// delivery changes how a site is pulled; zero outside of tests.
	delivery delivery.Config
}

// env returns the terminal's part of the functions in internal/machine: streams, redactor, progress.
func (a *cli) env() *machine.Env {
	e := &machine.Env{
		Version:   version,
		Getenv:    a.getenv,
		Redactor:  a.secrets(),
		Say:       a.printNotice,
		On:        a.on,
		Journaled: a.discardStdout,
		Detectors: a.detectors,
		GaveUp:    new(atomic.Bool),
		Searched:  new(sync.Map),
	}
	if a.line != nil {
		e.Progress = a.line
	}
	stdout, isFile := a.exact.(*os.File)
	stderr, isOther := printer.Unscreened(a.stderr).(*os.File)
	if !a.served && isFile && isOther {
		e.Serve = a.serve
		e.Stdout = stdout
		e.Stderr = stderr
	}
	return e
}

// serve runs a command line for another process, with the output of that one, and returns how it ended.
func (a *cli) serve(args []string, stdout, stderr *os.File) fault.Code {
	inner := &cli{
		served: true,
		stdout: stdout,
		stderr: stderr,
		getenv: a.getenv,
		on:     a.on,
	}

	return inner.execute(args).code
}

// discardStdout ends printing to stdout in prelet's units, where the journal has it already. A process that asked for
// the command still reads it.
func (a *cli) discardStdout() {
	if !a.served {
		a.stdout = io.Discard
	}
}

// secrets returns the redactor, which knows the secrets that this process has read and hides what looks like one.
func (a *cli) secrets() *secret.Redactor {
	if a.redactor == nil {
		a.redactor = secret.NewRedactor()
	}
	return a.redactor
}

func (a *cli) redact(s string) string { return a.secrets().String(s) }
