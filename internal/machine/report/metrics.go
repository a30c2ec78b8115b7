package report

import (
	"bytes"
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
)

//go:embed metrics.prom.tmpl
var metricsText string

// Metrics returns the status in the text format that node_exporter's textfile collector reads. While a run is in
// progress, the results are those of the last finished one: an alert on them is not reset by a run that is repeated.
func (s Status) Metrics() ([]byte, error) {
	t, err := template.New(MetricsFile).Funcs(template.FuncMap{
		"degradedByCode": Status.DegradedByCode,
		"errorCode":      Status.ErrorCode,
		"isSet":          func(t time.Time) bool { return !t.IsZero() },
		"label":          quoteLabel,
		"lastStages":     Status.LastStages,
		"list":           func(items ...string) []string { return items },
		"number":         formatNumber,
		"one":            toFlag,
		"result":         Status.Result,
		"seconds":        formatMillis,
		"since":          func(from, to time.Time) float64 { return to.Sub(from).Seconds() },
		"stale":          (*Delivery).Stale,
		"stamp":          func(t time.Time) string { return formatMillis(t.UnixMilli()) },
	}).Parse(metricsText)
	if err != nil {
		return nil, err
	}

	var b bytes.Buffer
	err = t.Execute(&b, s)

	return b.Bytes(), err
}

// WriteMetrics writes metrics.prom to the run folder. The zero value, of no run, is not written.
func (s Status) WriteMetrics(dir string) error {
	if s.BootID == "" {
		return nil
	}
	text, err := s.Metrics()
	if err != nil {
		return err
	}

	return writeFile(dir, MetricsFile, text)
}

// DegradedByCode counts the reasons of each code.
func (s Status) DegradedByCode() map[string]int {
	out := map[string]int{}
	for _, reason := range s.Degraded {
		out[string(reason.Code)]++
	}

	return out
}

// LastStages returns the last line of each stage. The collector refuses a whole file in which a sample occurs twice.
func (s Status) LastStages() []Stage {
	var out []Stage
	for i, stage := range s.Stages {
		later := func(other Stage) bool {
			return other.Address == stage.Address
		}
		if !slices.ContainsFunc(s.Stages[i+1:], later) {
			out = append(out, stage)
		}
	}

	return out
}

// quoteLabel quotes a label's value. A byte that is not UTF-8 would make the file unreadable.
func quoteLabel(value string) string {
	escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).
		Replace(strings.ToValidUTF8(value, "\uFFFD"))
	return `"` + escaped + `"`
}

// formatMillis returns milliseconds as seconds.
func formatMillis(millis int64) string {
	return formatNumber(float64(millis) / 1000)
}

func formatNumber(f float64) string {
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// toFlag returns 1 for a value that is true in a template, and 0 otherwise.
func toFlag(value any) int {
	if yes, _ := template.IsTrue(value); yes {
		return 1
	}

	return 0
}
