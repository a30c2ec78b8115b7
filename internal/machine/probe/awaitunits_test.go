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
	"github.com/prelet/prelet/internal/testing/table"
)

// fakeUnits is a systemd with these units. Each look at one takes its next state, and the last one stays.
type fakeUnits map[string][]systemd.Unit

func (f fakeUnits) Look(_ context.Context, name string) (systemd.Unit, error) {
	states := f[name]
	switch {
	case name == "away.service":
		return systemd.Unit{}, errors.New("systemd does not answer")
	case states == nil:
		return systemd.Unit{Definition: unitfile.Definition{Load: "not-found"}, State: unitfile.State{Active: "inactive"}}, nil
	}
	if len(states) > 1 {
		f[name] = states[1:]
	}

	return states[0], nil
}

// parseUnit returns a unit for ACTIVE/SUB, and what else is known of it.
func parseUnit(text string) systemd.Unit {
	words := strings.Split(text, ",")
	u := systemd.Unit{Definition: unitfile.Definition{Load: "loaded"}, State: unitfile.State{Result: "success"}}
	u.Active, u.Sub, _ = strings.Cut(words[0], "/")
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "ran":
			u.Since = time.Second
		case "queued":
			u.Job = 7
		case "skipped":
			u.Skipped = time.Second
		case "disabled":
			u.File = key
		case "load":
			u.Load = value
		case "result":
			u.Result = value
		case "after":
			u.After = append(u.After, "basic.target", value)
		}
	}

	return u
}

// TestAwaitUnits: what a unit is called that a site waits for, whether it degrades the boot, and which are waited for.
func TestAwaitUnits(t *testing.T) {
	const (
		jobs = "its start job waits for another unit (systemctl list-jobs --after)"
		late = "so it starts only when this run has ended"
	)
	for name, c := range table.YAML[map[string]struct {
		States      []string
		Waits       bool
		State, Want string // the reason
	}](t, `
a oneshot that has ended: {states: ['inactive/dead,ran'], state: done}
a oneshot that stays active: {states: ['active/exited,ran'], state: done}
a service that runs: {states: ['active/running,ran'], state: done}
one that takes a while: {states: ['{starting}', '{starting}', 'inactive/dead,ran'], waits: true, state: done}
one that fails after a while: {states: ['{starting}', 'failed/failed,result=exit-code'], waits: true, state: failed,
  want: it has failed (exit-code)}
one that is tried again: {states: ['activating/auto-restart,ran'], waits: true, state: unfinished,
  want: it is activating (auto-restart)}
one that never ends: {states: ['{starting}'], waits: true, state: unfinished, want: it is activating (start)}
a job that waits: {states: ['inactive/dead,queued'], waits: true, state: unfinished, want: '{jobs}'}
nothing starts it: {states: [inactive/dead], waits: true, state: not-started, want: nothing has started it}
it is disabled: {states: ['inactive/dead,disabled'], waits: true, state: not-started,
  want: 'nothing has started it, and it is disabled'}
it is disabled, and is tried again: {states: ['activating/auto-restart,ran,disabled'], waits: true, state: unfinished,
  want: it is activating (auto-restart)}
masked: {states: ['inactive,load=masked'], state: masked, want: it is masked}
missing: {state: missing, want: systemd cannot load it (not-found)}
a unit file with an error: {states: ['inactive,load=bad-setting'], state: missing,
  want: systemd cannot load it (bad-setting)}
a condition: {states: ['inactive/dead,skipped'], state: skipped, want: a Condition= or Assert= of it does not hold}
after the kubelet: {states: ['inactive/dead,queued,after=kubelet.service'], state: late,
  want: 'it is ordered after kubelet.service, {late}'}
after the kubelet, without a job: {states: ['inactive/dead,after=kubelet.service'], waits: true, state: not-started,
  want: nothing has started it}
after one that is after prelet: {states: ['inactive/dead,queued,after=circle.service'], state: late,
  want: 'it is ordered after circle.service, and that after second.service, and that after prelet.service, {late}'}
after others that wait: {states: ['inactive/dead,queued,after=queued.service'], waits: true, state: unfinished,
  want: '{jobs}'}
after prelet: {states: ['inactive/dead,queued,after=prelet.service'], state: late,
  want: 'it is ordered after prelet.service, {late}'}
after the kubelet, and it has run: {states: ['inactive/dead,ran,after=kubelet.service'], state: done}
a run by hand, while it runs again: {states: ['activating/start,ran,after=kubelet.service'], waits: true,
  state: unfinished, want: it is activating (start)}
`, "starting", "activating/start,ran", "jobs", jobs, "late", late) {
		units := fakeUnits{
			"other.service":  {parseUnit("active/running,ran")},
			"circle.service": {parseUnit("inactive/dead,queued,after=a.service,after=second.service")},
			"second.service": {parseUnit("inactive/dead,queued,after=prelet.service")},
			"queued.service": {parseUnit("inactive/dead,queued,after=away.service")},
		}
		for _, state := range c.States {
			units["a.service"] = append(units["a.service"], parseUnit(state))
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
		if states[1] != c.State || why[1] != c.Want || states[0] != tape.UnitDone {
			t.Errorf("%s: got %q, %q and %q, want %q, %q and done", name, states[1], why[1], states[0], c.State, c.Want)
		}
		if got := strings.HasPrefix(waited, "a.service: "); got != c.Waits {
			t.Errorf("%s: reported %q; got %t, want %t", name, waited, got, c.Waits)
		}
	}
}

// TestUnitsInFacts: the states are a fact, what is not done is unknown, and systemd that does not answer says nothing
// about a unit.
func TestUnitsInFacts(t *testing.T) {
	units := fakeUnits{"a.service": {parseUnit("active/")}, "b.service": {parseUnit("inactive,load=masked")}}
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
