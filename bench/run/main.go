// Command run measures prelet against bench/floor: in turns, so that a noisy minute hits all of them alike, against one
// server in a process of its own, on the file system that holds -dir.
//
// It prints medians and how they compare, and says for each aim of the project whether it was met. It starts only the
// programs beside it and -prelet, and writes only below -dir, which it empties again.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are what a benchmark can be told.
type options struct {
	n       int           // rounds that count
	prelet  string        // the program
	helpers string        // folder of floor and serve
	spec    string        // description of the machine that is booted
	kubelet string        // the cluster's KubeletConfiguration
	dir     string        // where roots are made
	delay   time.Duration // of each answer of the server
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
	flags.IntVar(&o.n, "n", 15, "`ROUNDS` that count; one more goes before them")
	flags.StringVar(&o.prelet, "prelet", "bin/prelet", "the `PROGRAM` to measure")
	flags.StringVar(&o.spec, "spec", "testdata/hardware/spec/dgx-h100.json", "`FILE` that describes the machine to boot")
	flags.StringVar(&o.kubelet, "kubelet-config", "bench/testdata/kubelet-config.yaml", "`FILE` that the cluster serves")
	flags.StringVar(&o.dir, "dir", "bin", "`FOLDER` on the file system to write to; not a tmpfs, where fsync is free")
	flags.DurationVar(&o.delay, "delay", 0, "how much longer each answer of the server takes, as a stand-in for a network")
	output := flags.String("o", "text", "`FORMAT`: text or json")
	if err := flags.Parse(args); err != nil {
		return 64
	}
	if *output != "text" && *output != "json" || o.n < 1 {
		fmt.Fprintln(stderr, "bench: -n is at least 1, -o is text or json")
		return 64
	}

	samples, err := measureAll(ctx, o)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	result := summarize(samples)
	if *output == "json" {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(result)
	} else {
		err = result.print(stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}
