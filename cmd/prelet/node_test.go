package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/report"
)

func inode(st fs.FileInfo) uint64 { return st.Sys().(*syscall.Stat_t).Ino }

// The first boot writes, joins, judges; the second reads, opens the gate, and writes nothing at all.
func TestBoots(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	run, verify := m.boot()
	m.want("run", run, ended{0, "Generation 1 is in place; prelet-verify judges it", ""})
	m.want("verify", verify, ended{0, "Generation 1 is in place, and the kubelet is healthy on it.", ""})
	if got := m.starts; len(got) != 1 || got[0] != "PRELET_GENERATION=1" {
		t.Errorf("the kubelet started with %q", got)
	}
	if !strings.Contains(m.read("/etc/default/kubelet"), "example.com/pool=a") {
		t.Errorf("flags: %q", m.read("/etc/default/kubelet"))
	}
	if len(m.args) == 0 || !strings.Contains(strings.Join(m.args, " "), "example.com/pool=a") {
		t.Errorf("verify asked for the flags %q", m.args)
	}
	if m.read("/etc/kubernetes/bootstrap-kubelet.conf") != "" {
		t.Error("the bootstrap kubeconfig stays after the node has joined")
	}
	if s := m.says(); s.State != report.OK || s.Verdict != "good" || s.Generation != 1 {
		t.Errorf("status: %+v", s)
	}
	if !strings.Contains(m.status.String(), "fetch-ca.cluster") {
		t.Errorf("STATUS=: got no stage:\n%s", m.status)
	}

	for text, want := range map[string]map[string]any{
		"commit: generation 1":         {"stage": "commit", "generation": 1.0, "message_id": report.MessageCommitted},
		"verify: generation 1 is good": {"stage": "verify", "generation": 1.0, "message_id": report.MessageGood},
		"fetch-ca.cluster":             {"stage": "fetch-ca.cluster", "generation": 0.0},
	} {
		es := m.entries(text)
		for k, v := range want {
			if len(es) == 0 || es[0][k] != v {
				t.Errorf("journal: %q: %v, want %s = %v", text, es, k, v)
			}
		}
	}

	m.reboot()
	before, requests := m.disk(), len(m.server.Requests())
	run, verify = m.boot()
	m.want("second run", run, ended{0, "No changes; generation 1 is in place.", ""})
	if verify.exit != -1 {
		t.Errorf("nothing awaits a verdict, and still prelet-verify ran: %+v", verify)
	}
	if after := m.disk(); !maps.Equal(before, after) {
		for p, line := range after {
			if before[p] != line {
				t.Errorf("the second boot wrote %s:\n%s\n%s", p, before[p], line)
			}
		}
	}
	if m.gateSays() != "PRELET_GENERATION=1" || len(m.starts) != 1 {
		t.Errorf("gate %q, starts %q", m.gateSays(), m.starts)
	}
	if n := len(m.server.Requests()) - requests; n > 2 {
		t.Errorf("%d requests with nothing to do, want two at most", n)
	}
}

// A typo must not take a fleet down at its next reboot, and the exit status stays the typo's.
func TestSiteError(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.put("/etc/prelet/site.hcl", m.site+"stage \"lable\" \"x\" {}\n")
	m.reboot()
	before := m.disk()
	run, _ := m.boot()
	m.want("run", run, ended{10, "", "eneration 1 stays in charge"})
	if !strings.Contains(run.errors, "/etc/prelet/site.hcl:") || m.gateSays() != "PRELET_GENERATION=1" ||
		len(m.starts) != 1 {
		t.Errorf("gate %q, starts %q\n%s", m.gateSays(), m.starts, run.errors)
	}
	if !maps.Equal(before, m.disk()) {
		t.Error("a run that failed wrote to the disk")
	}
	s := m.as("", "status")
	m.want("status", s, ended{2, "site.hcl", ""})
	m.want("status", s, ended{2, "may start, on generation 1", ""})
}

// The same on a node that never had a generation: the gate stays shut, and says why.
func TestSiteErrorOnFreshNode(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.put("/etc/prelet/site.hcl", m.site+"stage \"lable\" \"x\" {}\n")
	run, verify := m.boot()
	m.want("run", run, ended{10, "", "the kubelet may not start"})
	m.want("verify", verify, ended{0, "", "the kubelet may not start"})
	if m.gateSays() != "" || len(m.starts) != 0 || m.kubelet.Result != "resources" {
		t.Errorf("gate %q, kubelet %+v", m.gateSays(), m.kubelet)
	}
	if s := m.says(); s.State != report.Failed || s.Exit != 10 || s.Code != fault.UnknownStage {
		t.Errorf("status after verify: %+v; want that of the run: failed, 10, %s", s, fault.UnknownStage)
	}
	m.want("status", m.as("", "status"), ended{1, "may not start:", ""})
	// In the kubelet's own journal, by the run and again by what each failed start pulls in.
	if es := m.entries("prelet holds kubelet.service back"); len(es) != 2 || es[0]["unit"] != "kubelet.service" ||
		es[0]["message_id"] != report.MessageHeldBack {
		t.Errorf("the kubelet's journal: %v", es)
	}
	m.want("verify by hand", m.as("", "verify"), ended{50, "", "no generation was ever in place"})
}

// A failed run whose code an older prelet did not store stays failed after verify, as a failure that is not known.
func TestStatusWithoutCode(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	status := filepath.Join(m.run, report.StatusFile)
	text, err := json.Marshal(map[string]any{
		"format_version": 1,
		"boot_id":        m.bootID(),
		"state":          report.Failed,
		"exit":           10,
		"summary":        "the site is not valid",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(status, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(m.gate); err != nil {
		t.Fatal(err)
	}

	m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "", ""})

	s := m.says()
	if s.State != report.Failed || s.Code != fault.Internal || !strings.HasPrefix(s.Summary, "the site is not valid") {
		t.Errorf("got status %s, code %q, %q; want failed, %q, and the summary of the run",
			s.State, s.Code, s.Summary, fault.Internal)
	}
}

// The cluster is away at a reboot: what it said last counts, and status says so.
func TestClusterAway(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	_ = m.server.Close()
	m.reboot()
	run, _ := m.boot()
	m.want("run", run, ended{0, "No changes; generation 1 is in place.", "last good generation"})
	if s := m.says(); s.State != report.Degraded || len(s.Degraded) == 0 || s.Degraded[0].Code != "stale" {
		t.Errorf("status: %+v", s)
	}
	m.want("status", m.as("", "status"), ended{2, "stale", ""})
	if len(m.starts) != 1 {
		t.Errorf("the kubelet started %d times", len(m.starts))
	}
}

// The same with a question that the last good recording does not hold: the whole last good plan stays.
func TestClusterAwayWithNewQuestion(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	_ = m.server.Close()
	m.put("/etc/prelet/more.hcl", "stage \"fetch-config\" \"more\" { config_map = \"kube-system/more\" }\n")
	m.put(
		"/etc/prelet/site.hcl",
		strings.Replace(
			m.site,
			`"write" "kubelet" {}`,
			"\"write\" \"kubelet\" {\n kubelet_config { base = stage.fetch-config.kubelet.data.kubelet }\n}",
			1,
		),
	)
	m.reboot()
	run, _ := m.boot()
	m.want("run", run, ended{0, "eneration 1 stays in charge", "Cannot reach the cluster"})
	m.want("status", m.as("", "status"), ended{2, "cluster-unreachable", ""})

	// A site that asks for it: the gate opens all the same, the unit fails.
	m.put(
		"/etc/prelet/more.hcl",
		"stage \"fetch-config\" \"more\" { config_map = \"kube-system/more\" }\nprelet { on_cluster_error = "+
			"\"fail\" }\n",
	)
	m.reboot()
	run, _ = m.boot()
	m.want("run", run, ended{20, "", "eneration 1 stays in charge"})
	if len(m.starts) != 1 {
		t.Errorf("the kubelet started %d times", len(m.starts))
	}
}

// A node that never joined fails, tries again slower each time, and comes up as soon as the cluster does.
func TestClusterAwayOnFreshNode(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, m.server.URL(), "https://127.0.0.1:1", 1))
	run, verify := m.boot()
	m.want("run", run, ended{20, "", "127.0.0.1:1"})
	m.want("verify", verify, ended{0, "", "the kubelet may not start"})
	if len(m.starts) != 0 {
		t.Errorf("the kubelet started %q", m.starts)
	}
	var waits []time.Duration
	for range 3 {
		m.self.Restarts++
		m.status.Reset()
		m.extend = nil
		from := m.now
		m.inside = true
		m.want("run", m.as(app.BootUnit, "run"), ended{20, "", "127.0.0.1:1"})
		m.inside = false
		waits = append(waits, m.now-from)
		if len(m.extend) == 0 || m.extend[0] < waits[len(waits)-1] {
			t.Errorf("waited %s and asked for %s", waits[len(waits)-1], m.extend)
		}
		if !strings.Contains(m.status.String(), "waiting ") || !strings.Contains(m.status.String(), "127.0.0.1:1") {
			t.Errorf("STATUS= while waiting:\n%s", m.status)
		}
	}
	if waits[0] < time.Second || waits[1] < 2*waits[0]-time.Second || waits[2] < 2*waits[1]-time.Second {
		t.Errorf("waits %s, want them to double", waits)
	}
	// An operator fixes the site, and restarts by hand: no wait.
	m.put("/etc/prelet/site.hcl", m.site)
	m.self.Restarts = 0
	from := m.now
	run, verify = m.boot()
	m.want("run", run, ended{0, "Generation 1 is in place", ""})
	m.want("verify", verify, ended{0, "healthy", ""})
	if m.now-from > time.Minute || len(m.starts) != 1 {
		t.Errorf("took %s, starts %q", m.now-from, m.starts)
	}
	if _, err := os.Stat(m.run + "/attempts"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the count of failures stays: %v", err)
	}
}

// A plan with which the kubelet became unhealthy is rolled back, held, and not tried again until an operator requests
// it.
func TestHeldPlan(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `= "a"`, `= "b"`, 1))
	m.sick = func() error {
		if strings.Contains(m.read("/etc/default/kubelet"), "pool=b") {
			return errors.New("503 Service Unavailable")
		}
		return nil
	}
	m.reboot()
	run, verify := m.boot()
	m.want("run", run, ended{0, "Generation 2 is in place", ""})
	m.want("verify", verify, ended{50, "", "503"})
	if !strings.Contains(m.read("/etc/default/kubelet"), "pool=a") || len(m.starts) != 2 ||
		m.starts[1] != "PRELET_GENERATION=3" {
		t.Errorf("flags %q, starts %q", m.read("/etc/default/kubelet"), m.starts)
	}
	m.want("status", m.as("", "status"), ended{1, "3 (good)", ""})
	if held := m.says().Held; held == nil || !strings.Contains(held.Why, "503") ||
		!strings.HasPrefix(held.Plan, "sha256:") {
		t.Errorf("held: %+v", held)
	}
	m.want("history", m.as("", "history"), ended{0, "rolled back", ""})
	m.want("history", m.as("", "history", "-o", "json"), ended{0, `"status":"rolledback"`, ""})

	m.reboot()
	before := m.disk()
	run, verify = m.boot()
	m.want("next run", run, ended{0, "held", ""})
	if !maps.Equal(before, m.disk()) || m.gateSays() != "PRELET_GENERATION=3" || verify.exit != -1 {
		t.Errorf("a held plan was not left alone: gate %q, verify %+v", m.gateSays(), verify)
	}
	m.want("status", m.as("", "status"), ended{2, "prelet run --retry", ""})

	// An edit of a current file is still fixed.
	m.put("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--v=9\n")
	m.reboot()
	run, verify = m.boot()
	m.want("mending run", run, ended{0, "Generation 4 is in place", ""})
	m.want("verify", verify, ended{0, "healthy", ""})
	if !strings.Contains(m.read("/etc/default/kubelet"), "pool=a") {
		t.Errorf("flags %q", m.read("/etc/default/kubelet"))
	}

	m.sick = nil
	held := m.read("/var/lib/prelet/held.json")
	m.masked = true
	m.want("retry with a masked kubelet", m.as("", "run", "--retry"), ended{52, "This plan failed before", "masked"})
	if got := m.read("/var/lib/prelet/held.json"); got != held || got == "" {
		t.Errorf("a retry that never committed let go of the plan: %q", got)
	}
	if s := m.says(); s.Held == nil {
		t.Errorf("status does not say that it is held: %+v", s)
	}
	m.masked = false
	m.want(
		"retry",
		m.as("", "run", "--retry"),
		ended{0, "Generation 5 is in place, and the kubelet is healthy on it.", ""},
	)
	if !strings.Contains(m.read("/etc/default/kubelet"), "pool=b") {
		t.Errorf("flags %q", m.read("/etc/default/kubelet"))
	}
	m.want("status", m.as("", "status"), ended{0, "ok", ""})
}

// prelet=off opens the gate on what is in place, and does nothing else: also when that awaits a verdict.
func TestOff(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.put("/etc/prelet/site.hcl", "this is no site")
	m.put("/proc/cmdline", "quiet prelet=off\n")
	m.reboot()
	before := m.disk()
	run, _ := m.boot()
	m.want("run", run, ended{0, "prelet=off", ""})
	if m.gateSays() != "PRELET_GENERATION=1" || len(m.starts) != 1 || !maps.Equal(before, m.disk()) {
		t.Errorf("gate %q, starts %q", m.gateSays(), m.starts)
	}
	m.want("status", m.as("", "status"), ended{2, "prelet=off", ""})

	fresh := newMachine(t)
	fresh.put("/proc/cmdline", "prelet=off\n")
	run, _ = fresh.boot()
	fresh.want("run", run, ended{0, "prelet=off", ""})
	if fresh.gateSays() != "PRELET_GENERATION=0" || len(fresh.server.Requests()) != 0 {
		t.Errorf("gate %q, %d requests", fresh.gateSays(), len(fresh.server.Requests()))
	}
}

func TestNoSite(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if err := os.Remove(m.root + "/etc/prelet/site.hcl"); err != nil {
		t.Fatal(err)
	}
	run, _ := m.boot()
	m.want("run", run, ended{0, "No site was found, so prelet is not in use", ""})
	if m.gateSays() != "PRELET_GENERATION=0" || len(m.starts) != 1 {
		t.Errorf("gate %q, starts %q", m.gateSays(), m.starts)
	}

	m = goodNode(t)
	if err := os.Remove(m.root + "/etc/prelet/site.hcl"); err != nil {
		t.Fatal(err)
	}
	m.reboot()
	run, _ = m.boot()
	m.want("run", run, ended{0, "", ""})
	m.want("status", m.as("", "status"), ended{2, "no-site", ""})
	if m.gateSays() != "PRELET_GENERATION=1" {
		t.Errorf("gate %q", m.gateSays())
	}
}

// Back by hand, pinned over a reboot and a changed site, and let go of.
func TestRollbackByHand(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `= "a"`, `= "b"`, 1))
	m.want("run", m.as("", "run"), ended{0, "Generation 2 is in place, and the kubelet is healthy on it.", ""})
	m.want(
		"rollback",
		m.as("", "rollback"),
		ended{0, "Generation 3 is in place; it has the contents of generation 1, and the kubelet is healthy on it", ""},
	)
	if !strings.Contains(m.read("/etc/default/kubelet"), "pool=a") {
		t.Errorf("flags %q", m.read("/etc/default/kubelet"))
	}
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `= "a"`, `= "c"`, 1))
	m.reboot()
	run, _ := m.boot()
	m.want("run", run, ended{0, "prelet rollback --release", ""})
	if !strings.Contains(m.read("/etc/default/kubelet"), "pool=a") {
		t.Errorf("a pinned node applied the site: %q", m.read("/etc/default/kubelet"))
	}
	m.want("history", m.as("", "history"), ended{0, "is pinned", ""})
	m.want("release", m.as("", "rollback", "--release"), ended{0, "Released", ""})
	m.want("run", m.as("", "run"), ended{0, "Generation 4 is in place", ""})
	if !strings.Contains(m.read("/etc/default/kubelet"), "pool=c") {
		t.Errorf("flags %q", m.read("/etc/default/kubelet"))
	}
	m.want("nonsense", m.as("", "rollback", "77"), ended{64, "", "prelet history"})
	m.want("status", m.as("", "status"), ended{0, "", ""}) // a mistyped number does not start a run
	m.want("both", m.as("", "rollback", "1", "--release"), ended{64, "", "either"})
}

// SIGTERM before COMMIT changes nothing and leaves the kubelet running; while it waits for the verdict, the verdict
// stays open.
func TestStopped(t *testing.T) {
	m := goodNode(t)
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `= "a"`, `= "b"`, 1))
	m.slept = m.terminated
	got := m.as("", "run") // sleeps first while it watches
	m.want("run", got, ended{42, "", "generation 2"})
	if m.gateSays() != "PRELET_GENERATION=2" || m.kubelet.Active != "active" {
		t.Errorf("gate %q, kubelet %s", m.gateSays(), m.kubelet.Active)
	}
	m.want("the next run", m.as("", "run"), ended{0, "Generation 2 is in place, and the kubelet is healthy on it.", ""})
}

func TestMaskedKubelet(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `= "a"`, `= "b"`, 1))
	m.masked = true
	before := m.disk()
	m.want("run", m.as("", "run"), ended{52, "", "systemctl unmask kubelet.service"})
	if !maps.Equal(before, m.disk()) {
		t.Error("a run that could not be activated wrote to the disk")
	}
}
