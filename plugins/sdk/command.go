package sdk

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/internal/cli"
)

const usage = `%s detects hardware for prelet. prelet starts it; by hand it has three commands:

  describe             print its facts, its needs and its configuration, as JSON
  detect               print what it detects on this machine, as JSON
  package              write its lock, a deb and an rpm; nfpm must be installed

  -o lock              describe: the lock that a package installs with this program; default: json
  --program FILE       describe -o lock, package: of this file, the same detector for another architecture
  --out DIR            package: the folder of the files; default: the working directory
  --config JSON|@FILE  detect: the content of the site's block "config"
  --root DIR           detect: read below DIR instead of /
  --timeout 10s        detect: time limit
`

// errUsage is wrapped by errors of the command line.
var errUsage = errors.New("usage")

// call is a parsed command line.
type call struct {
	command string
	format  string
	config  map[string]any
	root    string
	program string
	out     string
	timeout time.Duration
}

// command runs a detector for a person and returns the exit status.
func command(d Detector, args []string, stdout, stderr io.Writer) int {
	description, err := Describe(d)
	if err != nil {
		fmt.Fprintf(stderr, "%s\n%s", err, panicStack(err))
		return cli.Failed
	}
	if len(args) == 0 {
		fmt.Fprintf(stdout, usage, description.Name)
		return cli.Usage
	}

	c, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, usage, description.Name)
		return cli.OK
	case err != nil:
	case c.command == "describe":
		err = c.describe(description, stdout)
	case c.command == "package":
		err = writePackages(d.Package, description, c.program, c.out, stdout)
	default:
		err = c.detect(d, description, stdout)
	}
	switch {
	case err == nil:
		return cli.OK
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "%v\nTry: %s help\n", err, description.Name)
		return cli.Usage
	case !errors.Is(err, errProblems): // which were printed
		fmt.Fprintf(stderr, "%s: %v\n%s", description.Name, err, panicStack(err))
	}

	return cli.Failed
}

func parse(args []string) (call, error) {
	c := call{command: args[0], format: "json"}
	flags := cli.NewFlags(c.command)
	switch c.command {
	case "help", "-h", "--help":
		return c, flag.ErrHelp
	case "describe":
		flags.StringVar(&c.format, "o", "json", "")
		flags.StringVar(&c.program, "program", "", "")
	case "detect":
		flags.StringVar(&c.format, "o", "json", "")
		flags.StringVar(&c.root, "root", "/", "")
		flags.DurationVar(&c.timeout, "timeout", 10*time.Second, "")
		cli.AddConfig(flags, "config", &c.config)
	case "package":
		flags.StringVar(&c.program, "program", "", "")
		flags.StringVar(&c.out, "out", ".", "")
	default:
		return c, fmt.Errorf("%w: no command %q", errUsage, c.command)
	}

	err := flags.Parse(args[1:])
	isDescribe := c.command == "describe"
	isLock := isDescribe && c.format == "lock"
	switch {
	case err != nil:
		return c, fmt.Errorf("%w: %s: %w", errUsage, c.command, err)
	case flags.NArg() > 0:
		return c, fmt.Errorf("%w: unexpected argument %q of %s", errUsage, flags.Arg(0), c.command)
	case c.format != "json" && !isLock:
		const text = "%w: invalid value %q of -o: the valid value is json, and for describe also lock"
		return c, fmt.Errorf(text, errUsage, c.format)
	case isDescribe && c.program != "" && !isLock:
		return c, fmt.Errorf("%w: --program is for describe -o lock", errUsage)
	}

	return c, nil
}

func (c call) describe(d contract.Description, stdout io.Writer) error {
	if c.format != "lock" {
		return cli.PrintJSON(stdout, d)
	}
	_, program, err := readProgram(c.program)
	if err != nil {
		return err
	}

	return cli.PrintJSON(stdout, newLock(d, program))
}

// errProblems means that the answer has problems.
var errProblems = errors.New("invalid configuration")

// detect runs the detector as prelet would, with the devices that it finds here.
func (c call) detect(d Detector, description contract.Description, stdout io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()

	root, err := NewRoot(c.root)
	if err != nil {
		return err
	}
	devices := description.Match.Devices(root.PCIDevices())
	answer, err := Detect(ctx, d, c.config, devices, root)
	if err != nil {
		return err
	}
	err = cli.PrintJSON(stdout, answer)
	if err == nil && len(answer.Problems) > 0 {
		err = errProblems
	}

	return err
}
