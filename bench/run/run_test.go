package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/bench/measure"
)

// samplesAtBudget returns samples for which each budget is just met with a program of 40 MB.
func samplesAtBudget() map[string][]measure.Sample {
	return map[string][]measure.Sample{
		floor:          {{WallMS: 10, CPUMS: 5, RSSMiB: 11, Requests: 2, Written: 32}},
		first:          {{WallMS: 50, CPUMS: 20, RSSMiB: 64, Requests: 4, Written: 200}},
		unjoined:       {{WallMS: 70, CPUMS: 10, RSSMiB: 20, Requests: 3}}, // no budget of its own
		again:          {{WallMS: 40, CPUMS: 10, RSSMiB: 20, Requests: 2}},
		version:        {{WallMS: 6, CPUMS: 5, RSSMiB: 9}},
		noDetector:     {{WallMS: 8, RSSMiB: 20}},
		absentDetector: {{WallMS: 9, RSSMiB: 20}},
		oneDetector:    {{WallMS: 48, RSSMiB: 30}},
		fourDetectors:  {{WallMS: 128, RSSMiB: 30}},
	}
}

func TestBudgets(t *testing.T) {
	const size = 40
	if got := mustSummarize(t, samplesAtBudget(), size).exceeded(1); got != nil {
		t.Errorf("figures equal to the budgets: got exceeded %+v, want none", got)
	}

	tests := []struct {
		what   string
		change func(map[string][]measure.Sample)
		size   float64
	}{
		{"first run, wall over floor", func(s map[string][]measure.Sample) { s[first][0].WallMS++ }, size},
		{"nothing to do, wall over floor", func(s map[string][]measure.Sample) { s[again][0].WallMS++ }, size},
		{"one detector adds, wall over floor", func(s map[string][]measure.Sample) { s[oneDetector][0].WallMS++ }, size},
		{"four detectors add, wall over floor", func(s map[string][]measure.Sample) { s[fourDetectors][0].WallMS++ }, size},
		{"peak memory, MiB", func(s map[string][]measure.Sample) { s[fourDetectors][0].RSSMiB = 65 }, size},
		{"program, MB", func(map[string][]measure.Sample) {}, size + 1},
	}
	for _, test := range tests {
		samples := samplesAtBudget()
		test.change(samples)
		r := mustSummarize(t, samples, test.size)

		var missed []string
		for _, b := range r.exceeded(1) {
			missed = append(missed, b.What)
		}
		if want := []string{test.what}; !slices.Equal(missed, want) {
			t.Errorf("one figure above its budget: got exceeded %q, want %q", missed, want)
		}

		if got := r.exceeded(1.5); got != nil {
			t.Errorf("%s a little above its budget: got %+v above 1.5 times, want none", test.what, got)
		}
		if got := r.exceeded(0); got != nil {
			t.Errorf("factor 0: got exceeded %+v, want none", got)
		}
	}
}

// TestNotMeasured: a program without a figure is an error, and not a budget that is met.
func TestNotMeasured(t *testing.T) {
	for _, change := range []func(map[string][]measure.Sample){
		func(s map[string][]measure.Sample) { delete(s, floor) },
		func(s map[string][]measure.Sample) { s[floor][0].WallMS = 0 },
		func(s map[string][]measure.Sample) { s[floor][0].RSSMiB = 0 },
	} {
		samples := samplesAtBudget()
		change(samples)

		_, err := summarize(samples, 40)
		if want := "floor was not measured"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("samples of the floor %v: got error %v, want %q", samples[floor], err, want)
		}
	}
}

func mustSummarize(t *testing.T, samples map[string][]measure.Sample, programMB float64) result {
	t.Helper()
	r, err := summarize(samples, programMB)
	if err != nil {
		t.Fatal(err)
	}

	return r
}

func TestPrint(t *testing.T) {
	samples := samplesAtBudget()
	samples[again][0].WallMS = 41
	r := mustSummarize(t, samples, 40)

	var text bytes.Buffer
	if err := r.print(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"prelet, first run", "5.00", "nothing to do, wall over floor", "MISSED"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("got no %q in the table, want it:\n%s", want, text.String())
		}
	}

	encoded, err := json.Marshal(r)
	if want := `"wall_to_floor":4.1`; err != nil || !bytes.Contains(encoded, []byte(want)) {
		t.Errorf("JSON: got %s, %v; want %s in it", encoded, err, want)
	}
}

func TestCheckStates(t *testing.T) {
	document := func(states string) []byte { return []byte(`{"facts":{"detectors":` + states + `}}`) }

	tests := []struct {
		output    []byte
		detectors []string
		want      string // of the error; "" for none
	}{
		{document(`{"one":{"state":"ok"}}`), []string{"one"}, ""},
		{document(`{"absent":{"state":"skipped"}}`), []string{"absent"}, ""},
		{document(`{}`), nil, ""},
		{document(`{"one":{"state":"failed"}}`), []string{"one"}, `got state "failed", want "ok"`},
		{document(`{}`), []string{"one"}, `got state "", want "ok"`},
		{[]byte("text"), []string{"one"}, "invalid character"},
	}
	for _, test := range tests {
		err := checkStates(test.output, test.detectors)
		if test.want == "" && err != nil ||
			test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("checkStates(%s, %q): got %v, want %q", test.output, test.detectors, err, test.want)
		}
	}
}
