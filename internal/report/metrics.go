package report

import (
	"bytes"
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

//go:embed metrics.prom.tmpl
var metricsText string

// Metrics returns the status in the text format that node_exporter's textfile collector reads.
func (s Status) Metrics() ([]byte, error) {
	t, err := template.New(MetricsFile).Funcs(template.FuncMap{
		"label":   label,
		"list":    func(items ...string) []string { return items },
		"number":  number,
		"one":     one,
		"seconds": func(millis int64) string { return number(float64(millis) / 1000) },
	}).Parse(metricsText)
	if err != nil {
		return nil, err
	}

	var b bytes.Buffer
	err = t.Execute(&b, s)

	return b.Bytes(), err
}

// DegradedByCode counts the reasons of each code.
func (s Status) DegradedByCode() map[string]int {
	out := map[string]int{}
	for _, reason := range s.Degraded {
		out[reason.Code]++
	}

	return out
}

// LastStages returns each stage once, as it was the last time: a sample that occurs twice makes the collector refuse the
// whole file.
func (s Status) LastStages() []Stage {
	var out []Stage
	for i, stage := range s.Stages {
		later := func(other Stage) bool { return other.Address == stage.Address }
		if !slices.ContainsFunc(s.Stages[i+1:], later) {
			out = append(out, stage)
		}
	}

	return out
}

// label quotes a label's value. A byte that is not UTF-8 would make the file unreadable.
func label(value string) string {
	escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(value, "\uFFFD"))
	return `"` + escaped + `"`
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// one returns 1 for what a template takes as true, and 0 otherwise.
func one(value any) int {
	if yes, _ := template.IsTrue(value); yes {
		return 1
	}

	return 0
}
