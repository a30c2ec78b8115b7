package boot

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// notifying makes the kubelet's unit one that systemd waits for: Type=notify, as some distributions have it.
func (m *machine) notifying(lines ...string) {
	m.T.Helper()
	m.put(
		"/etc/systemd/system/kubelet.service.d/60-notify.conf",
		"[Service]\nType=notify\nRestartSec=1\n"+strings.Join(lines, "\n")+"\n",
	)
	if m.Leader != 0 {
		m.Do("systemctl", "daemon-reload")
	}
}

// patience sets how long the kubelet is watched.
func (m *machine) patience(settle, timeout string) {
	m.T.Helper()
	m.site = strings.NewReplacer(`settle  = "1s"`, `settle  = "`+settle+`"`, `timeout = "60s"`, `timeout = "`+timeout+`"`).
		Replace(m.site)
	m.put("/etc/prelet/site.hcl", m.site)
}

// said are the messages of this boot's journal with these fields, oldest first.
func (m *machine) said(match ...string) (out []string) {
	m.T.Helper()
	text := m.Do(append([]string{"journalctl", "-b", "--no-pager", "-o", "json"}, match...)...)
	for line := range strings.Lines(text) {
		var e struct {
			Message string `json:"MESSAGE"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			m.T.Fatalf("%q: got %v; want no error", line, err)
		}
		out = append(out, e.Message)
	}
	return out
}

// job is how the job ended by which a generation's kubelet was brought up.
func (m *machine) job(generation int) string {
	m.T.Helper()
	const before = "kubelet.service: "
	result := ""
	for _, s := range m.said("PRELET_STAGE=restart", fmt.Sprintf("PRELET_GENERATION=%d", generation)) {
		if _, r, ok := strings.Cut(s, before); ok {
			result = r
		}
	}
	return result
}

// unhealthyChange is a way in which a change makes the kubelet unhealthy.
type unhealthyChange struct {
	name, label string
	job         string // how the start ended that prelet waited for
	why         string // in the summary
}

// notifiers are the failures that can be distinguished only if systemd waits.
var notifiers = []unhealthyChange{
	{"it dies before it is ready, in a loop", "early", "failed", "crash loop"},
	{"it hangs in start until TimeoutStartSec=", "hang", "failed", "crash loop"},
	{"it is ready, and dies 3 s later", "later", "done", "crash loop"},
}

// A kubelet that notifies systemd when it is ready: it is judged after that, on the first boot and on a boot without
// changes, and by hand its start is waited for.
func TestNotify(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.notifying()
	m.Boot()
	m.verdict("good")
	m.well(1)
	if kind, text := m.property("kubelet", "Type"), m.property(
		"kubelet",
		"StatusText",
	); kind != "notify" ||
		text != "answers on 127.0.0.1:10248" {
		t.Errorf(
			"the kubelet's unit is Type=%s, and its status is %q; want kind \"notify\" and text \"answers on "+
				"127.0.0.1:10248\"",
			kind,
			text,
		)
	}
	ready, judged := m.monotonic("kubelet", "ActiveEnter"), m.monotonic("prelet-verify", "InactiveExit")
	if ready == 0 || judged < ready {
		t.Errorf("ready at %s, and judged from %s on; want ready other than 0 and judged at least %s",
			ready, judged, ready)
	}
	m.Off()
	m.Boot()
	m.well(1)
	if n := len(m.starts()); n != 2 {
		t.Errorf("got %d starts in two boots; want 2", n)
	}
	m.edit(pool, `"example.com/pool" = "b"`)
	if r := m.Try("prelet", "run"); r.Exit != 0 || m.job(2) != "done" {
		t.Errorf("prelet run, its job was %q: got %+v; want exit 0 and job \"done\"", m.job(2), r)
	}
	m.well(2)
}

// monotonic is one of a unit's times since the boot.
func (m *machine) monotonic(unit, name string) time.Duration {
	m.T.Helper()
	var us int64
	if _, err := fmt.Sscan(m.property(unit, name+"TimestampMonotonic"), &us); err != nil {
		m.T.Fatal(err)
	}
	return time.Duration(us) * time.Microsecond
}

// A change by hand with which such a kubelet is unhealthy: prelet waits no longer than its start takes, judges it, and
// rolls back.
func TestNotifyBadChangeByHand(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.notifying("TimeoutStartSec=3")
	m.patience("5s", "40s")
	m.Boot()
	m.verdict("good")
	for n, change := range notifiers {
		m.edit(pool, `"example.com/pool" = "a", "e2e.prelet.dev/crash" = "`+change.label+`"`)
		began := time.Now()
		r := m.Try("prelet", "run")
		took := time.Since(began).Round(time.Second)
		if r.Exit != 50 || !strings.Contains(r.Errors, change.why) {
			t.Errorf("%s: prelet run: got %+v; want exit 50 and text with %q", change.name, r, change.why)
		}
		if got := m.job(2 + 2*n); got != change.job {
			t.Errorf("%s: its start was %q, want %q", change.name, got, change.job)
		}
		m.heldOn(3+2*n, "prelet-apply.service")
		t.Logf("%s: its start was %q; back after %s", change.name, change.job, took)
	}
}

// The same at a boot, where prelet-verify comes after the start, however that ended.
func TestNotifyBadChangeAtBoot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.notifying("TimeoutStartSec=3")
	m.patience("5s", "40s")
	m.Boot()
	m.verdict("good")
	for n, change := range notifiers {
		m.Off()
		m.edit(pool, `"example.com/pool" = "a", "e2e.prelet.dev/crash" = "`+change.label+`"`)
		m.Boot()
		m.Within(90*time.Second, "prelet-verify goes back", func() string {
			if s := m.status(); s.State != "failed" {
				return fmt.Sprintf("%+v", s)
			}
			return ""
		})
		m.heldOn(3+2*n, "prelet-verify.service")
		if s := m.status(); s.Exit != 50 || s.Verdict != "good" || !strings.Contains(s.Summary, change.why) {
			t.Errorf("%s: status: got %+v; want Exit 50, Verdict \"good\" and text with %q", change.name, s, change.why)
		}
	}
}
