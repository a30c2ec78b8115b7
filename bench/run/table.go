package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"
)

// The programs, as the table names them.
const (
	floor    = "floor"
	first    = "prelet, first run"
	unjoined = "prelet, again before it joined"
	again    = "prelet, nothing to do"
	version  = "prelet version"
)

// result is what a benchmark says, as text and as JSON.
type result struct {
	Machine  string  `json:"machine"`
	OwnRSS   float64 `json:"own_rss_mib"` // no program can be seen to be smaller
	Programs []line  `json:"programs"`
	Aims     []aim   `json:"aims"`
}

type line struct {
	Name    string   `json:"name"`
	Median  sample   `json:"median"`
	Wall    float64  `json:"wall_to_floor"`
	CPU     float64  `json:"cpu_to_floor"`
	RSS     float64  `json:"rss_to_floor"`
	Samples []sample `json:"samples"`
}

// aim is a bound that the project set itself.
type aim struct {
	What  string  `json:"what"`
	Bound float64 `json:"bound"`
	Got   float64 `json:"got"`
	Met   bool    `json:"met"`
}

// summarize reduces samples, which hold every program with at least one, to medians and compares these.
func summarize(samples map[string][]sample) result {
	r := result{Machine: fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()), OwnRSS: ownRSS()}
	medians := map[string]sample{}
	for _, name := range []string{floor, first, unjoined, again, version} {
		medians[name] = medianOf(samples[name])
		m, f := medians[name], medians[floor]
		r.Programs = append(r.Programs, line{
			Name: name, Median: m, Samples: samples[name],
			Wall: ratio(m.WallMS, f.WallMS), CPU: ratio(m.CPUMS, f.CPUMS), RSS: ratio(m.RSSMiB, f.RSSMiB),
		})
	}
	f := medians[floor]
	for _, a := range []aim{
		{What: "first run, wall over floor", Bound: 2, Got: ratio(medians[first].WallMS, f.WallMS)},
		{What: "first run, ms of CPU", Bound: 20, Got: medians[first].CPUMS},
		{What: "first run, memory over floor", Bound: 2, Got: ratio(medians[first].RSSMiB, f.RSSMiB)},
		{What: "nothing to do, wall over floor", Bound: 1.5, Got: ratio(medians[again].WallMS, f.WallMS)},
		{What: "nothing to do, requests", Bound: 2, Got: medians[again].Requests},
		{What: "nothing to do, blocks written", Bound: 0, Got: medians[again].Written},
		{What: "version, ms of CPU", Bound: 5, Got: medians[version].CPUMS},
	} {
		a.Met = a.Got <= a.Bound
		r.Aims = append(r.Aims, a)
	}
	return r
}

func (r result) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s; medians of %d; × is over floor\n\n", r.Machine, len(r.Programs[0].Samples))
	fmt.Fprintln(t, "\twall ms\t×\tCPU ms\t×\tRSS MiB\t×\trequests\tblocks\t")
	for _, l := range r.Programs {
		m := l.Median
		fmt.Fprintf(t, "%s\t%.1f\t%.2f\t%.1f\t%.2f\t%.1f\t%.2f\t%.0f\t%.0f\t\n", l.Name, m.WallMS, l.Wall, m.CPUMS, l.CPU, m.RSSMiB, l.RSS, m.Requests, m.Written)
	}
	fmt.Fprintln(t)
	fmt.Fprintln(t, "aim\tat most\tgot\t\t")
	for _, a := range r.Aims {
		verdict := "met"
		if !a.Met {
			verdict = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%.1f\t%.2f\t%s\t\n", a.What, a.Bound, a.Got, verdict)
	}
	fmt.Fprintf(t, "\n")
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "RSS below %.1f MiB cannot be seen: it is that of the measuring process.\n", r.OwnRSS)
	return err
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func medianOf(samples []sample) sample {
	of := func(field func(sample) float64) float64 {
		values := make([]float64, len(samples))
		for i, s := range samples {
			values[i] = field(s)
		}
		return median(values)
	}
	return sample{
		WallMS:   of(func(s sample) float64 { return s.WallMS }),
		CPUMS:    of(func(s sample) float64 { return s.CPUMS }),
		RSSMiB:   of(func(s sample) float64 { return s.RSSMiB }),
		Requests: of(func(s sample) float64 { return s.Requests }),
		Written:  of(func(s sample) float64 { return s.Written }),
	}
}

// median returns the middle of the values, the mean of the middle two for an even number, 0 for none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	half := len(v) / 2
	if len(v)%2 == 1 {
		return v[half]
	}
	return (v[half-1] + v[half]) / 2
}
