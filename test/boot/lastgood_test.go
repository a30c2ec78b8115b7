package boot

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// entry is one of the journal's, with the fields that prelet gives it.
type entry struct {
	Message    string `json:"MESSAGE"`
	ID         string `json:"MESSAGE_ID"`
	Stage      string `json:"PRELET_STAGE"`
	Generation string `json:"PRELET_GENERATION"`
	Unit       string `json:"_SYSTEMD_UNIT"`
	Priority   string `json:"PRIORITY"`
}

func (m *machine) entries(match ...string) (out []entry) {
	m.T.Helper()
	for line := range strings.Lines(m.Do(append([]string{"journalctl", "-b", "--no-pager", "-o", "json"}, match...)...)) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			m.T.Fatalf("%q: got %v; want no error", line, err)
		}
		out = append(out, e)
	}
	return out
}

// Ids of messages, as they are documented.
const (
	messageDegraded = "5741b96c0379449b9d5cc0383356eed0"
	messageEnded    = "edaca37029cd4724b63501f834de2a58"
)

// samples are those of metrics.prom, by name and labels.
func (m *machine) samples() map[string]string {
	m.T.Helper()
	out := map[string]string{}
	for line := range strings.Lines(m.Do("cat", "/run/prelet/metrics.prom")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(line, "#") {
			out[name] = value
		}
	}
	return out
}

// reason is why a boot is degraded: the code, how often, and words that each of the reasons has.
type reason struct {
	code  string
	count int
	words []string
}

// degradedBy holds status.json, the metrics and the journal of this boot's prelet.service against one another and
// what is wanted: on the generation in place, done (0), and not wholly as the site says.
func (m *machine) degradedBy(want reason) {
	t := m.T
	t.Helper()
	s := m.status()
	if s.State != "degraded" || s.Code != 2 || s.Exit != 0 || s.Generation != 1 || !s.Gate.Open || s.Held != nil ||
		len(s.Degraded) != want.count {
		t.Errorf("status: %+v", s)
	}
	reported := map[string]bool{}
	for _, d := range s.Degraded {
		reported[d.Code+": "+d.Summary] = true
		for _, w := range want.words {
			if d.Code != want.code || !strings.Contains(d.Summary, w) {
				t.Errorf("degraded by %s: %q, want %s with %q", d.Code, d.Summary, want.code, w)
			}
		}
	}
	metrics := m.samples()
	for name, value := range map[string]string{
		`prelet_state{state="degraded"}`: "1", `prelet_state{state="ok"}`: "0", `prelet_state{state="failed"}`: "0",
		"prelet_exit_code": "0", "prelet_generation": "1", "prelet_held": "0",
		fmt.Sprintf("prelet_degraded{code=%q}", want.code): fmt.Sprint(want.count),
	} {
		if metrics[name] != value {
			t.Errorf("metrics: %s is %q, want %s", name, metrics[name], value)
		}
	}
	entries := m.entries("MESSAGE_ID=" + messageDegraded)
	for _, e := range entries {
		if !reported[e.Message] || e.Stage != "report" || e.Generation != "1" || e.Unit != "prelet.service" ||
			e.Priority != "4" {
			t.Errorf(
				"journal: got %+v; want reported, Stage \"report\", Generation \"1\", Unit \"prelet.service\" and "+
					"Priority \"4\"",
				e,
			)
		}
	}
	if len(entries) != want.count {
		t.Errorf("journal: %d entries, want %d", len(entries), want.count)
	}
	ended := m.entries("MESSAGE_ID="+messageEnded, "_SYSTEMD_UNIT=prelet.service")
	if len(ended) != 1 || ended[0].Generation != "1" || !strings.HasPrefix(ended[0].Message, "report: degraded: ") {
		t.Errorf("journal: ended as %+v; want 1 ended, ended[0].Generation \"1\" and prefix \"report: degraded: \"",
			ended)
	}
	if text := m.property("prelet", "StatusText"); !strings.Contains(text, "degraded") {
		t.Errorf("systemctl status prelet: got %q; want text with \"degraded\"", text)
	}
}

// TestLastGood boots a node that has joined while its cluster does not answer, answers one request wrongly, or has
// been unreachable for longer than the site allows: each time it boots with the current generation, and status,
// metrics and the journal report the same.
func TestLastGood(t *testing.T) {
	t.Parallel()
	m := joined(t)
	if n := m.entries("MESSAGE_ID=" + messageDegraded); len(n) != 0 || m.samples()[`prelet_state{state="ok"}`] != "1" {
		t.Fatalf("degraded while all is well: got %+v; want none", n)
	}
	m.Off()
	before := m.disk()
	boot := func(name string, want reason) {
		t.Helper()
		m.Boot()
		m.running()
		m.degradedBy(want)
		m.Off()
		if d := differs(before, m.disk()); len(d) > 0 {
			t.Errorf("%s: written: got %q; want none", name, d)
		}
	}
	m.cluster.away()
	boot(
		"away",
		reason{
			"stale",
			1,
			[]string{"ConfigMap kube-system/kubelet-config is from the last good generation", "connection refused"},
		},
	)
	m.cluster.back()

	m.cluster.SetConfigMap(
		"kube-system",
		"kubelet-config",
		map[string]string{"kubelet": "kind: [KubeletConfiguration\n"},
	)
	boot(
		"a broken ConfigMap alone",
		reason{
			"cluster-unusable",
			1,
			[]string{"fetch-config.kubelet.data[\"kubelet\"]", "generation 1 stays in charge"},
		},
	)
	m.cluster.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": kubeletConfig})

	m.edit("cluster {", "prelet { max_age = \"1s\" }\ncluster {")
	before = m.disk()
	time.Sleep(2 * time.Second)
	m.cluster.away()
	boot(
		"away for longer than max_age",
		reason{"cluster-unreachable", 1, []string{"connection refused", "generation 1 stays in charge"}},
	)
	m.cluster.back()

	m.Boot()
	m.well(1)
	if s, metrics := m.status(), m.samples(); s.State != "ok" || metrics[`prelet_state{state="ok"}`] != "1" ||
		len(m.entries("MESSAGE_ID="+messageDegraded)) != 0 {
		t.Errorf("when the cluster is back: got %+v, %v; want State \"ok\" and no entries", s, metrics)
	}
	if n := len(m.starts()); n != 5 {
		t.Errorf("got %d starts in five boots; want 5", n)
	}
}
