package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/probe/kubeletbin"
	"github.com/prelet/prelet/internal/report"
)

// served makes prelet-apply.service start, which runs `prelet run` with the credentials that a person has not.
func (m *machine) served() {
	m.units.apply = func() {
		m.t.Helper()
		self := m.creds
		m.creds = self + "/of-the-unit"
		m.as(app.ApplyUnit, "run")
		m.creds = self
	}
	credentials := m.creds
	if err := os.Mkdir(credentials+"/of-the-unit", 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(credentials+"/bootstrap-token", credentials+"/of-the-unit/bootstrap-token"); err != nil {
		m.t.Fatal(err)
	}
}

// By hand a run is done by prelet-apply.service, and looks as if it were done here.
func TestRunByHandIsServed(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.served()
	m.units.start() // without a gate: it waits to try again
	m.want("run", m.as("", "run"), ended{0, "Generation 1 is in place, and the kubelet is healthy on it.", ""})
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `"a"`, `var.pool`, 1)+"variable \"pool\" {}\n")
	m.want("run", m.as("", "run", "--var", "pool=b", "-o", "json"), ended{0, `"generation":2`, ""})
	m.want("run", m.as("", "run"), ended{10, "", "pool"})
	m.want("rollback", m.as("", "rollback", "1"), ended{0, "has the contents of generation 1", ""})
	m.want("rollback", m.as("", "rollback", "9"), ended{64, "", "prelet history"})
	left, err := filepath.Glob(m.run + "/re*.json")
	if err != nil || len(left) != 0 {
		t.Errorf("requests and replies stay: %q", left)
	}
}

// A unit that ran already, for somebody else, when the request came: start merges, so it is started once more.
func TestRequestThatCameLate(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.served()
	serve, starts := m.units.apply, 0
	m.units.apply = func() {
		if starts++; starts > 1 {
			serve()
		}
	}
	m.want("run", m.as("", "run"), ended{0, "No changes; generation 1 is in place.", ""})
	if starts != 2 {
		t.Errorf("%d starts", starts)
	}
	m.units.apply = func() {}
	m.want("run", m.as("", "run"), ended{52, "", "journalctl -u prelet-apply.service"})
}

// A unit that somebody stopped is not started again: that would cancel the stop.
func TestServerStopped(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	starts := 0
	m.units.apply, m.units.job = func() { starts++ }, "canceled"
	m.want("run", m.as("", "run"), ended{42, "", "prelet-apply.service was stopped"})
	if starts != 1 {
		t.Errorf("%d starts", starts)
	}
}

// A request whose server was killed is answered, and not done twice.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	if err := os.WriteFile(m.run+"/serving-AB.json", []byte(`{"args":["rollback","0"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	m.units.apply = func() {}
	m.want("the unit again", m.as(app.ApplyUnit, "run"), ended{0, "No changes; generation 1 is in place.", ""})
	b, err := os.ReadFile(m.run + "/reply-AB.json")
	for _, want := range []string{`"code":"interrupted"`, `"exit":42`, "no record shows a rollback"} {
		if err != nil || !strings.Contains(string(b), want) {
			t.Errorf("got the reply %s, %v; want %s in it", b, err, want)
		}
	}
}

// TestReply: a run by hand ends as the unit's reply says, and in JSON with one document that has the code and a
// summary.
func TestReply(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply string
		exit  int
		out   string // of `run -o json`
		err   string
	}{
		"done":             {`{"code":"","exit":0,"stdout":"{\"exit\":0}","stderr":"a note\n"}`, 0, `{"exit":0}`, "a note"},
		"failed":           {`{"code":"locked","exit":75,"stdout":"{\"exit\":75}"}`, 75, `{"exit":75}`, ""},
		"not run":          {`{"code":"interrupted","exit":42,"failure":"it was killed"}`, 42, `"code":"interrupted","summary":"it was killed"`, "prelet: it was killed"},
		"failed silently":  {`{"code":"interrupted","exit":42}`, 42, `"code":"interrupted","summary":"Stopped`, ""},
		"an older unit":    {`{"exit":42,"stderr":"it was killed\n"}`, 70, `"code":"internal","summary":"`, "it was killed"},
		"not a reply":      {`{`, 70, `"code":"internal","summary":"the reply of prelet-apply.service`, "the reply of"},
		"an older success": {`{"exit":0,"stdout":"{\"exit\":0}"}`, 0, `{"exit":0}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := goodNode(t)
			m.units.apply = func() {
				for _, ask := range m.requests() {
					answer := strings.Replace(ask, "request-", "reply-", 1)
					if err := os.WriteFile(answer, []byte(c.reply), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}

			got := m.as("", "run", "-o", "json")

			m.want("run", got, ended{c.exit, c.out, c.err})
			if strings.Contains(got.out, `"summary":""`) {
				t.Errorf("the summary is empty: %s", got.out)
			}
		})
	}
}

// requests returns the files of requests that no process has taken.
func (m *machine) requests() []string {
	m.t.Helper()
	names, err := filepath.Glob(filepath.Join(m.run, "request-*.json"))
	if err != nil {
		m.t.Fatal(err)
	}
	return names
}

// A request contains a command line, and only that of one of two commands.
func TestRequestForSomethingElse(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	if err := os.WriteFile(m.run+"/request-AB.json", []byte(`{"args":["record","/etc/x.prelet"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	m.units.apply = func() {}
	m.want("the unit", m.as(app.ApplyUnit, "run"), ended{64, "", ""})
	if m.read("/etc/x.prelet") != "" {
		t.Error("it was done")
	}
}

// A verification that is not due looks, and writes nothing but what it has found into the status.
func TestVerifyByHand(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	before, status := m.disk(), m.says()
	m.want("verify", m.as("", "verify"), ended{0, "healthz    ok", ""})
	m.want("verify", m.as("", "verify", "-o", "json"), ended{0, `"name":"kubeconfig","state":"ok"`, ""})
	m.put("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--v=9\n")
	m.want("verify", m.as("", "verify"), ended{50, "files      failed", "not as prelet wrote it"})
	m.put("/etc/default/kubelet", "")
	m.kubelet.Active, m.kubelet.Sub, m.kubelet.Result = "failed", "failed", "exit-code"
	m.want("verify", m.as("", "verify"), ended{50, "unit       failed", "exit-code"})
	now := m.says()
	if now.State != report.Degraded || len(now.Degraded) != 1 || !now.Started.Equal(status.Started) {
		t.Errorf("a look that fails: got %+v, want the same status, degraded", now)
	}
	if before["/var/lib/prelet/generations"] != m.disk()["/var/lib/prelet/generations"] {
		t.Error("a look made a generation")
	}
}

// Where prelet never ran there is nothing to judge, and a look leaves nothing behind: no status, no folder.
func TestVerifyBeforeTheFirstRun(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	before := m.disk()
	m.want("verify", m.as("", "verify"), ended{0, "No generation to judge", ""})
	m.want("verify", m.as("", "verify", "-o", "json"), ended{0, `"generation":0,"verdict":"","checks":[],"exit":0`, ""})
	if left, err := os.ReadDir(m.run); err != nil || len(left) > 0 || !maps.Equal(before, m.disk()) {
		t.Errorf("a look left something behind: %v, %v", left, err)
	}
	// The unit is started because the gate is not there, so it says why, as always.
	m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "", "prelet has not finished a run"})
}

// A lost gate is opened by verify, and the status of the run before stays.
func TestLostGate(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	if err := os.Remove(m.gate); err != nil {
		t.Fatal(err)
	}
	m.kubelet.Active, m.kubelet.Sub, m.kubelet.Result = "activating", "auto-restart", "resources"
	m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "Generation 1 awaits no verdict.", ""})
	if m.gateSays() != "PRELET_GENERATION=1" || m.says().Exit != 0 {
		t.Errorf("gate %q, %+v", m.gateSays(), m.says())
	}
}

// prelet was killed between COMMIT and the last file: recover finishes, by itself and before a run.
func TestRecover(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"recover", "run", "verify"} {
		t.Run(how, func(t *testing.T) {
			m := goodNode(t)
			m.interrupt()
			if m.read("/etc/motd") != "" {
				t.Fatal("it was not interrupted")
			}
			m.want("status", m.as("", "status"), ended{1, "the process that published generation 2 was killed", ""})
			if how == "recover" {
				m.want(
					how,
					m.as("", "recover"),
					ended{0, "Finished what was interrupted: the journal said publish of generation 2.", ""},
				)
				m.want("again", m.as("", "recover"), ended{0, "Nothing was interrupted.", ""})
			} else if got := m.as("", how); got.exit != 0 {
				t.Errorf("%s: %+v", how, got)
			}
			if how != "run" &&
				m.read("/etc/motd") != "hello" { // a run's site has no such file, and takes it away again
				t.Errorf("/etc/motd: %q", m.read("/etc/motd"))
			}
			if m.gateSays() == "" || m.kubelet.Active != "active" {
				t.Errorf("gate %q, kubelet %s", m.gateSays(), m.kubelet.Active)
			}
			if got := m.as("", "status"); strings.Contains(got.out, "is gone") {
				t.Errorf("afterwards: %+v", got)
			}
		})
	}
}

// interrupt leaves a generation 2 that is committed and not published, as of a kill there: the gate shut, the kubelet
// stopped and owed a start.
func (m *machine) interrupt() {
	m.t.Helper()
	store := m.lock()
	defer store.Close()
	cur, err := store.Current()
	if err != nil {
		m.t.Fatal(err)
	}
	act, err := store.Blob(cur.Gen, "activation.json")
	if err != nil {
		m.t.Fatal(err)
	}
	txn, err := store.Begin(
		generation.Proposal{PlanID: "x", Blobs: map[string][]byte{"activation.json": act}, Targets: append(
			targetsOf(m, cur, store),
			generation.Target{
				Path:    "/etc/motd",
				Kind:    generation.File,
				Content: []byte("hello"),
				Mode:    0o644,
				UID:     generation.Keep,
				GID:     generation.Keep,
			},
		)},
	)
	if err != nil {
		m.t.Fatal(err)
	}
	if _, err := txn.Commit(); err != nil {
		m.t.Fatal(err)
	}
	gate := activation.Gate{Dir: m.run, BootID: m.bootID()}
	if err := gate.Shut("generation 2 is being put in place"); err != nil {
		m.t.Fatal(err)
	}
	if err := gate.MarkOwed("kubelet.service"); err != nil {
		m.t.Fatal(err)
	}
	_, _ = m.Stop(m.t.Context(), "kubelet.service", 1)
}

func targetsOf(m *machine, cur *generation.Info, store *generation.Store) (out []generation.Target) {
	for _, e := range cur.Entries {
		if e.New.Kind != generation.File || m.read(e.Path) == "" {
			continue
		}
		content, err := store.Content(e.New.SHA256)
		if err != nil {
			m.t.Fatal(err)
		}
		out = append(
			out,
			generation.Target{
				Path:    e.Path,
				Kind:    generation.File,
				Content: content,
				Mode:    generation.Keep,
				UID:     generation.Keep,
				GID:     generation.Keep,
			},
		)
	}
	return out
}

// The kubelet's version is remembered at a commit, so that the binary is never started by a later boot.
func TestVersionCache(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	kept := m.answered("v1.36.3")
	run, _ := m.boot()
	m.want("run", run, ended{0, "Generation 1", ""})
	if got := m.read("/var/lib/prelet/kubelet.json"); got != kept {
		t.Errorf("%s", got)
	}
	m.want("history", m.as("", "history", "show", "1"), ended{0, "on kubelet v1.36.3", ""})
	m.put("/usr/bin/kubelet", "another program")
	m.reboot()
	if run, _ = m.boot(); run.exit != 0 {
		t.Errorf("%+v", run)
	}
	m.want("plan", m.as("", "history"), ended{0, "*    1", ""})
}

// answered puts a binary there and what it would say, as it is kept, for below another root it is not run.
func (m *machine) answered(version string) (kept string) {
	m.t.Helper()
	m.put("/usr/bin/kubelet", "no program")
	if err := os.Chmod(filepath.Join(m.root, "/usr/bin/kubelet"), 0o755); err != nil {
		m.t.Fatal(err)
	}
	c, ok := kubeletbin.Find(m.root, "", nil).Keep(version, nil)
	b, err := c.Marshal()
	if err != nil || !ok {
		m.t.Fatal("what the kubelet says is not kept: ", err)
	}
	m.put("/var/lib/prelet/kubelet.json", string(b))
	return string(b)
}

// prelet=off judges nothing, also what awaits a verdict.
func TestOffWhilePending(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.inside = true
	m.want("run", m.as(app.BootUnit, "run"), ended{0, "prelet-verify judges it", ""})
	m.put("/proc/cmdline", "prelet=off\n")
	m.reboot()
	run, verify := m.boot()
	m.want("run", run, ended{0, "prelet=off", ""})
	m.want("verify", verify, ended{0, "", "nothing is judged"})
	if m.read("/var/lib/prelet/journal.json") == "" || m.gateSays() != "PRELET_GENERATION=1" {
		t.Errorf("gate %q, journal %q", m.gateSays(), m.read("/var/lib/prelet/journal.json"))
	}
}

// The kubeconfig with the token goes with the verdict, not by a generation of its own, when the node joined and
// rebooted before it could be judged.
func TestBootstrapStaysUntilJudged(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.inside = true
	m.want("run", m.as(app.BootUnit, "run"), ended{0, "prelet-verify judges it", ""})
	m.inside = false
	m.units.start() // joins, and the power goes
	m.reboot()
	run, verify := m.boot()
	m.want("run", run, ended{0, "Generation 1 is in place; prelet-verify judges it", ""})
	m.want("verify", verify, ended{0, "healthy", ""})
	if m.read("/etc/kubernetes/bootstrap-kubelet.conf") != "" {
		t.Error("the bootstrap kubeconfig stays")
	}
	m.want("history", m.as("", "history", "-o", "json"), ended{0, `"in_place":1`, ""})
}

// Lines that programs read have one document on stdout, also on failure.
func TestJSON(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for _, args := range [][]string{{"run", "-o", "json"}, {"status", "-o", "json"}, {"verify", "-o", "json"}, {"history", "-o", "json"}, {"history", "show", "1", "-o", "json"}} {
		var doc map[string]any
		if got := m.as("", args...); json.Unmarshal([]byte(got.out), &doc) != nil {
			t.Errorf("%q: %+v", args, got)
		}
	}
	m.put("/etc/prelet/site.hcl", "stage {")
	var doc struct {
		Complete    bool
		Exit        int
		Diagnostics []struct{ Code string }
	}
	got := m.as("", "run", "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil || got.exit != 10 || doc.Exit != 10 || doc.Complete ||
		len(doc.Diagnostics) == 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A managed file is changed after each plan and before its commit: prelet plans again, twice at most, and overwrites
// nothing unseen.
func TestChangedUnderThePlan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ edits, exit int }{{2, 0}, {3, 40}} {
		m := goodNode(t)
		m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `= "a"`, `= "b"`, 1))

		plans := 0
		m.planned = func() {
			if plans++; plans <= c.edits {
				m.put("/var/lib/kubelet/config.yaml", fmt.Sprintf("# edit %d\n", plans))
			}
		}
		got := m.as("", "run")
		if got.exit != c.exit || plans != 3 {
			t.Errorf("run with %d edits: exit %d after %d plans, want exit %d after 3\n%s",
				c.edits, got.exit, plans, c.exit, got.errors)
		}
		edited := strings.Contains(m.read("/var/lib/kubelet/config.yaml"), "# edit")
		if want := c.exit != 0; edited != want {
			t.Errorf("run with %d edits: config.yaml has an edit: %v, want %v", c.edits, edited, want)
		}
	}
}

// --wait ends with the verdict, not with the run.
func TestStatusWait(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.want("status", m.as("", "status"), ended{3, "has not run", ""})
	m.inside = true
	m.want("run", m.as(app.BootUnit, "run"), ended{0, "prelet-verify judges it", ""})
	m.inside = false
	m.want("status", m.as("", "status"), ended{3, "1, not judged yet", ""})
	m.slept = func(context.Context) {
		m.units.start()
		m.as(app.VerifyUnit, "verify")
	}
	m.want("status", m.as("", "status", "--wait", "--long"), ended{0, "1 (good)", ""})
	m.reboot()
	m.want("status", m.as("", "status"), ended{3, "has not run", ""})
}

// --wait ends if no process is going to judge the change, and if the process that wrote it is gone.
func TestStatusWaitsForNobody(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.inside = true
	m.want("run", m.as(app.BootUnit, "run"), ended{0, "prelet-verify judges it", ""})
	m.inside = false
	m.self.Active, m.kubelet.Active, m.kubelet.Job = "inactive", "inactive", 0
	m.want("no kubelet", m.as("", "status", "--wait"), ended{3, "not judged yet", "it will not be judged"})

	m = goodNode(t)
	m.interrupt()
	m.self.Active = "failed"
	m.want("killed", m.as("", "status", "--wait"), ended{1, "was killed", "it will not be judged"})
}

// The kubelet is stopped while a change is judged: its health cannot be detected, and status does not say ok. The next
// start of the kubelet judges.
func TestStatusOfAnUnknownVerdict(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `= "a"`, `= "b"`, 1))
	m.slept = func(context.Context) {
		m.units.kubelet.Active, m.units.kubelet.Sub, m.units.kubelet.MainPID = "inactive", "dead", 0
	}
	m.want("run", m.as("", "run"), ended{0, "is not known", ""})
	s := m.says()
	if s.State != report.Degraded || s.Verdict != "unknown" || len(s.Degraded) != 1 ||
		s.Degraded[0].Code != "unjudged" {
		t.Errorf("%+v", s)
	}
	m.want("status", m.as("", "status"), ended{2, "2, not judged: whether the kubelet is healthy is not known", ""})
	m.want("status", m.as("", "status"), ended{2, "unjudged: whether the kubelet is healthy", ""})
	m.want("history", m.as("", "history"), ended{0, "pending", ""})
	m.units.start()
	m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "healthy", ""})
	if s := m.says(); s.State != report.OK || len(s.Degraded) != 0 {
		t.Errorf("after the verdict: %+v", s)
	}
	m.want("status", m.as("", "status"), ended{0, "2 (good)", ""})
}
