package commit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet/annotation"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// reasons are those to keep the gate shut, and words of each that a person must see. A pinned generation is none.
var reasons = []struct{ name, shown string }{
	{"none", ""},
	{"hold", `hold "gpu"`},
	{"precondition", `hold "gpu"`}, // and a false precondition, which must not hide it
	{"machine", "made on another machine"},
	{"mixture", "/etc/a"},      // the kubelet's file, which cannot be put back
	{"unjoined", "not joined"}, // and the generation in place was never judged
	{"aside", "set aside"},     // a mixture whose journal is damaged
	{"pin", ""},
	{"damaged", "holds.json"},   // what is held cannot be read
	{"gone", "kubelet is held"}, // the file of the holds, after a run of this boot has reported one
}

// waysToGate has how each way to the gate ends for each of reasons: it is open, shut with the reason, open although the
// reason is true, which is said, or the command is refused for it. A complete plan makes the files whole, on this machine,
// and judges them. "-" cannot be.
const waysToGate = `
               none  hold  precondition machine mixture unjoined aside   pin damaged gone
run            open  shut  shut         open    shut    open     open    open open    open
unchanged      open  shut  shut         open    shut    open     open    open open    open
no-site        open  shut  shut         shut    shut    shut     shut    open shut    shut
failed         open  shut  shut         shut    shut    shut     shut    open shut    shut
last-good      open  shut  shut         shut    shut    shut     shut    open shut    shut
held-plan      open  shut  shut         open    shut    open     open    open open    open
by-hand        open  shut  shut         refused refused open     refused open shut    shut
rolled-back    open  shut  shut         open    shut    open     open    open open    open
exhausted      open  shut  shut         open    shut    open     open    open open    open
release        open  shut  shut         open    shut    open     open    open open    open
recover        open  shut  shut         shut    shut    shut     shut    open shut    shut
recover-verify open  shut  shut         shut    shut    open     shut    open shut    shut
without-run    open  shut  shut         shut    shut    shut     shut    open shut    shut
verify         open  shut  shut         shut    shut    shut     shut    open shut    shut
lost-gate      open  -     -            shut    shut    open     -       open -       -
newer          open  shut  shut         shut    shut    open     -       open shut    shut
first          open  shut  shut         -       open    open     open    - open    -
first-fails    open  shut  shut         -       open    shut     shut    - shut    -
first-no-site  open  shut  shut         -       open    open     shut    - shut    -
first-verify   shut  shut  shut         -       -       -        shut    - shut    -
off            says  says  says         says    says    says     says    says says    says
no-hold        open  says  says         open    shut    open     open    open open    open
no-hold-fails  open  says  says         shut    shut    shut     shut    open says    says
`

// wayCase is a node at a boot, with generations one and two, of which a way to the gate is tried.
type wayCase struct {
	*bench
	reason string
}

// way is a way to the gate, or to a start of the kubelet.
type way struct {
	isSameBoot bool                 // of the boot before
	isFirst    bool                 // there is no generation
	before     func(wayCase)        // in the boot before; may be nil
	prepare    func(wayCase)        // once the reason is true; may be nil
	take       func(wayCase) Result // by a process of the next boot, which is open
	site       string               // without take: a run with it, and the hold if that is the reason
}

// withHold returns a plan with the hold, if that is the reason.
func (c wayCase) withHold(p *evaluate.Plan) *evaluate.Plan {
	if c.reason != "hold" && c.reason != "precondition" {
		return p
	}

	return withHold(p)
}

func withHold(p *evaluate.Plan) *evaluate.Plan {
	p.Node.Activation = &desired.Activation{Unit: activation.DefaultUnit, Rollback: true, Holds: []desired.Hold{
		{Name: "gpu", For: 30 * time.Minute, Message: "gpu is broken"},
	}}

	return p
}

func (c wayCase) runs(p *evaluate.Plan) Result {
	c.plan = p

	return c.play(c.t.Context())
}

// makePending puts a plan in place that gets no verdict.
func (c wayCase) makePending(site string) {
	c.away = true
	c.do(c.t.Context(), complete(site))
	c.away = false
}

var ways = map[string]way{
	"run":       {site: "four"},
	"unchanged": {site: "two"},
	"no-site":   {site: "no-site"},
	"failed":    {site: "wrong"},
	"last-good": {site: "unreachable"},
	"held-plan": {take: func(c wayCase) Result {
		must(c.t, c.Store.Hold(PlanID(complete("four")), "it failed"))
		return c.runs(c.withHold(complete("four")))
	}},
	"by-hand": {take: func(c wayCase) Result {
		c.RollBack(c.t.Context(), 1)
		return c.Result
	}},
	"rolled-back": {before: func(c wayCase) { c.makePending("sick") }, take: func(c wayCase) Result {
		c.sick = "sick"
		return c.runs(c.withHold(complete("sick")))
	}},
	"exhausted": {before: func(c wayCase) {
		c.makePending("sick")
		for _, boot := range []string{"a", "b", "c", "d"} {
			_, err := c.Store.AddTry(boot)
			must(c.t, err)
		}
	}, site: "sick"},
	"release": {before: func(c wayCase) { must(c.t, c.Store.Pin(1, "me")) }, take: func(c wayCase) Result {
		must(c.t, c.Store.Release())
		return c.runs(c.withHold(complete("four")))
	}},
	"recover": {before: wayCase.interrupt, site: "wrong"},
	"recover-verify": {before: wayCase.interrupt, take: func(c wayCase) Result {
		c.Verify(c.t.Context())
		return c.Result
	}},
	"without-run": {take: func(c wayCase) Result {
		c.KeepWithoutRun(c.t.Context(), fault.Systemd.Errorf("prelet.service is killed"))
		return c.Result
	}},
	"verify": {take: func(c wayCase) Result { // after somebody has emptied the run folder
		c.hasRun = true
		c.Verify(c.t.Context())
		return c.Result
	}},
	"lost-gate": {isSameBoot: true, take: func(c wayCase) Result {
		c.kubelet.Active, c.kubelet.Sub = "activating", "auto-restart"
		must(c.t, os.Remove(c.Machine.Gate.Path()))
		c.Verify(c.t.Context())
		return c.Result
	}},
	"newer": {prepare: wayCase.makeNewer, take: func(c wayCase) Result {
		c.Begin(c.t.Context())
		return c.Result
	}},
	"first":         {isFirst: true, site: "one"},
	"first-fails":   {isFirst: true, site: "wrong"},
	"first-no-site": {isFirst: true, site: "no-site"},
	"first-verify": {isFirst: true, take: func(c wayCase) Result { // it opens no gate without a generation
		c.hasRun = true
		c.Verify(c.t.Context())
		return c.Result
	}},
	"off": {take: func(c wayCase) Result {
		c.Off = true
		return c.runs(c.withHold(complete("two")))
	}},
	"no-hold": {take: func(c wayCase) Result {
		c.NoHold = true
		return c.runs(c.withHold(complete("two")))
	}},
	"no-hold-fails": {take: func(c wayCase) Result {
		c.NoHold = true
		return c.runs(planOf("wrong"))
	}},
}

// interrupt kills a run between two files.
func (c wayCase) interrupt() {
	type killed struct{}
	c.open(true)
	c.plan = complete("three")
	c.onWrite = func(op, path string) error {
		if op == "rename" && path == "/etc/b" {
			panic(killed{})
		}

		return nil
	}
	defer func() {
		c.onWrite = nil
		if r := recover(); r != (killed{}) {
			c.t.Fatalf("got %v; want a killed run", r)
		}
		c.open(true)
	}()
	c.play(c.t.Context())
}

// makeNewer makes the generation in place one of a newer prelet.
func (c wayCase) makeNewer() {
	all, err := c.Store.List()
	must(c.t, err)
	path := fmt.Sprintf("%s/state/generations/%d", c.dir, all[len(all)-1].Gen)
	text := osfile.Read(c.t, path)
	line, rest, _ := strings.Cut(string(text), "\n")
	body, _, _ := strings.Cut(line, `,"sha256":"`+line[len(line)-66:])
	body = strings.Replace(body, `{"version":2`, `{"version":3`, 1)
	text = fmt.Appendf(nil, "%s,%q:%q}\n%s", body, "sha256", generation.Checksum([]byte(body)), rest)
	osfile.Write(c.t, path, text, 0o600)
	c.open(true)
}

// loseHolds loses the file of the holds or, for other reasons, the run folder with the report of a hold.
func (c wayCase) loseHolds() {
	c.t.Helper()
	file := filepath.Join(c.Machine.StateDir, holdFile)
	switch c.reason {
	case "gone":
		must(c.t, os.Remove(file))
		return
	case "damaged":
		c.hasRun = true
		osfile.Write(c.t, file, `{"gpu":`, 0o600)
	}
	must(c.t, errors.Join(os.RemoveAll(c.dir+"/run"), os.Mkdir(c.dir+"/run", 0o755)))
}

// makeReason makes the reason true, before a process takes the way.
func (c wayCase) makeReason(w way) {
	switch c.reason {
	case "hold", "precondition", "damaged", "gone":
		p := withHold(complete("two"))
		if c.reason == "precondition" {
			held := p.Node.Activation
			p = planOf("failed-precondition")
			p.Node.Activation = held
		}
		c.do(c.t.Context(), p)
		c.loseHolds()
	case "mixture":
		must(c.t, errors.Join(os.RemoveAll(c.dir+"/etc/a"), os.Mkdir(c.dir+"/etc/a", 0o755)))
	case "pin":
		must(c.t, c.Store.Pin(1, "me"))
	}
	if w.prepare != nil {
		w.prepare(c)
	}
	c.open(true)
	c.whyNotJoined = ""
	switch c.reason {
	case "machine":
		c.lastForeign = 4
	case "unjoined":
		c.unjoined = true
		c.whyNotJoined = "it has no kubeconfig"
	}
}

// tryWay takes a way, and returns how it has ended.
func (c wayCase) tryWay(w way) Result {
	if !w.isFirst {
		c.do(c.t.Context(), complete("one"))
		c.do(c.t.Context(), complete("two"))
	}
	if w.before != nil {
		w.before(c)
	}
	if c.reason == "unjoined" && w.before == nil && !w.isFirst {
		c.makePending("three")
	}
	if c.reason == "aside" {
		if w.before == nil && !w.isFirst {
			c.interrupt()
		}
		osfile.Write(c.t, c.dir+"/state/journal.json", "{", 0o600)
	}
	if !w.isSameBoot {
		c.reboot()
	}
	c.open(true)
	c.makeReason(w)

	if w.take != nil {
		return w.take(c)
	}
	p := planOf(w.site)
	if p.Complete {
		p = c.withHold(p)
	}

	return c.runs(p)
}

// TestWaysToGate takes each way to the gate for each reason to keep it shut: see waysToGate. Of a gate that stays shut a
// person sees the reason, and no kubelet is started; a hold is tried again, so that it has an end.
func TestWaysToGate(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(waysToGate), "\n")
	tried := 0
	for _, line := range lines[1:] {
		words := strings.Fields(line)
		for i, want := range words[1:] {
			if want == "-" {
				continue
			}
			tried++
			c := wayCase{newBenchIn(t, t.TempDir()), reasons[i].name}
			c.checkWay(words[0]+", "+c.reason, c.tryWay(ways[words[0]]), want, reasons[i].shown)
			_ = c.Store.Close()
		}
	}

	if len(lines)-1 != len(ways) {
		t.Errorf("got %d ways in the table; want %d", len(lines)-1, len(ways))
	}
	t.Logf("%d ways, %d reasons, %d cases", len(ways), len(reasons)-1, tried)
}

func (c wayCase) checkWay(name string, res Result, want, shown string) {
	c.t.Helper()
	status := c.finish(res)
	said := fmt.Sprint(status.Summary, status.Degraded)
	isShut := c.Machine.Gate.IsShut()
	isStarted := c.kubelet.Active == "active"
	isHold := strings.HasPrefix(shown, "hold") || shown == "kubelet is held"
	overrides := strings.Contains(said, "prelet=off") || strings.Contains(said, "--no-hold")

	if isShut != (want == "shut" || want == "refused") || isShut && isStarted {
		c.t.Errorf("%s: got a shut gate: %t, and a kubelet: %t; want %s (%s)", name, isShut, isStarted, want, said)
	}
	if isShut && !strings.Contains(c.Machine.Gate.Reason()+status.Summary, shown) {
		c.t.Errorf("%s: got the reason %q and the summary %q; want %q in them",
			name, c.Machine.Gate.Reason(), status.Summary, shown)
	}
	if isShut && isHold && res.Code != fault.KubeletHeld {
		c.t.Errorf("%s: got code %s; want %s, which is tried again", name, res.Code, fault.KubeletHeld)
	}
	if (want == "says") != overrides && !isShut {
		c.t.Errorf("%s: got %q; want it said whether a hold or prelet is overridden", name, said)
	}
}

// TestHoldsDamagedBeforeBoot: no run of this boot has found a hold to be true, so a file that cannot be read, as after a
// power cut, holds no kubelet of a node whose site fails; nor does one that can be read.
func TestHoldsDamagedBeforeBoot(t *testing.T) {
	for _, isDamaged := range []bool{false, true} {
		c := wayCase{newBenchIn(t, t.TempDir()), "hold"}
		c.do(t.Context(), complete("one"))
		c.reboot()
		c.open(true)
		c.do(t.Context(), c.withHold(complete("two")))
		if isDamaged {
			osfile.Write(t, filepath.Join(c.Machine.StateDir, holdFile), `{"gpu":`, 0o600)
		}
		c.reboot()
		c.open(true)
		if got := c.runs(planOf("wrong")); c.Machine.Gate.IsShut() {
			t.Errorf("damaged: %t: got a shut gate, %s; want an open one", isDamaged, got.Reason)
		}
	}
}

// TestAnnotateHold: the Node of a held kubelet says so, also from a boot, which sends nothing otherwise, and no longer once
// the hold is over.
func TestAnnotateHold(t *testing.T) {
	c := wayCase{newBenchIn(t, t.TempDir()), "hold"}
	annotated := func(p *evaluate.Plan) *evaluate.Plan {
		if p.Node.Activation == nil {
			p.Node.Activation = &desired.Activation{Unit: activation.DefaultUnit, Rollback: true}
		}
		p.Node.Activation.Annotations = &annotation.Settings{}

		return p
	}
	c.do(t.Context(), annotated(complete("one")))
	c.reboot()
	c.isBoot = true

	for _, step := range []struct {
		plan *evaluate.Plan
		want string
	}{
		{complete("one"), "nothing"},
		{c.withHold(complete("one")), "1 kubelet-held"},
		{complete("one"), "0"},
		{complete("one"), "nothing"},
	} {
		must(t, os.RemoveAll(c.dir+"/run/kubelet.opened"))
		must(t, os.RemoveAll(c.dir+"/run/kubelet.env"))
		c.kubelet.Active = "activating"
		_, status := c.do(t.Context(), annotated(step.plan))
		_, a, ok := c.Annotation(t.Context(), *status)
		got := "nothing"
		if ok {
			got = fmt.Sprint(len(a.Degraded))
			for _, r := range a.Degraded {
				got += " " + r.Code
			}
		}
		if got != step.want {
			t.Errorf("got annotations with %s; want %s", got, step.want)
		}
	}
}

// TestHoldOfUnsetClock: a clock that was not set yet gives the end of a hold no date.
func TestHoldOfUnsetClock(t *testing.T) {
	c := wayCase{newBenchIn(t, t.TempDir()), "hold"}
	c.do(t.Context(), complete("one"))
	c.reboot()
	c.isBoot = true
	c.kubelet.Active = "activating"

	for _, step := range []struct {
		jump time.Duration
		want string
	}{
		{0, "The kubelet is held, for 30m"},
		{56 * 365 * 24 * time.Hour, "The kubelet is held, until 20"},
	} {
		c.jump = step.jump
		if got := c.runs(c.withHold(complete("two"))); !strings.Contains(got.Reason, step.want) {
			t.Errorf("clock set by %s: got %q, want %q", step.jump, got.Reason, step.want)
		}
	}
}
