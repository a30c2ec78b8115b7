package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// fakeUnits is a systemd with these units. Each look at one takes its next state, and the last one stays.
type fakeUnits map[string][]systemd.Unit

func (f fakeUnits) Look(_ context.Context, name string) (systemd.Unit, error) {
	states := f[name]
	switch {
	case name == "away.service":
		return systemd.Unit{}, errors.New("systemd does not answer")
	case states == nil:
		return systemd.Unit{Load: "not-found", State: unitfile.State{Active: "inactive"}}, nil
	}
	if len(states) > 1 {
		f[name] = states[1:]
	}

	return states[0], nil
}

// TestAwaitUnits: what a unit is called that a site waits for, whether it degrades the boot, and which are waited for.
func TestAwaitUnits(t *testing.T) {
	loaded := func(active, sub string, change ...func(*systemd.Unit)) systemd.Unit {
		u := systemd.Unit{Load: "loaded", State: unitfile.State{Active: active, Sub: sub, Result: "success"}}
		for _, f := range change {
			f(&u)
		}
		return u
	}
	ran := func(u *systemd.Unit) { u.Since = time.Second }
	starting := loaded("activating", "start", ran)
	queued := func(u *systemd.Unit) { u.Job = 7 }
	after := func(name string) func(*systemd.Unit) {
		return func(u *systemd.Unit) { u.After = append(u.After, "basic.target", name) }
	}

	for name, c := range map[string]struct {
		states []systemd.Unit
		want   string // the state, and the reason
		waits  bool
	}{
		"a oneshot that has ended":           {[]systemd.Unit{loaded("inactive", "dead", ran)}, "done ", false},
		"a oneshot that stays active":        {[]systemd.Unit{loaded("active", "exited", ran)}, "done ", false},
		"a service that runs":                {[]systemd.Unit{loaded("active", "running", ran)}, "done ", false},
		"one that takes a while":             {[]systemd.Unit{starting, starting, loaded("inactive", "dead", ran)}, "done ", true},
		"one that fails after a while":       {[]systemd.Unit{starting, loaded("failed", "failed", func(u *systemd.Unit) { u.Result = "exit-code" })}, "failed it has failed (exit-code)", true},
		"one that is tried again":            {[]systemd.Unit{loaded("activating", "auto-restart", ran)}, "unfinished it is activating (auto-restart)", true},
		"one that never ends":                {[]systemd.Unit{starting}, "unfinished it is activating (start)", true},
		"a job that waits":                   {[]systemd.Unit{loaded("inactive", "dead", queued)}, "unfinished its start job waits for another unit (systemctl list-jobs --after)", true},
		"nothing starts it":                  {[]systemd.Unit{loaded("inactive", "dead")}, "not-started nothing has started it", true},
		"it is disabled":                     {[]systemd.Unit{loaded("inactive", "dead", func(u *systemd.Unit) { u.File = "disabled" })}, "not-started nothing has started it, and it is disabled", true},
		"it is disabled, and is tried again": {[]systemd.Unit{loaded("activating", "auto-restart", ran, func(u *systemd.Unit) { u.File = "disabled" })}, "unfinished it is activating (auto-restart)", true},
		"masked":                             {[]systemd.Unit{{Load: "masked", State: unitfile.State{Active: "inactive"}}}, "masked it is masked", false},
		"missing":                            {nil, "missing systemd cannot load it (not-found)", false},
		"a unit file with an error":          {[]systemd.Unit{{Load: "bad-setting", State: unitfile.State{Active: "inactive"}}}, "missing systemd cannot load it (bad-setting)", false},
		"a condition":                        {[]systemd.Unit{loaded("inactive", "dead", func(u *systemd.Unit) { u.Skipped = time.Second })}, "skipped a Condition= or Assert= of it does not hold", false},
		"after the kubelet":                  {[]systemd.Unit{loaded("inactive", "dead", queued, after("kubelet.service"))}, "late it is ordered after kubelet.service, so it starts only when this run has ended", false},
		"after the kubelet, without a job":   {[]systemd.Unit{loaded("inactive", "dead", after("kubelet.service"))}, "not-started nothing has started it", true},
		"after one that is after prelet":     {[]systemd.Unit{loaded("inactive", "dead", queued, after("circle.service"))}, "late it is ordered after circle.service, and that after second.service, and that after prelet.service, so it starts only when this run has ended", false},
		"after others that wait":             {[]systemd.Unit{loaded("inactive", "dead", queued, after("queued.service"))}, "unfinished its start job waits for another unit (systemctl list-jobs --after)", true},
		"after prelet":                       {[]systemd.Unit{loaded("inactive", "dead", queued, after("prelet.service"))}, "late it is ordered after prelet.service, so it starts only when this run has ended", false},
		"after the kubelet, and it has run":  {[]systemd.Unit{loaded("inactive", "dead", ran, after("kubelet.service"))}, "done ", false},
		"a run by hand, while it runs again": {[]systemd.Unit{loaded("activating", "start", ran, after("kubelet.service"))}, "unfinished it is activating (start)", true},
	} {
		units := fakeUnits{
			"a.service":      c.states,
			"other.service":  {loaded("active", "running", ran)},
			"circle.service": {loaded("inactive", "dead", queued, after("a.service"), after("second.service"))},
			"second.service": {loaded("inactive", "dead", queued, after("prelet.service"))},
			"queued.service": {loaded("inactive", "dead", queued, after("away.service"))},
		}
		waited := ""
		l := &Live{o: Sources{Units: units, Unit: "kubelet.service", OnRetry: func(r Retry) { waited = r.Server + ": " + r.Why }}}
		const limit = 10 * time.Second
		var states, why []string
		var took time.Duration
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			states, why = l.awaitUnits(t.Context(), []string{"other.service", "a.service"}, limit)
			took = time.Since(began)
		})
		if isShort := took < limit*5/6; strings.HasPrefix(name, "it is disabled") && isShort != (name == "it is disabled") {
			t.Errorf("%s: got a wait of %s; want a tenth of %s where nothing has started it, and else all", name, took, limit)
		}
		if got := states[1] + " " + why[1]; got != c.want || states[0] != tape.UnitDone {
			t.Errorf("%s: got %q and %q, want %q and done", name, got, states[0], c.want)
		}
		if got := strings.HasPrefix(waited, "a.service: "); got != c.waits {
			t.Errorf("%s: reported %q; got %t, want %t", name, waited, got, c.waits)
		}
	}
}

// TestUnitsInFacts: the states are a fact, what is not done is unknown, and systemd that does not answer says nothing
// about a unit.
func TestUnitsInFacts(t *testing.T) {
	units := fakeUnits{"a.service": {{Load: "loaded", State: unitfile.State{Active: "active"}}}, "b.service": {{Load: "masked"}}}
	l := newLive(t, Sources{Units: units, Root: ""})
	ask := func(l *Live) string {
		t.Helper()
		f, _, err := tape.Hardware.Ask(t.Context(), tape.Adapters{tape.Hardware.Adapt(l.answerFacts)}, tape.HardwareReq{
			WaitUnits: []string{"a.service", "b.service", "away.service"}, WaitMillis: 100,
		})
		must(t, err)
		out := ""
		for _, name := range []string{"a.service", "b.service", "away.service"} {
			state := "null"
			if f.Units[name] != nil {
				state = *f.Units[name]
			}
			out += state + " "
		}
		for _, u := range f.Unknown {
			if strings.HasPrefix(u.Fact, "unit") {
				out += fmt.Sprintf("| %s: %s: %t ", u.Fact, u.Why, u.Degraded)
			}
		}

		return out
	}

	const live = "done masked null | unit b.service: it is masked: true | units[away.service]: systemd does not answer: true "
	if got := ask(l); got != live {
		t.Errorf("live: got  %s\nwant %s", got, live)
	}
	tree := t.TempDir()
	place(t, tree, "/sys/devices/system/cpu/online", "0-1\n")
	place(t, tree, "/proc/meminfo", "MemTotal: 8000000 kB\n")
	recorded := newLive(t, Sources{Units: units, Hardware: tree})
	const other = "null null null | units[a.service]: the units of another machine are not known: false " +
		"| units[b.service]: the units of another machine are not known: false " +
		"| units[away.service]: the units of another machine are not known: false "
	if got := ask(recorded); got != other {
		t.Errorf("recorded: got  %s\nwant %s", got, other)
	}
}
