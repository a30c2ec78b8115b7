// Command fleet measures `prelet plan --from FOLDER` over many recordings of one kind of machine. It records the
// machine once, and makes the other recordings by changing the values that belong to one machine: node name, addresses,
// MAC addresses, serial numbers.
//
// It prints wall time, CPU time and peak memory, and compares them with the budgets in docs/performance.md: a thousand
// recordings of a DGX in 10 s on 2 cores, ten thousand within 300 MiB. With -fail-above 1.5 it exits with 1 if a figure
// is above 1.5 times its budget. It removes what it writes.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/prelet/prelet/bench/measure"
	"github.com/prelet/prelet/internal/probe/hardware/hwtree"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// The budgets, for 2 cores.
const (
	maxMillisEach = 10.0 // wall time of one recording: a thousand in 10 s
	maxMiB        = 300.0
)

type options struct {
	n       int
	prelet  string
	spec    string
	site    string
	objects string
	dir     string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.n, "n", 1000, "`RECORDINGS` to plan")
	flags.StringVar(&o.prelet, "prelet", "bin/prelet", "the `PROGRAM` to measure")
	flags.StringVar(&o.spec, "spec", "testdata/hardware/spec/dgx-h100.json", "`FILE` that describes the machine")
	flags.StringVar(&o.site, "site", "examples/gpu-training", "the site, a `FOLDER`")
	flags.StringVar(&o.objects, "objects", "examples/objects", "the cluster's objects, a `FOLDER`")
	flags.StringVar(&o.dir, "dir", "bin", "`FOLDER` for the recordings")
	failAbove := flags.Float64("fail-above", 0, "end with 1 if a figure is above `FACTOR` times its budget; 0: never")
	output := flags.String("o", "text", "`FORMAT`: text or json, the sample of bench/measure")
	if err := flags.Parse(args); err != nil {
		return 64
	}
	if *output != "text" && *output != "json" || o.n < 1 {
		fmt.Fprintln(stderr, "bench: invalid flags: -n must be at least 1, -o text or json")
		return 64
	}

	used, err := measureFleet(ctx, o)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	if *output == "json" {
		if err := json.NewEncoder(stdout).Encode(used); err != nil {
			fmt.Fprintln(stderr, "bench:", err)
			return 1
		}
	} else {
		print(stdout, used, o.n)
	}
	f := *failAbove
	isAbove := millisEach(used, o.n) > f*maxMillisEach || used.RSSMiB > f*maxMiB
	if f > 0 && isAbove {
		fmt.Fprintf(stderr, "bench: a figure is above %.1f times its budget\n", f)
		return 1
	}

	return 0
}

func millisEach(s measure.Sample, n int) float64 { return s.WallMS / float64(n) }

func print(w io.Writer, s measure.Sample, n int) {
	fmt.Fprintf(w, "%d recordings: wall %.1f s, CPU %.1f s, peak memory %.0f MiB\n",
		n, s.WallMS/1000, s.CPUMS/1000, s.RSSMiB)
	fmt.Fprintf(w, "each: %.1f ms, budget %.1f; memory budget %.0f MiB\n", millisEach(s, n), maxMillisEach, maxMiB)
}

func measureFleet(ctx context.Context, o options) (measure.Sample, error) {
	base, err := os.MkdirTemp(o.dir, "fleet-")
	if err != nil {
		return measure.Sample{}, err
	}
	defer os.RemoveAll(base)

	recording, err := recordMachine(ctx, o, base)
	if err != nil {
		return measure.Sample{}, err
	}
	fleet := filepath.Join(base, "fleet")
	if err := os.Mkdir(fleet, 0o755); err != nil {
		return measure.Sample{}, err
	}
	for i := range o.n {
		text, err := changeMachine(recording, i)
		if err != nil {
			return measure.Sample{}, err
		}
		name := filepath.Join(fleet, fmt.Sprintf("gpu-%05d.prelet", i))
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return measure.Sample{}, err
		}
	}

	plan := []string{o.prelet, "plan", "--from", fleet, "--config", o.site, "--summary"}
	used, output, err := measure.Command{Args: plan, Env: os.Environ()}.Run(ctx)
	out := string(output.Stdout)
	if err != nil {
		return measure.Sample{}, err
	}
	want := fmt.Sprintf("━━ %d recordings: %d would change, 0 failed, ", o.n, o.n)
	if !strings.Contains(out, want) || !strings.HasSuffix(out, "; 1 group\n") {
		return measure.Sample{}, fmt.Errorf("plan: got\n%s\nwant %q and one group", out, want)
	}

	return used, nil
}

// recordMachine records the described machine with the site.
func recordMachine(ctx context.Context, o options, base string) ([]byte, error) {
	machine := filepath.Join(base, "machine")
	if err := hwtree.BuildFile(o.spec, machine); err != nil {
		return nil, err
	}
	root := filepath.Join(base, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return nil, err
	}

	name := filepath.Join(base, "machine.prelet")
	record := []string{
		o.prelet, "record", "--with-identity",
		"--config", o.site,
		"--hardware", machine,
		"--objects", o.objects,
		"--root", root,
		"--var", "zone=az1-r07",
		name,
	}
	_, _, err := measure.Command{Args: record, Env: os.Environ()}.Run(ctx)
	if err != nil {
		return nil, err
	}

	return os.ReadFile(name)
}

// changeMachine returns the recording of another machine of the same kind.
func changeMachine(recording []byte, number int) ([]byte, error) {
	var doc map[string]any
	dec := json.NewDecoder(bytes.NewReader(recording))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		return nil, err
	}

	answers, _ := doc["answers"].([]any)
	isChanged := false
	for _, a := range answers {
		entry, _ := a.(map[string]any)
		answer, _ := entry["answer"].(map[string]any)
		value, _ := answer["value"].(map[string]any)
		switch entry["kind"] {
		case "facts":
			changeFacts(value, number)
			isChanged = true
		case "kubelet":
			value["identity"] = map[string]any{"host": fmt.Sprintf("gpu-%05d", number)}
		}
	}
	if !isChanged {
		return nil, errors.New("the recording has no facts")
	}

	return json.Marshal(doc)
}

func changeFacts(facts map[string]any, number int) {
	high, low := number>>8&0xff, number&0xff
	facts["machine_id"] = fmt.Sprintf("%032x", number+1)
	product, _ := facts["product"].(map[string]any)
	product["serial"] = fmt.Sprintf("SN-%08d", number)
	product["uuid"] = fmt.Sprintf("4c4c4544-0000-1000-8000-%012x", number)

	interfaces, _ := facts["interfaces"].(map[string]any)
	at := 0
	for _, v := range interfaces {
		one, _ := v.(map[string]any)
		at++
		one["mac"] = fmt.Sprintf("02:00:5e:%02x:%02x:%02x", at, high, low)
		one["ipv4"] = []any{fmt.Sprintf("10.%d.%d.%d", at, high, low)}
	}
}
