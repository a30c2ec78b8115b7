package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/prelet/prelet/plugins/sdk/fakeroot"
)

const usage = `check PROGRAM [-- ARGUMENTS OF THE PROGRAM]

Starts a detector as prelet does and says what to mend. No device is needed.

  -o text|json         how to print it
  --config JSON|@FILE  a configuration, where the detector has required attributes
  --root DIR           a machine with devices that the detector knows; repeatable
  --timeout 10s        how long one detection may take

check machine FILE.machine DIR

Writes the machine that a file of package detectortest describes as a folder, for --root and for prelet's --hardware.
`

// Exit statuses of Command.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 64
)

// Command is `detectors check`: it runs the checks, prints the report, and returns an exit status: 1 when a check
// failed. Shim must have been called before.
func Command(args []string, stdout, stderr io.Writer) int {
	if len(args) == 3 && args[0] == "machine" {
		if err := writeMachine(args[1], args[2]); err != nil {
			fmt.Fprintf(stderr, "check: %v\n", err)
			return exitFailed
		}
		return exitOK
	}
	o := Options{}
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	format := flags.String("o", "text", "")
	config := flags.String("config", "{}", "")
	flags.DurationVar(&o.Timeout, "timeout", 10*time.Second, "")
	flags.Func("root", "", func(s string) error { o.Roots = append(o.Roots, s); return nil })
	program := ""
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 { // flags may stand behind the program too
		program = flags.Arg(0)
		err = flags.Parse(flags.Args()[1:])
		o.Args = flags.Args()
	}
	if err == nil {
		o.Config, err = readConfig(*config)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitOK
	case err == nil && program == "":
		err = errors.New("which program?")
	case err == nil && *format != "text" && *format != "json":
		err = fmt.Errorf("-o is text or json, not %q", *format)
	}
	if err != nil {
		fmt.Fprintf(stderr, "check: %v\n\n%s", err, usage)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := Run(ctx, program, o)
	if err != nil {
		fmt.Fprintf(stderr, "check: %v\n", err)
		return exitFailed
	}
	if *format == "json" {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		if err := e.Encode(r); err != nil {
			fmt.Fprintf(stderr, "check: %v\n", err)
			return exitFailed
		}
	} else {
		r.Print(stdout)
	}
	if !r.OK() {
		return exitFailed
	}
	return exitOK
}

// writeMachine writes a described machine into a folder, which must be new or empty.
func writeMachine(file, dir string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	tree, err := fakeroot.ParseMachine(string(b))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if old, err := os.ReadDir(dir); err != nil || len(old) > 0 {
		return errors.Join(err, fmt.Errorf("%s is not empty", dir))
	}

	return tree.Write(dir)
}

func readConfig(s string) (out map[string]any, err error) {
	b := []byte(s)
	if len(s) > 0 && s[0] == '@' {
		if b, err = os.ReadFile(s[1:]); err != nil {
			return nil, err
		}
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("--config: want a JSON object: %w", err)
	}
	return out, nil
}
