// Package bench_test checks what the scripts of this folder make of samples.
package bench_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

type figures struct {
	Name   string  `json:"name"`
	Wall   float64 `json:"wall_ms"`
	CPU    float64 `json:"cpu_ms"`
	Memory float64 `json:"memory_mib"`
}

// atBudget returns samples for which each budget is just met with a program of 30.9 MB.
func atBudget() map[string]figures {
	return map[string]figures{
		"floor":                          {Wall: 10, CPU: 5, Memory: 11},
		"prelet, first run":              {Wall: 50, CPU: 20, Memory: 64},
		"prelet, again before it joined": {Wall: 70, CPU: 10, Memory: 20}, // no budget of its own
		"prelet, nothing to do":          {Wall: 40, CPU: 10, Memory: 20},
		"prelet version":                 {Wall: 6, CPU: 5, Memory: 9},
		"detect, no detector":            {Wall: 8, Memory: 20},
		"detect, one without its device": {Wall: 9, Memory: 20},
		"detect, one detector":           {Wall: 48, Memory: 30},
		"detect, four detectors":         {Wall: 128, Memory: 30},
		"plan, 1000 recordings":          {Wall: 10_000, Memory: 60},
		"plan, 10000 recordings":         {Wall: 200_000, Memory: 300},
	}
}

type result struct {
	Text     string
	Exceeded []string
}

// compare runs budgets.jq.
func compare(t *testing.T, samples map[string]figures, programMB, failAbove float64) (result, error) {
	t.Helper()
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("jq is not installed: apt-get install jq")
	}

	var lines bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(samples)) {
		s := samples[name]
		s.Name = name
		if err := json.NewEncoder(&lines).Encode(s); err != nil {
			t.Fatal(err)
		}
	}

	cmd := exec.Command("jq", "-s", "-f", "budgets.jq",
		"--argjson", "program_mb", fmt.Sprint(programMB), "--argjson", "fail_above", fmt.Sprint(failAbove))
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = &lines, &stderr
	out, err := cmd.Output()
	if err != nil {
		return result{}, fmt.Errorf("%w: %s", err, &stderr)
	}

	var r result
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("got %v, want JSON\n%s", err, out)
	}

	return r, nil
}

func TestBudgets(t *testing.T) {
	const size = 30.9
	r, err := compare(t, atBudget(), size, 1)
	if err != nil || len(r.Exceeded) > 0 || strings.Contains(r.Text, "MISSED") {
		t.Errorf("figures equal to the budgets: got exceeded %q, %v and\n%s\nwant none and no error", r.Exceeded, err, r.Text)
	}

	for _, test := range []struct {
		what, sample string
		figures      figures
		size         float64
	}{
		{"first run, wall over floor", "prelet, first run", figures{Wall: 51, CPU: 20, Memory: 64}, size},
		{"nothing to do, wall over floor", "prelet, nothing to do", figures{Wall: 41, CPU: 10, Memory: 20}, size},
		{"one detector adds, wall over floor", "detect, one detector", figures{Wall: 49, Memory: 30}, size},
		{"four detectors add, wall over floor", "detect, four detectors", figures{Wall: 129, Memory: 30}, size},
		{"peak memory, MiB", "detect, four detectors", figures{Wall: 128, Memory: 65}, size},
		{"program, MB", "prelet version", figures{Wall: 6, CPU: 5, Memory: 9}, size + 1},
		{"1,000 recordings, s", "plan, 1000 recordings", figures{Wall: 10_100, Memory: 60}, size},
		{"10,000 recordings, peak memory, MiB", "plan, 10000 recordings", figures{Wall: 1, Memory: 301}, size},
	} {
		samples := atBudget()
		samples[test.sample] = test.figures

		r, err := compare(t, samples, test.size, 1)
		if err != nil || len(r.Exceeded) != 1 || !strings.HasPrefix(r.Exceeded[0], test.what+": ") {
			t.Errorf("one figure above its budget: got exceeded %q, %v; want %q", r.Exceeded, err, test.what)
		}
		if got := strings.Count(r.Text, "MISSED"); got != 1 {
			t.Errorf("%s: got %d missed budgets, want 1 in\n%s", test.what, got, r.Text)
		}
		for _, factor := range []float64{0, 1.5} {
			if r, err := compare(t, samples, test.size, factor); err != nil || len(r.Exceeded) > 0 {
				t.Errorf("%s with factor %v: got exceeded %q, %v; want none", test.what, factor, r.Exceeded, err)
			}
		}
	}
}

// TestNotMeasured: a program without a figure is an error, and not a budget that is met.
func TestNotMeasured(t *testing.T) {
	for what, change := range map[string]func(map[string]figures){
		"no floor":  func(s map[string]figures) { delete(s, "floor") },
		"no time":   func(s map[string]figures) { s["floor"] = figures{CPU: 5, Memory: 11} },
		"no memory": func(s map[string]figures) { s["floor"] = figures{Wall: 10, CPU: 5} },
	} {
		samples := atBudget()
		change(samples)
		if r, err := compare(t, samples, 30, 1); err == nil || !strings.Contains(err.Error(), "floor was not measured") {
			t.Errorf("%s: got %+v, %v; want the error that the floor was not measured", what, r, err)
		}
	}
}
