package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/bench/measure"
	"github.com/prelet/prelet/internal/probe/hardware/hwtree"
)

// growth is how the cost of programs grows with something.
type growth struct {
	Name   string   `json:"name"`
	Series []series `json:"series"`
}

// series is one program.
type series struct {
	Name   string  `json:"name"`
	Points []point `json:"points"`
}

type point struct {
	X       int              `json:"x"`
	Samples []measure.Sample `json:"samples"`
}

// step is one value of what grows, with the programs that are measured there.
type step struct {
	x        int
	machine  string // a tree
	programs []program
}

// growthRounds are fewer than those of the table: a line needs fewer samples than a comparison.
const growthRounds = 5

func (b *bench) measureGrowth(ctx context.Context) ([]growth, error) {
	var all []growth
	for _, g := range []struct {
		name  string
		steps func() ([]step, error)
	}{
		{"threads", b.threadSteps},
		{"devices", b.deviceSteps},
		{"stages", b.stageSteps},
	} {
		steps, err := g.steps()
		if err != nil {
			return nil, err
		}
		grown, err := b.grow(ctx, steps)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.name, err)
		}
		all = append(all, growth{Name: g.name, Series: grown})
		fmt.Fprintln(os.Stderr, g.name)
	}

	fleet, err := b.measureFleet(ctx)
	if err != nil {
		return nil, err
	}
	all = append(all, fleet)

	if b.storm != "" {
		storm := growth{Name: "boots"}
		text, err := os.ReadFile(b.storm)
		if err == nil {
			err = json.Unmarshal(text, &storm.Series)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, storm)
	}

	return all, nil
}

// grow measures all steps in each round, so that a slow moment of the machine is not one step's.
func (b *bench) grow(ctx context.Context, steps []step) ([]series, error) {
	var all []series
	for _, p := range steps[0].programs {
		s := series{Name: p.name, Points: make([]point, len(steps))}
		for i := range steps {
			s.Points[i].X = steps[i].x
		}
		all = append(all, s)
	}

	for round := range min(b.n, growthRounds) + 1 {
		for i, step := range steps {
			if err := measure.LayOver(step.machine); err != nil {
				return nil, err
			}
			for j, p := range step.programs {
				s, err := b.measureProgram(ctx, p)
				if err != nil {
					return nil, fmt.Errorf("%s at %d: %w", p.name, step.x, err)
				}
				if round > 0 {
					all[j].Points[i].Samples = append(all[j].Points[i].Samples, s)
				}
			}
		}
	}

	return all, measure.LayOver(b.machine)
}

// detecting are the programs that read hardware. By hand, prelet uses as many threads as the machine has; 0 leaves
// that out. Without a GPU, prelet has no flags to write, and NFD has no label for one.
func detecting(threads int, hasGPU bool) []program {
	files, labels := written(extraFlags), nfdGPU
	if !hasGPU {
		files, labels = files[:len(files)-1], "feature discovery completed"
	}
	byHand := func(_ context.Context, b *bench, n *node) ([]measure.Command, error) {
		return []measure.Command{b.preletCommand(n, b.site, threads)}, nil
	}
	all := []program{
		{name: "prelet, GOMAXPROCS=4 as in its units", prepare: preparePrelet, files: files},
		{name: "prelet, GOMAXPROCS=threads", prepare: byHand, files: files},
		{name: floorName, prepare: prepareFloor, files: floorFiles()},
		{name: nfdName, prepare: prepareNFD, output: labels},
	}
	if threads == 0 {
		return append(all[:1], all[2:]...)
	}

	return all
}

// threadSteps are machines with 1 to 224 threads, and the devices of a DGX.
func (b *bench) threadSteps() ([]step, error) {
	programs := func(threads int) []program { return detecting(threads, true) }

	return b.machineSteps([]int{1, 2, 4, 8, 16, 32, 64, 128, 224}, withThreads, programs)
}

// deviceSteps are machines with 0 to 64 GPUs, in place of those of a DGX.
func (b *bench) deviceSteps() ([]step, error) {
	programs := func(gpus int) []program { return detecting(0, gpus > 0) }

	return b.machineSteps([]int{0, 1, 2, 4, 8, 16, 32, 64}, withGPUs, programs)
}

func (b *bench) machineSteps(
	counts []int, change func(hwtree.Spec, int) hwtree.Spec, programs func(int) []program,
) ([]step, error) {
	machine, err := hwtree.Read(spec)
	if err != nil {
		return nil, err
	}

	var steps []step
	for _, n := range counts {
		dir, err := b.build(change(machine, n))
		if err != nil {
			return nil, err
		}
		steps = append(steps, step{n, dir, programs(n)})
	}

	return steps, nil
}

// withThreads returns the machine with as many threads, a power of two or 224, on one or two sockets.
func withThreads(machine hwtree.Spec, threads int) hwtree.Spec {
	cpu := &machine.CPU
	cpu.Sockets, cpu.Threads = min(2, max(1, threads/8)), min(2, threads)
	cpu.Cores = threads / cpu.Sockets / cpu.Threads

	machine.Devices = slices.Clone(machine.Devices)
	for i, d := range machine.Devices {
		if d.NUMA != nil {
			machine.Devices[i].NUMA = new(min(*d.NUMA, cpu.Sockets-1))
		}
	}

	return machine
}

// withGPUs returns the machine with as many of its GPUs, each behind a PCI bridge of its own.
func withGPUs(machine hwtree.Spec, gpus int) hwtree.Spec {
	const gpuClass, bridgeClass, driver = "030200", "060400", "proc/driver/nvidia/gpus/"
	var gpu, bridge hwtree.Device
	var devices []hwtree.Device
	for _, d := range machine.Devices {
		switch d.Class {
		case gpuClass:
			gpu = d
		case bridgeClass:
			bridge = d
		default:
			devices = append(devices, d)
		}
	}
	information := machine.Files[driver+gpu.Address+"/information"]
	files := maps.Clone(machine.Files)
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasPrefix(name, driver) })

	for i := range gpus {
		bridge.Address, gpu.Address = fmt.Sprintf("0001:%02x:01.0", 2*i+1), fmt.Sprintf("0001:%02x:00.0", 2*i+2)
		devices = append(devices, bridge, gpu)
		files[driver+gpu.Address+"/information"] = information
	}
	machine.Devices, machine.Files = devices, files

	return machine
}

// stageSteps are sites with 1 to 500 stages: the first four of a worker, then labels, each of which reads the hardware
// that was detected.
func (b *bench) stageSteps() ([]step, error) {
	first := []string{
		"stage \"detect-hw\" \"node\" {}\n",
		"stage \"fetch-ca\" \"cluster\" {}\n",
		"stage \"fetch-config\" \"kubelet\" { config_map = \"kube-system/kubelet-config\" }\n",
		"stage \"write\" \"kubelet\" {}\n",
	}
	var steps []step
	for _, stages := range []int{1, 2, 5, 10, 20, 50, 100, 200, 500} {
		text := strings.Join(first[:min(stages, len(first))], "")
		for i := range stages - len(first) {
			text += fmt.Sprintf(`
stage "label" "l%d" {
  labels = { "example.com/l%d" = slug(stage.detect-hw.node.gpus[0].model) }
}
`, i, i)
		}
		site, err := b.writeSite(text)
		if err != nil {
			return nil, err
		}
		prepare := func(_ context.Context, b *bench, n *node) ([]measure.Command, error) {
			c := b.preletCommand(n, site, unitProcs)
			c.Args[1] = "plan"
			return []measure.Command{c}, nil
		}
		plan := program{name: "prelet plan", prepare: prepare, output: planOutput(stages - len(first))}
		steps = append(steps, step{stages, b.machine, []program{plan}})
	}

	return steps, nil
}

// planOutput returns what a plan prints of a site with as many labels: the last of them. Without labels it prints a
// file, and less than no labels leave out the stage that writes files.
func planOutput(labels int) string {
	switch {
	case labels > 0:
		return fmt.Sprintf("example.com/l%d=", labels-1)
	case labels == 0:
		return "/var/lib/kubelet/config.yaml"
	}

	return "No changes."
}

// measureFleet plans 10 to 10,000 recordings of a DGX. The most take minutes, so they are planned once.
func (b *bench) measureFleet(ctx context.Context) (growth, error) {
	s := series{Name: "prelet plan --from FOLDER"}
	for _, at := range []struct{ recordings, rounds int }{{10, 3}, {100, 3}, {1000, 3}, {10000, 1}} {
		p := point{X: at.recordings}
		for range min(at.rounds, b.n) {
			_, out, err := measure.Command{
				Args: []string{
					filepath.Join(b.helpers, "fleet"), "-n", strconv.Itoa(at.recordings), "-o", "json",
					"-prelet", b.prelet, "-dir", b.base,
				},
				Env: []string{"PATH=/usr/bin:/bin"},
			}.Run(ctx)
			var sample measure.Sample
			if err = errors.Join(err, json.Unmarshal(out.Stdout, &sample)); err != nil {
				return growth{}, err
			}
			p.Samples = append(p.Samples, sample)
		}
		s.Points = append(s.Points, p)
		fmt.Fprintf(os.Stderr, "%d recordings\n", at.recordings)
	}

	return growth{Name: "recordings", Series: []series{s}}, nil
}
