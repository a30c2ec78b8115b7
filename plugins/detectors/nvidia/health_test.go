package nvidia

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/plugins/contract"
)

// TestHealth: what the driver says of two GPUs, as facts about both.
func TestHealth(t *testing.T) {
	yes, no := new(true), new(false)
	good := health{
		recovery: "none", failed: no, pending: no, pagePending: no, persistence: yes,
		retiredPages: new(0), migPending: no,
	}
	with := func(change func(*health)) health {
		h := good
		change(&h)
		return h
	}
	const healthy = "none [] 0 0 0 0 0 true false"
	for name, c := range map[string]struct {
		first, second health
		want          string // recovery_action, gpus_to_recover, the counts, persistence_mode, library_mismatch
	}{
		"healthy":     {good, good, healthy},
		"a reset":     {good, with(func(h *health) { h.recovery = "gpu-reset" }), "gpu-reset [00ff:3d:00.0] 0 0 0 0 0 true false"},
		"the highest": {with(func(h *health) { h.recovery = "node-reboot" }), with(func(h *health) { h.recovery = "drain-p2p" }), "node-reboot [00ff:17:00.0 00ff:3d:00.0] 0 0 0 0 0 true false"},
		"rows":        {with(func(h *health) { h.failed, h.pending = yes, yes }), with(func(h *health) { h.pending = yes }), "none [] 1 2 0 0 0 true false"},
		"pages":       {with(func(h *health) { h.pagePending = yes }), good, "none [] 0 0 1 0 0 true false"},
		"retired":     {with(func(h *health) { h.retiredPages = new(3) }), with(func(h *health) { h.retiredPages = new(61) }), "none [] 0 0 0 61 0 true false"},
		"MIG":         {with(func(h *health) { h.migPending = yes }), good, "none [] 0 0 0 0 1 true false"},
		"persistence": {good, with(func(h *health) { h.persistence = no }), "none [] 0 0 0 0 0 false false"},
		// A fault of one is one, whatever the other answers; without one, nothing is known.
		"one without an answer":    {health{}, good, "? ? ? ? ? ? ? ? false"},
		"one, and a fault":         {health{}, with(func(h *health) { h.recovery, h.failed = "gpu-reset", yes }), "gpu-reset [00ff:3d:00.0] 1 ? ? ? ? ? false"},
		"a kind without remapping": {with(func(h *health) { h.failed, h.pending = nil, nil }), good, "none [] ? ? 0 0 0 true false"},
	} {
		first, second := gpu{address: "00ff:17:00.0", health: c.first}, gpu{address: "00ff:3d:00.0", health: c.second}
		if got := healthOf(t, fake{machine: machine{driver: "570.86.15", gpus: []gpu{first, second}}}); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}

	// Why the action is unknown is said of the GPU that is the reason, and a fault of another one is reported anyway.
	const newer = "action 6 is not known to this detector"
	for why, c := range map[string]struct {
		first, second health
		want          string
	}{
		"00ff:17:00.0: the driver is older than 565": {with(func(h *health) { h.recovery = "" }), with(func(h *health) { h.recovery = "" }), "? ? 0 0 0 0 0 true false"},
		"00ff:3d:00.0: " + newer:                     {good, with(func(h *health) { h.recovery, h.whyNoRecovery = "", newer }), "? ? 0 0 0 0 0 true false"},
		"":                                           {with(func(h *health) { h.recovery = "gpu-reset" }), with(func(h *health) { h.recovery, h.whyNoRecovery = "", newer }), "gpu-reset [00ff:17:00.0] 0 0 0 0 0 true false"},
	} {
		first, second := gpu{address: "00ff:17:00.0", health: c.first}, gpu{address: "00ff:3d:00.0", health: c.second}
		l := fake{machine: machine{driver: "570.86.15", gpus: []gpu{first, second}}}
		if got, reason := healthOf(t, l), fact(ask(t, l), "gpus_to_recover").Unknown; got != c.want || reason != why {
			t.Errorf("got %s, because %q; want %s, because %q", got, reason, c.want, why)
		}
	}

	for name, c := range map[string]struct {
		library fake
		want    string
	}{
		"no GPU":       {fake{machine: machine{driver: "570.86.15"}}, "? ? ? ? ? ? ? ? ?"},
		"it hangs":     {fake{hang: true}, "? ? ? ? ? ? ? ? ?"},
		"it fails":     {fake{err: errors.New("nvmlInit: error 999")}, "? ? ? ? ? ? ? ? ?"},
		"two versions": {fake{machine: machine{isMismatch: true}, err: errors.New("nvmlInit: the versions differ")}, "? ? ? ? ? ? ? ? true"},
	} {
		if got := healthOf(t, c.library); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}

	// One of 16 answers with errors, or cannot be opened: that one is not known, and a fault of another one is.
	all := make([]gpu, 16)
	for i := range all {
		all[i] = gpu{address: fmt.Sprintf("00ff:%02x:00.0", 0x80+i), health: good}
	}
	all[0].address, all[1].address = "00ff:17:00.0", "00ff:3d:00.0"
	all[7].health = health{}
	broken := slices.Clone(all)
	broken[9].health = with(func(h *health) { h.recovery = "gpu-reset" })
	lost, hangs := []string{"it has fallen off the bus"}, []string{""}
	for name, c := range map[string]struct {
		gpus     []gpu
		failures []string
		want     string
	}{
		"errors of one":      {all, nil, "? ? ? ? ? ? ? ? false"},
		"and a fault":        {broken, nil, "gpu-reset [00ff:89:00.0] ? ? ? ? ? ? false"},
		"one is not opened":  {slices.Delete(slices.Clone(all), 7, 8), lost, "? ? ? ? ? ? ? ? false"},
		"one hangs":          {slices.Delete(slices.Clone(all), 7, 8), hangs, "? ? ? ? ? ? ? ? false"},
		"a fault beside it":  {slices.Delete(slices.Clone(broken), 7, 8), hangs, "gpu-reset [00ff:89:00.0] ? ? ? ? ? ? false"},
		"and a fault beside": {slices.Delete(slices.Clone(broken), 7, 8), lost, "gpu-reset [00ff:89:00.0] ? ? ? ? ? ? false"},
	} {
		isClosed := false
		l := fake{machine: machine{driver: "570.86.15", gpus: c.gpus}, failures: c.failures, closed: &isClosed}
		if got := healthOf(t, l); got != c.want {
			t.Errorf("16 GPUs, %s: got %s, want %s", name, got, c.want)
		}
		a := ask(t, l)
		doesHang := slices.Equal(c.failures, hangs)
		why := "GPU 15: it has fallen off the bus"
		if doesHang {
			why = "GPU 15: NVML did not return in time: the driver may hang"
		}
		if got := fact(a, "row_remap_failed").Unknown; c.failures != nil && got != why {
			t.Errorf("16 GPUs, %s: got unknown because %q, want %q", name, got, why)
		}
		if isClosed == doesHang { // a call that hangs may still use it
			t.Errorf("16 GPUs, %s: got NVML closed %t, want %t", name, isClosed, !doesHang)
		}
		want := any(len(c.failures) == 0)
		if doesHang { // which holds nothing
			want = nil
		}
		if got := fact(a, "gpus_complete").Value; len(a.Devices) != 16 || got != want {
			t.Errorf("16 GPUs, %s: got %d devices, complete %v; want 16, %v", name, len(a.Devices), got, want)
		}
	}

	// One that NVML lists, and whose function has left the bus.
	gone := gpu{address: "00ff:99:00.0", health: with(func(h *health) { h.recovery = "node-reboot" })}
	l := fake{machine: machine{driver: "570.86.15", gpus: []gpu{all[0], gone}}}
	if got, want := healthOf(t, l), "node-reboot [00ff:99:00.0] 0 0 0 0 0 true false"; got != want {
		t.Errorf("one that left the bus: got %s, want %s", got, want)
	}

	sick := with(func(h *health) { h.recovery, h.failed = "gpu-reset", yes })
	a := ask(t, fake{machine: machine{driver: "570.86.15", gpus: []gpu{{address: "00ff:17:00.0", health: sick}}}})
	for name, want := range map[string]string{
		"recovery_action": "gpu-reset", "row_remap_failed": "true", "row_remap_pending": "false", "persistence_mode": "true",
	} {
		if got := a.Devices[0].Attributes[name]; got != want {
			t.Errorf("attribute %s: got %q, want %q", name, got, want)
		}
	}
}

// healthOf returns the facts of a library, "?" for those that are unknown for a reason.
func healthOf(t *testing.T, l fake) string {
	t.Helper()
	facts := map[string]contract.Fact{}
	for _, f := range ask(t, l).Facts {
		facts[f.Name] = f
	}
	var out []string
	for _, d := range healthFacts() {
		name := d.Declare().Name
		f := facts[name]
		switch {
		case f.Value != nil:
			out = append(out, fmt.Sprint(f.Value))
		case f.Unknown == "":
			t.Errorf("%s is unknown: got no reason, want one", name)
		default:
			out = append(out, "?")
		}
	}

	return strings.Join(out, " ")
}
