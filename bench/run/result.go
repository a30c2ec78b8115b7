package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/prelet/prelet/bench/measure"
)

// The programs, as the table names them.
const (
	floor    = "floor"
	first    = "prelet, first run"
	unjoined = "prelet, again before it joined"
	again    = "prelet, nothing to do"
	version  = "prelet version"

	noDetector     = "detect, no detector"
	absentDetector = "detect, one without its device"
	oneDetector    = "detect, one detector"
	fourDetectors  = "detect, four detectors"
)

// rows is the order of the table.
var rows = []string{
	floor, first, unjoined, again, version,
	noDetector, absentDetector, oneDetector, fourDetectors,
}

// result is the output of a benchmark, as text and as JSON.
type result struct {
	Machine  string   `json:"machine"`
	OwnRSS   float64  `json:"own_rss_mib"` // smaller programs cannot be measured
	Programs []row    `json:"programs"`
	Budgets  []budget `json:"budgets"`
}

type row struct {
	Name    string           `json:"name"`
	Median  measure.Sample   `json:"median"`
	Wall    float64          `json:"wall_to_floor"`
	CPU     float64          `json:"cpu_to_floor"`
	RSS     float64          `json:"rss_to_floor"`
	Samples []measure.Sample `json:"samples"`
}

// budget is a limit of the project. It is an alarm and not an aim: below it nothing is made faster or smaller at the
// price of more code.
type budget struct {
	What   string  `json:"what"`
	AtMost float64 `json:"at_most"`
	Got    float64 `json:"got"`
}

// summarize reduces samples to medians and compares them. programMB is the size of the stripped program in units of
// 10^6 bytes. It fails when a program, above all the floor, was not measured: a budget of nothing would be met.
func summarize(samples map[string][]measure.Sample, programMB float64) (result, error) {
	r := result{OwnRSS: measure.OwnRSS()}

	medians := map[string]measure.Sample{}
	var peak float64
	for _, name := range rows {
		medians[name] = measure.MedianOf(samples[name])
		if medians[name].WallMS <= 0 || medians[name].RSSMiB <= 0 {
			return result{}, fmt.Errorf(
				"%s was not measured: got medians of %.1f ms and %.1f MiB of %d runs",
				name,
				medians[name].WallMS,
				medians[name].RSSMiB,
				len(samples[name]),
			)
		}
		if name != floor {
			peak = max(peak, medians[name].RSSMiB)
		}

		m := medians[name]
		f := medians[floor]
		r.Programs = append(r.Programs, row{
			Name:    name,
			Median:  m,
			Samples: samples[name],
			Wall:    ratio(m.WallMS, f.WallMS),
			CPU:     ratio(m.CPUMS, f.CPUMS),
			RSS:     ratio(m.RSSMiB, f.RSSMiB),
		})
	}

	wall := func(name string) float64 { return medians[name].WallMS }
	r.Budgets = []budget{
		{What: "first run, wall over floor", AtMost: 5, Got: ratio(wall(first), wall(floor))},
		{What: "nothing to do, wall over floor", AtMost: 4, Got: ratio(wall(again), wall(floor))},
		{
			What:   "one detector adds, wall over floor",
			AtMost: 4,
			Got:    ratio(wall(oneDetector)-wall(noDetector), wall(floor)),
		},
		{
			What:   "four detectors add, wall over floor",
			AtMost: 12,
			Got:    ratio(wall(fourDetectors)-wall(noDetector), wall(floor)),
		},
		{What: "peak memory, MiB", AtMost: 64, Got: peak},
		{What: "program, MB", AtMost: 40, Got: programMB},
	}

	return r, nil
}

// exceeded returns the budgets that are missed by more than a factor; none for factor 0.
func (r result) exceeded(factor float64) []budget {
	if factor == 0 {
		return nil
	}

	var out []budget
	for _, b := range r.Budgets {
		if b.Got > factor*b.AtMost {
			out = append(out, b)
		}
	}

	return out
}

func (r result) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\nmedians of %d; × is over floor\n\n", r.Machine, len(r.Programs[0].Samples))

	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\twall ms\t×\tCPU ms\t×\tRSS MiB\t×\trequests\tblocks\t")
	for _, p := range r.Programs {
		m := p.Median
		fmt.Fprintf(t, "%s\t%.1f\t%.2f\t%.1f\t%.2f\t%.1f\t%.2f\t%.0f\t%.0f\t\n",
			p.Name,
			m.WallMS, p.Wall,
			m.CPUMS, p.CPU,
			m.RSSMiB, p.RSS,
			m.Requests,
			m.Written,
		)
	}

	fmt.Fprintln(t)
	fmt.Fprintln(t, "budget\tat most\tgot\t\t")
	for _, b := range r.Budgets {
		verdict := "met"
		if b.Got > b.AtMost {
			verdict = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%.1f\t%.2f\t%s\t\n", b.What, b.AtMost, b.Got, verdict)
	}
	fmt.Fprintln(t)
	if err := t.Flush(); err != nil {
		return err
	}

	_, err := fmt.Fprintf(
		w,
		"RSS below %.1f MiB cannot be measured: it is that of the measuring process.\n",
		r.OwnRSS,
	)
	return err
}

// ratio returns a/b, and 0 where b is 0, as the CPU time of a floor may be.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}

	return a / b
}
