package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	tests := []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5},
	}
	for _, test := range tests {
		before := slices.Clone(test.values)
		if got := median(test.values); got != test.want {
			t.Errorf("median(%v) = %v, want %v", test.values, got, test.want)
		}
		if !slices.Equal(before, test.values) {
			t.Errorf("median reordered its argument: %v", test.values)
		}
	}
}

// some are samples of which each aim is just met.
func some() map[string][]sample {
	return map[string][]sample{
		floor:    {{WallMS: 10, CPUMS: 5, RSSMiB: 11, Requests: 2, Written: 32}},
		first:    {{WallMS: 20, CPUMS: 20, RSSMiB: 22, Requests: 2, Written: 200}},
		unjoined: {{WallMS: 30, CPUMS: 10, RSSMiB: 20, Requests: 3}}, // no aim: a node boots like that only if its kubelet never came up
		again:    {{WallMS: 15, CPUMS: 10, RSSMiB: 20, Requests: 2}},
		version:  {{WallMS: 6, CPUMS: 5, RSSMiB: 9}},
	}
}

func TestAims(t *testing.T) {
	for _, a := range summarize(some()).Aims {
		if !a.Met {
			t.Errorf("%s: %v is within %v", a.What, a.Got, a.Bound)
		}
	}
	tests := []struct {
		what   string
		change func(map[string][]sample)
	}{
		{"first run, wall over floor", func(s map[string][]sample) { s[first][0].WallMS++ }},
		{"first run, ms of CPU", func(s map[string][]sample) { s[first][0].CPUMS++ }},
		{"first run, memory over floor", func(s map[string][]sample) { s[first][0].RSSMiB++ }},
		{"nothing to do, wall over floor", func(s map[string][]sample) { s[again][0].WallMS++ }},
		{"nothing to do, requests", func(s map[string][]sample) { s[again][0].Requests++ }},
		{"nothing to do, blocks written", func(s map[string][]sample) { s[again][0].Written++ }},
		{"version, ms of CPU", func(s map[string][]sample) { s[version][0].CPUMS++ }},
	}
	for _, test := range tests {
		samples := some()
		test.change(samples)
		var missed []string
		for _, a := range summarize(samples).Aims {
			if !a.Met {
				missed = append(missed, a.What)
			}
		}
		if !slices.Equal(missed, []string{test.what}) {
			t.Errorf("missed %q, want only %q", missed, test.what)
		}
	}
}

func TestPrint(t *testing.T) {
	samples := some()
	samples[again][0].Requests = 3
	r := summarize(samples)
	var text bytes.Buffer
	if err := r.print(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"prelet, first run", "2.00", "nothing to do, requests", "MISSED"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if encoded, err := json.Marshal(r); err != nil || !bytes.Contains(encoded, []byte(`"wall_to_floor":1.5`)) {
		t.Errorf("JSON: %s, %v", encoded, err)
	}
}

// TestMeasure measures this test's own program doing nothing.
func TestMeasure(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := measure(t.Context(), []string{self, "-test.run=^$"}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]float64{"wall": s.WallMS, "CPU": s.CPUMS, "RSS": s.RSSMiB} {
		if v <= 0 || math.IsNaN(v) {
			t.Errorf("%s is %v", name, v)
		}
	}
	if _, err := measure(t.Context(), []string{self, "-test.nonsense"}, t.TempDir()); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a program that fails must say what it said: %v", err)
	}
}
