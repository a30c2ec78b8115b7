// Command run measures prelet and bench/floor in turns, so that a slow moment of the machine affects both. The server
// is a separate process.
//
// It prints medians and compares them with the budgets in docs/performance.md. With -fail-above 1.5 it exits with 1
// if a figure is above 1.5 times its budget. It starts only the programs in its own folder and -prelet, and removes
// the files that it writes below -dir and a temporary folder.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/prelet/prelet/bench/measure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

type options struct {
	n       int           // rounds that count
	prelet  string        // the program to measure; prelet-detect is in the same folder
	helpers string        // folder of floor, serve and vendor
	spec    string        // description of the machine that is booted
	kubelet string        // the cluster's KubeletConfiguration
	dir     string        // where roots are made
	delay   time.Duration // of each response of the server
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}

	o := options{helpers: filepath.Dir(self)}
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.n, "n", 15, "`ROUNDS` that count; one more runs before them")
	flags.StringVar(&o.prelet, "prelet", "bin/prelet", "the `PROGRAM` to measure")
	flags.StringVar(
		&o.spec,
		"spec",
		"testdata/hardware/spec/dgx-h100.json",
		"`FILE` that describes the machine to boot",
	)
	flags.StringVar(
		&o.kubelet,
		"kubelet-config",
		"bench/testdata/kubelet-config.yaml",
		"`FILE` that the cluster serves",
	)
	flags.StringVar(
		&o.dir,
		"dir",
		"bin",
		"`FOLDER` on the file system to write to; on a tmpfs fsync is free",
	)
	flags.DurationVar(&o.delay, "delay", 0, "added to each response of the server, in place of a network")
	failAbove := flags.Float64(
		"fail-above",
		0,
		"end with 1 if a figure is above `FACTOR` times its budget; 0: never",
	)
	output := flags.String("o", "text", "`FORMAT`: text or json")
	if err := flags.Parse(args); err != nil {
		return 64
	}
	if *output != "text" && *output != "json" || o.n < 1 || *failAbove < 0 {
		fmt.Fprintln(
			stderr,
			"bench: invalid flags: -n must be at least 1, -o text or json, -fail-above not negative",
		)
		return 64
	}

	r, err := measureAll(ctx, o)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}

	if *output == "json" {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(r)
	} else {
		err = r.print(stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}

	if exceeded := r.exceeded(*failAbove); len(exceeded) > 0 {
		for _, b := range exceeded {
			fmt.Fprintf(
				stderr,
				"bench: %s: got %.1f, more than %.1f times the budget of %.1f\n",
				b.What,
				b.Got,
				*failAbove,
				b.AtMost,
			)
		}
		return 1
	}

	return 0
}

func measureAll(ctx context.Context, o options) (result, error) {
	info, err := os.Stat(o.prelet)
	if err != nil {
		return result{}, err
	}

	before, err := measure.ReadLoad()
	if err != nil {
		return result{}, err
	}

	samples, err := measureBoots(ctx, o)
	if err != nil {
		return result{}, err
	}
	detectors, err := measureDetectors(ctx, o)
	if err != nil {
		return result{}, err
	}
	maps.Copy(samples, detectors)

	after, err := measure.ReadLoad()
	if err != nil {
		return result{}, err
	}

	r, err := summarize(samples, float64(info.Size())/1e6)
	if err != nil {
		return result{}, err
	}
	r.Machine = after.DescribeSince(before)

	return r, nil
}
