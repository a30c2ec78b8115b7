package boot

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// What happens in the middle of a run at run time. Each of these holds prelet at a state of the disk (hold_test.go),
// so that it is known, and not hoped, what it was in the middle of.

// later runs a command inside while the test goes on.
func (m *machine) later(args ...string) <-chan ran {
	done := make(chan ran, 1)
	go func() { done <- m.Try(args...) }()
	return done
}

// middle is a moment of a run that both(name) makes make a generation.
type middle struct {
	name    string
	folders []string
	at      func(m *machine, generation int, name string) func() bool
	decided bool // COMMIT has been
	targets string
}

func middles() []middle {
	const none, one, all = "config.yaml: false, kubelet: false", "config.yaml: true, kubelet: false", "config.yaml: true, kubelet: true"
	return []middle{
		{
			"staged, before COMMIT",
			onDisk,
			func(m *machine, generation int, _ string) func() bool { return m.staged(generation) },
			false,
			none,
		},
		{
			"after COMMIT, the kubelet running",
			atTheGate,
			func(m *machine, _ int, name string) func() bool { return m.committed(name) },
			true,
			none,
		},
		{
			"one of two files in place",
			onDisk,
			func(m *machine, _ int, name string) func() bool { return m.mixed(name) },
			true,
			one,
		},
		{
			"every file in place, the gate shut",
			atTheGate,
			func(m *machine, _ int, name string) func() bool { return m.published(name) },
			true,
			all,
		},
	}
}

// caught begins a run by hand that changes both files, and returns when it is held there.
func (m *machine) caught(at middle, generation int, name string) (*hold, <-chan ran) {
	m.T.Helper()
	m.both(name)
	h := m.hold(at.folders, at.at(m, generation, name))
	run := m.later("prelet", "run")
	h.reached()
	if got, j := m.targets(name), m.journalNow(); got != at.targets || (j.Phase != "") != at.decided {
		m.T.Fatalf("%s: held where %s, and the journal says %+v; want %s", at.name, got, j, at.targets)
	}
	return h, run
}

// runsOn: the kubelet runs on this, whole, and nothing is awaited.
func (m *machine) runsOn(when, name string) {
	m.T.Helper()
	m.Within(60*time.Second, when+": well on "+name, func() string {
		starts := m.starts()
		if s, last := m.status(), starts[len(starts)-1]; s.State == "running" ||
			m.Exists("/var/lib/prelet/journal.json") ||
			last.Labels["example.com/pool"] != name {
			return fmt.Sprintf("%+v, last start %+v", s, last)
		}
		return ""
	})
	m.running()
	m.noMixture()
}

// A kubelet that crashes, or that somebody starts, while a run by hand puts files in place, finds the gate shut: it
// starts once, when all are there.
func TestCrashesWhilePublishing(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.put("/etc/systemd/system/kubelet.service.d/60-at-once.conf", "[Service]\nRestartSec=50ms\n")
	m.Do("systemctl", "daemon-reload")
	for n, at := range middles()[1:] {
		name := fmt.Sprintf("c%d", n)
		starts, pid := len(m.starts()), m.property("kubelet", "MainPID")
		h, run := m.caught(at, n+2, name)
		if n == 0 { // it was not stopped yet: it dies, and systemd starts it again and again
			if pid == "0" || m.property("kubelet", "MainPID") != pid {
				t.Errorf("%s: the kubelet was %s and is %s; want pid other than \"0\" and property %s",
					at.name, pid, m.property("kubelet", "MainPID"), pid)
			}
			m.Do("systemctl", "kill", "-s", "KILL", "kubelet")
		} else {
			if state := m.property("kubelet", "ActiveState"); state != "inactive" {
				t.Errorf("%s: the kubelet is %s; want \"inactive\"", at.name, state)
			}
			m.Do("systemctl", "start", "--no-block", "kubelet")
		}
		m.Within(20*time.Second, at.name+": the gate has turned the kubelet away twice", func() string {
			if result, tries := m.property("kubelet", "Result"), m.property(
				"kubelet",
				"NRestarts",
			); result != "resources" || tries == "0" ||
				tries == "1" {
				return result + " after " + tries + " restarts"
			}
			return ""
		})
		if got := len(m.starts()); got != starts {
			t.Errorf("%s: the kubelet was executed %d times", at.name, got-starts)
		}
		if got := m.targets(name); got != at.targets {
			t.Errorf("%s: it went on meanwhile: got %s; want %s", at.name, got, at.targets)
		}
		h.release()
		if r := <-run; r.Exit != 0 {
			t.Errorf("%s: prelet run: got %+v; want exit 0", at.name, r)
		}
		m.runsOn(at.name, name)
		if got := m.starts(); len(got) != starts+1 {
			t.Errorf("%s: starts: got %+v; want got %v", at.name, got[starts:], starts+1)
		}
	}
}

// prelet-apply.service is killed in the middle of its work: systemd restarts it, and it finishes what was decided;
// undecided work leaves no files, and the next run begins from the start.
func TestApplyKilled(t *testing.T) {
	t.Parallel()
	m := joined(t)
	for n, at := range middles() {
		name := fmt.Sprintf("w%d", n)
		h, run := m.caught(at, n+2, name)
		before := m.property("prelet-apply", "MainPID")
		m.Do("systemctl", "kill", "-s", "KILL", "prelet-apply.service")
		h.release()
		r := <-run
		// Killed before COMMIT, the unit's own next run is what applies the site; after it, what finishes it.
		m.runsOn("killed "+at.name, name)
		if killed := m.said("_PID=1", "UNIT=prelet-apply.service"); !contains(
			killed,
			"code=killed, status=9/KILL",
			n+1,
		) {
			t.Errorf("%s: process %s was not killed %d times: %q", at.name, before, n+1, killed)
		}
		if !strings.Contains(r.Errors, "was killed") {
			t.Errorf("%s: the caller got %+v; want text with \"was killed\"", at.name, r)
		}
		m.well(n + 2)
	}
}

// contains says whether n of the lines at least hold a text.
func contains(lines []string, text string, n int) bool {
	for _, l := range lines {
		if strings.Contains(l, text) {
			n--
		}
	}
	return n <= 0
}

// SIGTERM in the middle of a run: before COMMIT nothing is changed; after it every file is put in place and the
// kubelet started, in time, and the verdict is left to who looks next.
func TestStoppedInTheMiddle(t *testing.T) {
	t.Parallel()
	m := joined(t)
	was, generation := "a", 1
	for n, at := range middles() {
		name := fmt.Sprintf("s%d", n)
		h, run := m.caught(at, generation+1, name)
		m.Do("systemctl", "stop", "--no-block", "prelet-apply.service")
		m.Within(
			20*time.Second,
			at.name+": SIGTERM is sent",
			func() string { return trouble("stop-sigterm", m.property("prelet-apply", "SubState")) },
		)
		began := time.Now()
		h.release()
		m.Within(
			20*time.Second,
			at.name+": it has ended",
			func() string { return trouble("dead failed", m.property("prelet-apply", "SubState")) },
		)
		t.Logf("%s: ended %s after it could go on", at.name, time.Since(began).Round(time.Millisecond))
		stopped := regexp.MustCompile(`prelet-apply\.service was stopped|terminated signal received`)
		if r := <-run; r.Exit != 42 || !stopped.MatchString(r.Errors) {
			t.Errorf("%s: the caller got %+v; want exit 42 and text that matches %q", at.name, r, stopped)
		}
		s, j := m.status(), m.journalNow()
		switch {
		case !at.decided:
			if j.Phase != "" || m.has(configFile, name) || m.has(flagsFile, name) || s.Generation != generation ||
				m.Exists(fmt.Sprintf("/var/lib/prelet/generations/%d.staged", generation+1)) {
				t.Errorf("%s: got %s, journal %+v, status %+v; want empty Phase and Generation %v",
					at.name, m.targets(name), j, s, generation)
			}
			m.running("prelet-apply.service")
		default:
			if j.Phase != "verify" || !m.has(configFile, name) || !m.has(flagsFile, name) || !s.Gate.Open ||
				s.Generation != generation+1 {
				t.Errorf("%s: got %s, journal %+v, status %+v; want Phase \"verify\", Gate.Open and Generation %v",
					at.name, m.targets(name), j, s, generation+1)
			}
			was = name
		}
		m.Within(20*time.Second, at.name+": the kubelet runs", func() string {
			starts := m.starts()
			return trouble(was, starts[len(starts)-1].Labels["example.com/pool"])
		})
		if r := m.Try("prelet", "run"); r.Exit != 0 {
			t.Errorf("got %s, and run again: %+v; want exit 0", at.name, r)
		}
		m.Do("systemctl", "reset-failed")
		m.runsOn("stopped "+at.name, name)
		was, generation = name, generation+1
	}
}

// trouble is "" when what is there is one of the words that are wanted.
func trouble(want, have string) string {
	for _, w := range strings.Fields(want) {
		if w == have {
			return ""
		}
	}
	return fmt.Sprintf("it is %q, want %q", have, want)
}

// SIGTERM while the verdict is awaited: it ends at once, no verdict is reached and nothing undone; the next run judges.
func TestStoppedWhileVerifying(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.site = strings.Replace(m.site, `settle  = "1s"`, `settle  = "15s"`, 1)
	m.edit(pool, `"example.com/pool" = "b"`)
	run := m.later("prelet", "run")
	m.Within(30*time.Second, "it watches", func() string {
		if starts := m.starts(); len(starts) != 2 || m.journalNow().Phase != "verify" || !m.open() {
			return fmt.Sprintf("%+v, journal %+v", starts, m.journalNow())
		}
		return ""
	})
	began := time.Now()
	m.Do("systemctl", "stop", "prelet-apply.service")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s to stop; want at most 10s", took)
	}
	<-run
	if s := m.status(); m.journalNow().Phase != "verify" || s.Verdict == "good" || s.Verdict == "bad" ||
		s.Generation != 2 {
		t.Errorf(
			"journal %+v, status %+v; want journalNow.Phase \"verify\", Verdict other than \"good\", Verdict "+
				"other than \"bad\" and Generation 2",
			m.journalNow(),
			s,
		)
	}
	if r := m.Try("prelet", "run"); r.Exit != 0 {
		t.Errorf("and run again: got %+v; want exit 0", r)
	}
	m.Do("systemctl", "reset-failed")
	m.well(2)
	if n := len(m.starts()); n != 2 {
		t.Errorf("got %d starts; want 2", n)
	}
}

// systemd is unreachable between COMMIT and the stop of the kubelet (it re-executes itself, which ends every
// connection, and its sockets are missing): the journal is kept, 42, and nothing is published under the kubelet that
// still runs, however often it is tried. When systemd is back, prelet-apply.service finishes by itself.
func TestBusGoneAfterCommit(t *testing.T) {
	t.Parallel()
	m := joined(t)
	at := middles()[1]
	h, run := m.caught(at, 2, "gone1")
	pid, starts := m.property("kubelet", "MainPID"), len(m.starts())
	m.Do("systemctl", "daemon-reexec")
	m.Do("sh", "-c", "mv /run/systemd/private /run/systemd/private.gone; mv /run/dbus/system_bus_socket /run/dbus/gone")
	h.release()
	<-run
	m.Within(30*time.Second, "two runs that could do nothing", func() string {
		ended := m.said("_PID=1", "UNIT=prelet-apply.service")
		if !contains(ended, "status=42", 2) {
			return fmt.Sprintf("%q", ended)
		}
		return ""
	})
	if j := m.journalNow(); j.Phase != "publish" || m.targets("gone1") != at.targets {
		t.Errorf("got %s, journal %+v; want Phase \"publish\" and targets %s", m.targets("gone1"), j, at.targets)
	}
	if m.Try("kill", "-0", pid).Exit != 0 || len(m.starts()) != starts {
		t.Errorf("process %s of the kubelet, %d starts; want try.Exit 0 and starts %v",
			pid, len(m.starts())-starts, starts)
	}
	m.Do("sh", "-c", "mv /run/systemd/private.gone /run/systemd/private; mv /run/dbus/gone /run/dbus/system_bus_socket")
	m.runsOn("systemd is back", "gone1")
	m.well(2)
	if n := len(m.starts()); n != starts+1 {
		t.Errorf("%d starts", n-starts)
	}
}

// The process that requested a run by hand ends in the middle of it: the unit continues, and the node is healthy.
func TestAskerGoesAway(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.both("left1")
	h := m.hold(onDisk, m.mixed("left1"))
	run := m.later("sh", "-c", "echo $$ >/run/asker; exec prelet run")
	h.reached()
	m.Do("sh", "-c", "kill -KILL $(cat /run/asker)")
	if r := <-run; r.Exit == 0 {
		t.Errorf("the caller had a reply: got %+v; want exit other than 0", r)
	}
	h.release()
	m.runsOn("the caller ended", "left1")
	m.well(2)
}

// systemd re-executes itself in the middle of a run by hand, as each of its upgrades does, also several times, and
// also while the verdict is awaited: the command and the unit reconnect, and the run continues as if nothing had
// happened.
func TestReexecInTheMiddle(t *testing.T) {
	t.Parallel()
	m := joined(t)
	reexec := func(times int) {
		for range times {
			m.Do("systemctl", "daemon-reexec")
		}
	}
	ended := func(when, name string, generation int, r ran) {
		t.Helper()
		if r.Exit != 0 {
			t.Errorf("%s: prelet run: got %+v, want 0", when, r)
		}
		m.runsOn(when, name)
		m.well(generation)
		if n := len(m.starts()); n != generation {
			t.Errorf("%s: got %d starts of the kubelet, want %d", when, n, generation)
		}
		if failed := m.said("_PID=1", "UNIT=prelet-apply.service"); contains(failed, "Failed with result", 1) {
			t.Errorf("%s: the unit failed: %q", when, failed)
		}
	}
	generation := 1
	for n, at := range middles() {
		name := fmt.Sprintf("x%d", n)
		generation++
		h, run := m.caught(at, generation, name)
		reexec(1 + n%2)
		h.release()
		ended(at.name, name, generation, <-run)
	}

	m.both("storm")
	generation++
	run := m.later("prelet", "run")
	for range 8 {
		reexec(1)
		time.Sleep(150 * time.Millisecond)
	}
	ended("again and again", "storm", generation, <-run)

	m.site = strings.Replace(m.site, `settle  = "1s"`, `settle  = "5s"`, 1)
	m.put("/etc/prelet/site.hcl", strings.ReplaceAll(m.site, "storm", "watch"))
	generation++
	run = m.later("prelet", "run")
	m.Within(30*time.Second, "it watches", func() string { return trouble("verify", string(m.journalNow().Phase)) })
	reexec(2)
	ended("while it watches", "watch", generation, <-run)
}
