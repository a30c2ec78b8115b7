package report

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Metrics is the status in the text format that node_exporter's textfile collector reads.
func (s Status) Metrics() []byte {
	var m metrics
	m.family("prelet_info", "gauge", "The prelet that ran.")
	m.sample(1, "version", s.Version)
	m.family("prelet_state", "gauge", "How the last run stands: 1 for the state that it is in.")
	for _, state := range []string{Running, OK, Degraded, Failed} {
		m.sample(one(s.State == state), "state", state)
	}
	m.family("prelet_exit_code", "gauge", "Exit code of the last run.")
	m.sample(float64(s.Exit))
	m.family("prelet_generation", "gauge", "Generation in place, 0 for none.")
	m.sample(float64(s.Generation))
	m.family("prelet_verdict", "gauge", "What became of the generation in place: 1 for the verdict.")
	for _, verdict := range []string{"pending", "good", "bad", "unknown"} {
		m.sample(one(s.Verdict == verdict), "verdict", verdict)
	}
	m.family("prelet_held", "gauge", "1 while the site's plan is not applied.")
	m.sample(one(s.Held != nil))
	m.family("prelet_degraded", "gauge", "Reasons why the node is not wholly what the site says, by code.")
	for _, reason := range counted(s.Degraded) {
		m.sample(reason.count, "code", reason.code)
	}
	m.family("prelet_last_run_timestamp_seconds", "gauge", "When the last run began, in seconds since the epoch.")
	m.sample(seconds(s.Started))
	if s.Finished != nil {
		m.family("prelet_last_run_duration_seconds", "gauge", "How long the last run took.")
		m.sample(s.Finished.Sub(s.Started).Seconds())
	}
	m.family("prelet_stage_duration_seconds", "gauge", "How long a stage or a step of apply took; of one that came again, the last time.")
	for i, stage := range s.Stages {
		if !again(s.Stages[i+1:], stage.Address) {
			m.sample(float64(stage.Millis)/1000, "stage", stage.Address, "state", stage.State)
		}
	}
	return m.Bytes()
}

// metrics writes families of samples. A sample that occurs twice makes the collector refuse the whole file.
type metrics struct {
	bytes.Buffer
	name string
}

func (m *metrics) family(name, kind, help string) {
	m.name = name
	fmt.Fprintf(m, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (m *metrics) sample(value float64, labels ...string) {
	m.WriteString(m.name)
	for i := 0; i+1 < len(labels); i += 2 {
		separator := ","
		if i == 0 {
			separator = "{"
		}
		fmt.Fprintf(m, `%s%s="%s"`, separator, labels[i], escape(labels[i+1]))
	}
	if len(labels) > 0 {
		m.WriteByte('}')
	}
	m.WriteByte(' ')
	m.WriteString(strconv.FormatFloat(value, 'f', -1, 64))
	m.WriteByte('\n')
}

// escape is the escaping of label values in the text format; a byte that is no UTF-8 would make it unreadable.
func escape(value string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(value, "\uFFFD"))
}

type count struct {
	code  string
	count float64
}

func counted(reasons []Reason) []count {
	var out []count
	at := map[string]int{}
	for _, reason := range reasons {
		i, known := at[reason.Code]
		if !known {
			i = len(out)
			at[reason.Code] = i
			out = append(out, count{code: reason.Code})
		}
		out[i].count++
	}
	return out
}

func again(later []Stage, address string) bool {
	for _, stage := range later {
		if stage.Address == address {
			return true
		}
	}
	return false
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
