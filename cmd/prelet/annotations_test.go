package main

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/report"
)

// newAnnotated returns a machine whose site has an annotations block.
func newAnnotated(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.jitter = 0
	m.annotations = map[string]string{"example.com/other": "x"}
	m.putAnnotated(m.site, `revision = "r1"`)
	return m
}

// putAnnotated writes a site with an annotations block of this body.
func (m *machine) putAnnotated(site, body string) {
	m.t.Helper()
	const plain = `stage "restart" "kubelet" {}`
	if !strings.Contains(site, plain) {
		m.t.Fatalf("the site of the test: got\n%s\nwant %s in it", site, plain)
	}
	stage := "stage \"restart\" \"kubelet\" {\n  annotations {\n    " + body + "\n  }\n}"
	m.put("/etc/prelet/site.hcl", strings.Replace(site, plain, stage, 1))
}

// wantPatches checks the patches since the last call; each part of want is the begin of one.
func (m *machine) wantPatches(what string, want ...string) {
	m.t.Helper()
	got := m.annotated
	m.annotated = nil
	if len(got) != len(want) {
		m.t.Errorf("%s: got %d patches %q, want %q", what, len(got), got, want)
		return
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			m.t.Errorf("%s: got patch %q, want one that begins with %q", what, got[i], want[i])
		}
	}
}

// A boot with a change annotates the Node after its good verdict; a boot or a run without a change sends nothing.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	m := newAnnotated(t)
	m.inside = true
	m.as(app.BootUnit, "run")
	m.inside = false
	m.wantPatches("before the verdict")
	m.units.start()
	m.jitter = 0.5 // of at most 30 s: a fleet may boot at once
	before := m.now
	m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "", "patching the annotations of node n1 in 15s"})
	m.wantPatches("after the verdict", "generation=1 plan=sha256:")
	if waited := m.now - before; waited < 15*time.Second {
		t.Errorf("after the verdict: got a wait of %s, want 15s and the verdict's", waited)
	}
	if m.annotations["prelet.github.io/revision"] != "r1" || m.annotations["example.com/other"] != "x" {
		t.Errorf("annotations: got %v, want revision r1 and those of others", m.annotations)
	}

	m.reboot()
	m.boot()
	m.want("run without a change", m.as(app.ApplyUnit, "run"), ended{0, "No changes", ""})
	m.want("verify by hand", m.as("", "verify"), ended{0, "", ""})
	m.wantPatches("without a change")

	// Only what differs is sent, and by hand at once.
	m.putAnnotated(m.site, `revision = "r2"`)
	before = m.now
	m.want("another revision", m.as(app.ApplyUnit, "run"), ended{0, "No changes", ""})
	m.wantPatches("another revision", "revision=r2")
	if waited := m.now - before; waited != 0 {
		t.Errorf("another revision: got a wait of %s, want none", waited)
	}
	m.reboot()
	m.putAnnotated(m.site, "")
	m.boot()
	m.wantPatches("a boot without a change, with another revision")
	m.as(app.ApplyUnit, "run")
	m.wantPatches("no revision", "revision-")

	// Without the block nothing is sent, and the annotations stay.
	have := maps.Clone(m.annotations)
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `"a"`, `"b"`, 1))
	m.as(app.ApplyUnit, "run")
	if m.wantPatches("without the block"); !maps.Equal(m.annotations, have) {
		t.Errorf("without the block: got annotations %v, want %v", m.annotations, have)
	}
}

// The annotations say why a node is degraded, and of a rollback that the plan is held.
func TestAnnotationsOfADegradedNode(t *testing.T) {
	t.Parallel()
	m := newAnnotated(t)
	m.boot()
	m.annotated = nil

	bad := strings.Replace(m.site, `"a"`, `"b"`, 1)
	m.putAnnotated(bad, `revision = "bad"`)
	m.sick = func() error {
		if strings.Contains(m.read("/etc/default/kubelet"), "pool=b") {
			return errors.New("it answers 500")
		}
		return nil
	}
	m.want("run", m.as(app.ApplyUnit, "run"), ended{50, "", "rolled back"})
	m.wantPatches("a rollback", `degraded=[{"code":"held",`)
	if got := m.annotations["prelet.github.io/generation"]; got != "3" {
		t.Errorf("a rollback: got generation %s, want 3", got)
	}

	m.sick = nil
	m.putAnnotated(m.site, `revision = "r3"`)
	m.as(app.ApplyUnit, "run")
	m.wantPatches("healthy again", "degraded- revision=r3")
	m.want("rollback by hand", m.as("", "rollback", "1"), ended{0, "", ""})
	m.wantPatches("a rollback by hand", `degraded=[{"code":"held","summary":"generation 1 is pinned`)
}

// A cluster that refuses the patch, or does not answer, is a note; the run and its verdict stay good.
func TestAnnotationsRefused(t *testing.T) {
	t.Parallel()
	m := newAnnotated(t)
	m.annotateFail = errors.New("annotations are not allowed here")
	_, verify := m.boot()
	if s := m.says(); verify.exit != 0 || s.State != report.OK || s.Verdict != "good" || len(s.Notes) != 1 ||
		!strings.Contains(s.Notes[0].Summary, "annotations are not allowed here") {
		t.Errorf("refused: got %v, %+v; want exit 0, state ok, a good verdict and one note", verify, s)
	}
	m.want("status", m.as("", "status"), ended{0, "node-drift: annotations: node n1", ""})

	// Another run that begins during the wait reports itself; this one keeps quiet.
	m.annotateFail = nil
	m.jitter = 0.9
	m.relabel("late")
	late := m.read("/etc/prelet/site.hcl")
	m.putAnnotated(late, `revision = "late"`)
	m.reboot()
	m.bootTo()
	var atWait func(context.Context)
	atWait = func(context.Context) {
		if m.says().Finished == nil || m.says().Verdict != "good" { // it watches the kubelet
			m.slept = atWait
			return
		}
		m.jitter = 0
		m.putAnnotated(late, `revision = "newer"`)
		m.as(app.ApplyUnit, "run")
	}
	m.slept = atWait
	m.as(app.VerifyUnit, "verify")
	m.wantPatches("two runs", "generation=2 plan=")
	if got := m.annotations["prelet.github.io/revision"]; got != "newer" {
		t.Errorf("two runs: got revision %q, want newer", got)
	}
}

// A revision is one line, and not a secret.
func TestAnnotationsRevision(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`revision = "a\nb"`:                        "trimspace()",
		`revision = credential("bootstrap-token")`: "sensitive",
	} {
		m := newMachine(t)
		m.putAnnotated(m.site, body)
		m.want(body, m.as("", "plan", "--root", m.root), ended{10, "", want})
	}
}
