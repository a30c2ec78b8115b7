package conformance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/prelet/prelet/plugins/internal/cli"
	"github.com/prelet/prelet/plugins/sdk/fakeroot"
)

const usage = `check PROGRAM [-- ARGUMENTS OF THE PROGRAM]

Starts a detector as prelet does and reports what to fix. No device is needed.

  -o text|json                  output format
  --detector-config JSON|@FILE  a configuration, if the detector has required attributes
  --machine DIR                 a machine with devices that the detector knows; repeatable
  --timeout 10s                 time limit of one detection

check machine FILE.machine DIR

Writes the machine that a file of package detectortest describes to a folder, for --machine and for prelet's --hardware,
with 4 CPUs and 16 GiB of memory unless the file has others.
`

// Command is `detectors check`: it runs the checks, prints the report and returns an exit status, which is 1 if a
// check failed. The caller must have called Shim.
func Command(args []string, stdout, stderr io.Writer) int {
	if len(args) == 3 && args[0] == "machine" {
		return finish(writeMachine(args[1], args[2]), stderr)
	}

	program, format, options, err := parseArguments(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return cli.OK
	}
	if err != nil {
		fmt.Fprintf(stderr, "check: %v\n\n%s", err, usage)
		return cli.Usage
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	report, err := Run(ctx, program, options)
	switch {
	case err != nil:
	case format == "json":
		err = cli.PrintJSON(stdout, report)
	default:
		report.Print(stdout)
	}
	if err == nil && !report.OK() {
		return cli.Failed
	}

	return finish(err, stderr)
}

// finish prints an error and returns the exit status.
func finish(err error, stderr io.Writer) int {
	if err == nil {
		return cli.OK
	}
	fmt.Fprintf(stderr, "check: %v\n", err)

	return cli.Failed
}

func parseArguments(args []string) (program, format string, o RunOptions, err error) {
	flags := cli.NewFlags("check")
	flags.StringVar(&format, "o", "text", "")
	flags.DurationVar(&o.Timeout, "timeout", 10*time.Second, "")
	cli.AddConfig(flags, "detector-config", &o.Config)
	flags.Func("machine", "", func(s string) error {
		o.Roots = append(o.Roots, s)
		return nil
	})

	if err := flags.Parse(args); err != nil {
		return "", "", o, err
	}
	if flags.NArg() == 0 {
		return "", "", o, errors.New("name the program to check")
	}

	program = flags.Arg(0)
	err = flags.Parse(flags.Args()[1:])
	if err != nil { // flags may follow the program
		return "", "", o, err
	}
	o.Args = flags.Args()
	if format != "text" && format != "json" {
		return "", "", o, fmt.Errorf("invalid value %q of -o: valid values are text and json", format)
	}

	return program, format, o, nil
}

// writeMachine writes the machine that a file describes to a folder, which must be new or empty.
func writeMachine(file, dir string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	m, err := fakeroot.ParseMachine(string(b))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	}

	m.Default("/sys/devices/system/cpu/online", "0-3\n") // without them no plan can be made
	m.Default("/proc/meminfo", "MemTotal:       16777216 kB\n")

	return m.Write(dir)
}
