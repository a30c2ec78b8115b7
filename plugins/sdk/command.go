package sdk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/prelet/prelet/plugins/contract"
)

// Exit statuses of a detector that is run by hand.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 64
)

const usage = `%s tells prelet about hardware. prelet starts it; by hand it has two commands:

  describe             what it is, what it needs, and what a site may configure
  detect               what it finds on this machine

  -o text|json         how to print it
  -o lock              describe: as the lock that a package ships beside this program
  --program FILE       describe -o lock: the lock of this file, the same detector for another architecture
  --config JSON|@FILE  detect: what the site's block "config" would say
  --root DIR           detect: look below DIR instead of /
  --timeout 10s        detect: how long it may take
`

// command is a detector for people: a terminal, a vendor's support, a vendor's CI.
func command(d Detector, args []string, stdout, stderr io.Writer) int {
	description, err := Describe(d)
	if err != nil {
		fmt.Fprintf(stderr, "%s\n%s", err, stack(err))
		return exitFailed
	}
	name := description.Name
	if len(args) == 0 {
		fmt.Fprintf(stdout, usage, name)
		return exitUsage
	}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	format := flags.String("o", "text", "")
	config := flags.String("config", "{}", "")
	root := flags.String("root", "/", "")
	timeout := flags.Duration("timeout", 10*time.Second, "")
	program := flags.String("program", "", "")
	wrong := func(format string, args ...any) int {
		fmt.Fprintf(stderr, format+"\nTry: %s help\n", append(args, name)...)
		return exitUsage
	}
	err = flags.Parse(args[1:])
	switch {
	case args[0] == "help" || args[0] == "-h" || args[0] == "--help" || errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, usage, name)
		return exitOK
	case err != nil:
		return wrong("%s: %v", args[0], err)
	case flags.NArg() > 0:
		return wrong("%s takes no argument %q", args[0], flags.Arg(0))
	case *format != "text" && *format != "json" && !(*format == "lock" && args[0] == "describe"):
		return wrong("-o is text or json, and for describe lock, not %q", *format)
	case *program != "" && *format != "lock":
		return wrong("--program is for describe -o lock")
	}
	switch args[0] {
	case "describe":
		if *format == "lock" {
			own, err := lock(description, *program)
			if err != nil {
				fmt.Fprintf(stderr, "%s: %v\n", name, err)
				return exitFailed
			}
			return document(stdout, stderr, own)
		}
		if *format == "json" {
			return document(stdout, stderr, description)
		}
		printDescription(stdout, description)
		return exitOK
	case "detect":
		given, err := readConfig(*config)
		if err != nil {
			return wrong("--config: %v", err)
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		ctx, cancel := context.WithTimeout(ctx, *timeout)
		defer cancel()
		answer, err := byHand(ctx, d, description, given, *root)
		if err != nil {
			fmt.Fprintf(stderr, "%s: %v\n%s", name, err, stack(err))
			return exitFailed
		}
		if *format == "json" {
			if status := document(stdout, stderr, answer); status != exitOK {
				return status
			}
		} else {
			printAnswer(stdout, description, answer)
		}
		if len(answer.Problems) > 0 {
			return exitFailed
		}
		return exitOK
	}
	return wrong("there is no command %q", args[0])
}

// byHand detects as prelet would, on devices that are found here. A machine without them is told, not refused.
func byHand(ctx context.Context, d Detector, description contract.Description, config map[string]any, dir string) (contract.Answer, error) {
	root, err := NewRoot(dir)
	if err != nil {
		return contract.Answer{}, err
	}
	return Detect(ctx, d, config, description.Match.Devices(root.PCIDevices()), root)
}

func readConfig(s string) (map[string]any, error) {
	b := []byte(s)
	if len(s) > 0 && s[0] == '@' {
		var err error
		if b, err = os.ReadFile(s[1:]); err != nil {
			return nil, err
		}
	}
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("want a JSON object: %w", err)
	}
	return out, nil
}

func document(stdout, stderr io.Writer, v any) int {
	e := json.NewEncoder(stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	return exitOK
}

// fragment is a lock as packages ship it, in /usr/lib/prelet/detectors.lock.d/NAME.json. `prelet detectors lock` writes
// the same, of any detector.
type fragment struct {
	FormatVersion int                  `json:"format_version"`
	Name          string               `json:"name"`
	SHA256        string               `json:"sha256"`
	Describe      contract.Description `json:"describe"`
}

// lock returns the lock of a program that describes itself as this one does; "" is this one.
func lock(d contract.Description, path string) (fragment, error) {
	if path == "" {
		own, err := os.Executable()
		if err != nil {
			return fragment{}, err
		}
		path = own
	}
	f, err := os.Open(path)
	if err != nil {
		return fragment{}, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fragment{}, err
	}
	return fragment{1, d.Name, hex.EncodeToString(h.Sum(nil)), d}, nil
}
