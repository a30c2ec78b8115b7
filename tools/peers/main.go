// Command peers makes tables and plots of the result of bench/peers: it prints the table of programs, and with -docs it
// writes docs/images/*.svg and the generated part of docs/performance.md.
//
//	peers [-docs DIR] RESULT
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/bench/measure"
)

//go:generate go run . -docs ../../docs ../../bench/testdata/peers.json

// result is the document of bench/peers.
type result struct {
	Date          string   `json:"date"`
	Machine       string   `json:"machine"`        // and its load while peers were measured
	GrowthMachine string   `json:"growth_machine"` // the same for growth; "": Machine is for both
	CPU           string   `json:"cpu"`
	Kernel        string   `json:"kernel"`
	Rounds        int      `json:"rounds"`
	OwnRSS        float64  `json:"own_rss_mib"`
	Peers         []row    `json:"peers"`
	Growth        []growth `json:"growth"`
}

type row struct {
	Name    string           `json:"name"`
	Version string           `json:"version"`
	Disk    float64          `json:"disk_bytes"`
	Samples []measure.Sample `json:"samples"`
}

type growth struct {
	Name   string   `json:"name"`
	Series []series `json:"series"`
}

type series struct {
	Name   string  `json:"name"`
	Points []point `json:"points"`
}

type point struct {
	X       int              `json:"x"`
	Samples []measure.Sample `json:"samples"`
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	docs := flags.String("docs", "", "`FOLDER` of the documentation to rewrite")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("usage: peers [-docs DIR] RESULT")
	}
	text, err := os.ReadFile(flags.Arg(0))
	if err != nil {
		return err
	}
	var r result
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%s: %w", flags.Arg(0), err)
	}
	if len(r.Peers) == 0 {
		return fmt.Errorf("%s has no programs", flags.Arg(0))
	}
	if *docs == "" {
		_, err := io.WriteString(stdout, r.table())
		return err
	}

	if err := r.draw(filepath.Join(*docs, "images")); err != nil {
		return err
	}

	return rewrite(filepath.Join(*docs, "performance.md"), r.table())
}

// The lines around the generated part of the page.
const (
	begin = "<!-- made by make bench-peers, do not edit -->\n"
	end   = "<!-- end of that part -->\n"
)

// rewrite replaces the generated part of a page.
func rewrite(file, part string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, hasBegin := strings.Cut(string(text), begin)
	_, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		return fmt.Errorf("%s does not contain the lines\n%s%s", file, begin, end)
	}

	return os.WriteFile(file, []byte(before+begin+"\n"+part+"\n"+end+after), 0o644)
}

// table is Markdown: what was measured where, and a line for each program.
func (r result) table() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s, %d rounds; %s, Linux %s.\n%s.\n\n", r.Date, r.Rounds, r.CPU, r.Kernel, r.Machine)
	out.WriteString("| program | version | wall, ms | CPU, ms | memory, MiB " +
		"| requests | written, KiB | on disk, MB |\n")
	out.WriteString("|---|---|---|---|---|---|---|---|\n")
	for _, p := range r.Peers {
		wall, cpu := spreadOf(p.Samples, wallMS), spreadOf(p.Samples, cpuMS)
		m := measure.MedianOf(p.Samples)
		fmt.Fprintf(&out, "| %s | %s | **%.0f** (%.0f–%.0f) | %.0f (%.0f–%.0f) | %.0f | %.0f | %.0f | %.0f |\n",
			p.Name, p.shortVersion(), wall.median, wall.low, wall.high, cpu.median, cpu.low, cpu.high,
			m.RSSMiB, m.Requests, m.Written/2, p.Disk/1e6)
	}
	fmt.Fprintf(&out, "\nMemory below %.0f MiB cannot be measured: it is that of the measuring process.\n", r.OwnRSS)

	return out.String() + r.ratios() + r.costs()
}

// The rows and lines of bench/peers that sentences of the page are made of.
const (
	kubeadm      = "kubeadm join phase kubelet-start"
	inUnits      = "prelet, GOMAXPROCS=4 as in its units"
	byHand       = "prelet, GOMAXPROCS=threads"
	fleetSeconds = 10 // budget for 1,000 recordings, as in bench/fleet
)

// isPrelet reports whether a row is one of prelet's.
func (p row) isPrelet() bool { return strings.HasPrefix(p.Name, "prelet") }

// ratios compares prelet's rows with kubeadm's, as Markdown.
func (r result) ratios() string {
	i := slices.IndexFunc(r.Peers, func(p row) bool { return p.Name == kubeadm })
	if i < 0 {
		return ""
	}
	other := measure.MedianOf(r.Peers[i].Samples)

	var out strings.Builder
	fmt.Fprintf(&out, "\n| median over that of `%s` | wall | CPU |\n|---|---|---|\n", kubeadm)
	for _, p := range r.Peers {
		if p.isPrelet() {
			m := measure.MedianOf(p.Samples)
			fmt.Fprintf(&out, "| %s | %.2f | %.2f |\n", p.Name, m.WallMS/other.WallMS, m.CPUMS/other.CPUMS)
		}
	}
	fmt.Fprintf(&out, "\nkubeadm's wall time is %.0f ms, its CPU time %.0f ms: the difference is waiting.\n",
		other.WallMS, other.CPUMS)

	return out.String()
}

// costs are sentences on how cost grows, as Markdown.
func (r result) costs() string {
	var out strings.Builder
	if len(r.Growth) > 0 {
		var counts []string
		for _, g := range r.Growth {
			counts = append(counts, g.Name+" "+g.countSamples())
		}
		fmt.Fprintf(&out, "\n[How cost grows](#how-cost-grows), samples of a point: %s.\n", strings.Join(counts, ", "))
	}
	if r.GrowthMachine != "" {
		fmt.Fprintf(&out, "%s.\n", r.GrowthMachine)
	}

	four, hasFour := r.find("threads", inUnits, 224)
	all, hasAll := r.find("threads", byHand, 224)
	if hasFour && hasAll {
		fmt.Fprintf(&out, "\nWith 224 CPUs, `GOMAXPROCS=224` takes %.1f times the CPU time of `GOMAXPROCS=4`: "+
			"%.0f and %.0f ms, and %.0f and %.0f MiB.\n",
			all.CPUMS/four.CPUMS, all.CPUMS, four.CPUMS, all.RSSMiB, four.RSSMiB)
	}
	if fleet, ok := r.find("recordings", "", 1000); ok {
		verb := "met"
		if fleet.WallMS > fleetSeconds*1000 {
			verb = "missed"
		}
		fmt.Fprintf(&out, "\n1,000 recordings %s their budget of %d s: %.1f s wall time on the machine above, "+
			"%.1f s CPU time.\n", verb, fleetSeconds, fleet.WallMS/1000, fleet.CPUMS/1000)
	}

	return out.String()
}

// countSamples returns the smallest and the largest number of samples of a point.
func (g growth) countSamples() string {
	var counts []int
	for _, s := range g.Series {
		for _, p := range s.Points {
			counts = append(counts, len(p.Samples))
		}
	}
	slices.Sort(counts)
	counts = slices.Compact(counts)
	switch len(counts) {
	case 0:
		return "0"
	case 1:
		return strconv.Itoa(counts[0])
	}

	return fmt.Sprintf("%d to %d", counts[0], counts[len(counts)-1])
}

// find returns the medians of a point of a growth. The name "" is the first series.
func (r result) find(growth, name string, x int) (measure.Sample, bool) {
	for _, g := range r.Growth {
		for _, s := range g.Series {
			if g.Name != growth || name != "" && s.Name != name {
				continue
			}
			for _, p := range s.Points {
				if p.X == x {
					return measure.MedianOf(p.Samples), true
				}
			}
		}
	}

	return measure.Sample{}, false
}

// shortVersion leaves out the build of another program's version, and all of a pseudo-version but its day.
func (p row) shortVersion() string {
	if rest, isPseudo := strings.CutPrefix(p.Version, "v0.0.0-"); isPseudo && len(rest) > 8 {
		return "of " + rest[:4] + "-" + rest[4:6] + "-" + rest[6:8]
	}
	if p.isPrelet() {
		return p.Version
	}
	version, _, _ := strings.Cut(p.Version, "+")

	return version
}

func wallMS(s measure.Sample) float64    { return s.WallMS }
func cpuMS(s measure.Sample) float64     { return s.CPUMS }
func memoryMiB(s measure.Sample) float64 { return s.RSSMiB }

// spread is the median of samples and their range.
type spread struct{ median, low, high float64 }

func spreadOf(samples []measure.Sample, figure func(measure.Sample) float64) spread {
	var values []float64
	for _, s := range samples {
		values = append(values, figure(s))
	}
	if len(values) == 0 {
		return spread{}
	}
	s := spread{median: measure.Median(values), low: values[0], high: values[0]}
	for _, v := range values {
		s.low, s.high = min(s.low, v), max(s.high, v)
	}

	return s
}
