package commit

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/report"
)

// TestDecideEnding covers how a run ends, for each kind of ending.
func TestDecideEnding(t *testing.T) {
	const (
		stays  = "the site is wrong; generation 3 stays in charge"
		chosen = "generation 1 is pinned (me); to apply the site again: prelet rollback --release"
	)

	gone := errors.New("the bus is gone")
	code := func(c fault.Code, summary string) []report.Reason {
		return []report.Reason{{Code: string(c), Summary: summary}}
	}
	inPlace := activation.Outcome{Generation: 3}
	wentBack := activation.Outcome{
		Verdict: activation.Bad, Why: "crash loop", Generation: 4, From: 3, InPlace: activation.Good, Held: true,
		Code: fault.RolledBack,
	}
	left := Summarize(wentBack, true)

	for _, c := range []struct {
		name string
		in   ending
		want outcome
	}{
		// Activated.
		{
			"good", ending{out: activation.Outcome{Verdict: activation.Good, Generation: 3}, changed: true},
			outcome{summary: "generation 3 is in place, and the kubelet is healthy on it"},
		},
		{"nothing to change", ending{out: inPlace}, outcome{summary: "no changes; generation 3 is in place"}},
		{
			"gone back", ending{out: wentBack, changed: true},
			outcome{code: fault.RolledBack, summary: left, planHeld: "crash loop"},
		},
		{
			"the gate stays shut", ending{out: activation.Outcome{HeldBack: "a mixture"}, isGateShut: true},
			outcome{summary: "a mixture", gateShut: "a mixture"},
		},
		{
			"interrupted after the commit, with the gate shut",
			ending{
				out: inPlace, activateErr: &fault.Fault{Code: fault.Interrupted, Summary: "stopped"}, isGateShut: true,
				changed: true,
			},
			outcome{code: fault.Interrupted, summary: "stopped", gateShut: "stopped"},
		},
		{
			"interrupted after the commit, with the gate open",
			ending{out: inPlace, activateErr: &fault.Fault{Code: fault.Interrupted, Summary: "stopped"}, changed: true},
			outcome{code: fault.Interrupted, summary: "stopped"},
		},

		// Failed before the commit.
		{
			"a typo, on a good generation",
			ending{
				kind: failed, code: fault.Syntax, failure: "the site is wrong", planCode: fault.Syntax, out: inPlace,
				isGood:   true,
				lastGood: true,
			},
			outcome{
				code: fault.Syntax, reason: "the site is wrong", summary: stays, degraded: code(fault.Syntax, stays),
			},
		},
		{
			"a typo, and nothing may start",
			ending{
				kind: failed, code: fault.Syntax, failure: "the site is wrong",
				out:        activation.Outcome{Generation: 3, HeldBack: "so"},
				isGateShut: true,
			},
			outcome{code: fault.Syntax, reason: "the site is wrong", summary: "the site is wrong", gateShut: "so"},
		},
		{
			"a typo, and prelet was never used",
			ending{kind: failed, code: fault.Syntax, failure: "the site is wrong"},
			outcome{code: fault.Syntax, reason: "the site is wrong", summary: "the site is wrong"},
		},
		{
			"a file cannot be written: its own code",
			ending{kind: failed, code: fault.CannotWrite, failure: "the site is wrong", err: gone, out: inPlace},
			outcome{
				code: fault.CannotWrite, reason: "the site is wrong", summary: stays, err: gone,
				degraded: code(fault.CannotWrite, stays),
			},
		},
		{
			"what is in place was never judged, and is unhealthy",
			ending{kind: failed, code: fault.Syntax, failure: "the site is wrong", out: wentBack},
			outcome{
				code: fault.Syntax, reason: "the site is wrong", summary: "the site is wrong; " + left,
				degraded: code(fault.Syntax, "the site is wrong; "+left),
			},
		},
		{
			"what is in place cannot be kept",
			ending{
				kind: failed, code: fault.Syntax, failure: "the site is wrong", err: fs.ErrPermission,
				out: activation.Outcome{HeldBack: "so"}, activateErr: gone,
			},
			outcome{code: fault.Syntax, reason: "the site is wrong", summary: "the site is wrong; the bus is gone"},
		},

		// The cluster is at fault.
		{
			"no apiserver, and the node may go on with the last good answers",
			ending{
				kind: failed, code: fault.ClusterUnreachable, failure: "the site is wrong", out: inPlace, isGood: true,
				lastGood: true,
			},
			outcome{reason: "the site is wrong", summary: stays, degraded: code(fault.ClusterUnreachable, stays)},
		},
		{
			"no apiserver, and the site says that it fails",
			ending{
				kind: failed, code: fault.ClusterUnreachable, failure: "the site is wrong", out: inPlace, isGood: true,
			},
			outcome{
				code: fault.ClusterUnreachable, reason: "the site is wrong", summary: stays,
				degraded: code(fault.ClusterUnreachable, stays),
			},
		},
		{
			"no apiserver, and what is in place was not judged good",
			ending{kind: failed, code: fault.ClusterDenied, failure: "the site is wrong", out: inPlace, lastGood: true},
			outcome{
				code: fault.ClusterDenied, reason: "the site is wrong", summary: stays,
				degraded: code(fault.ClusterDenied, stays),
			},
		},
		{
			"stopped while it asked the cluster",
			ending{
				kind: failed, code: fault.Interrupted, planCode: fault.ClusterUnreachable, failure: "the site is wrong",
				stopped: true,
				out:     inPlace, isGood: true, lastGood: true,
			},
			outcome{
				code: fault.Interrupted, reason: "the site is wrong", summary: stays,
				degraded: code(fault.ClusterUnreachable, stays),
			},
		},

		// Broken.
		{
			"recovery needs a person, at boot",
			ending{kind: broken, code: fault.NeedsPerson, failure: "neither of both", err: gone, isGateShut: true},
			outcome{code: fault.NeedsPerson, summary: "neither of both", gateShut: "neither of both", quiet: true},
		},
		{
			"recovery needs a person, while the kubelet runs",
			ending{kind: broken, code: fault.NeedsPerson, failure: "neither of both", err: gone},
			outcome{code: fault.NeedsPerson, summary: "neither of both", err: gone, quiet: true},
		},

		// No site.
		{
			"prelet is not in use", ending{kind: withoutSite},
			outcome{summary: "no site was found, so prelet is not in use; the kubelet starts as it is"},
		},
		{
			"prelet is not in use, and systemd does not answer",
			ending{kind: withoutSite, activateErr: &fault.Fault{Code: fault.Systemd, Summary: "no bus"}},
			outcome{code: fault.Systemd, summary: "no bus"},
		},
		{
			"the site is gone", ending{kind: withoutSite, generationBefore: 3, out: inPlace},
			outcome{
				summary:       "no changes; generation 3 is in place",
				degradedFirst: code(fault.NoSite, "the site is gone; generation 3 stays"),
			},
		},
		{
			"the site is gone, and nothing may start",
			ending{
				kind: withoutSite, generationBefore: 3, out: activation.Outcome{Generation: 3, HeldBack: "a mixture"},
				isGateShut: true,
			},
			outcome{
				code: fault.NoSite, summary: "a mixture", gateShut: "a mixture",
				degradedFirst: code(fault.NoSite, "the site is gone; generation 3 stays"),
			},
		},

		// Switched off.
		{
			"prelet=off", ending{kind: switchedOff, out: inPlace},
			outcome{summary: off, degraded: code(fault.Held, off)},
		},
		{
			"prelet=off, on another machine's", ending{kind: switchedOff, out: inPlace, isForeign: true},
			outcome{summary: off + foreignOff, degraded: code(fault.Held, off+foreignOff)},
		},
		{
			"prelet=off, and the gate cannot be opened",
			ending{kind: switchedOff, out: inPlace, activateErr: gone, isGateShut: true},
			outcome{code: fault.Internal, summary: "the bus is gone", quiet: true},
		},

		// Made by a newer prelet.
		{
			"a newer prelet's generation",
			ending{kind: madeByNewer, code: fault.NewerPrelet, failure: "a newer one", out: inPlace},
			outcome{
				summary:  "generation 3 stays: a newer one",
				degraded: code(fault.NewerPrelet, "generation 3 stays: a newer one"),
			},
		},
		{
			"a newer prelet's generation, and a file differs",
			ending{
				kind: madeByNewer, code: fault.NewerPrelet, failure: "a newer one", err: gone,
				out: activation.Outcome{HeldBack: "a mixture"}, isGateShut: true,
			},
			outcome{
				code: fault.NewerPrelet, err: gone, summary: "a mixture; a newer one", gateShut: "a mixture; a newer one",
			},
		},
		{
			"a newer prelet's generation, and the gate cannot be opened",
			ending{kind: madeByNewer, code: fault.NewerPrelet, failure: "a newer one", activateErr: gone, isGateShut: true},
			outcome{code: fault.Internal, summary: "the bus is gone", quiet: true},
		},

		// Held.
		// By hand.
		{
			"a way back by hand",
			ending{kind: byHand, to: 1, why: "me", out: activation.Outcome{Verdict: activation.Unknown, Generation: 3}},
			outcome{
				summary: "generation 3 is in place by hand; it has the contents of generation 1", planHeld: chosen, quiet: true,
				degradedFirst: code(fault.Held, chosen),
				degraded: code(
					fault.Unjudged,
					"whether the kubelet is healthy with generation 3 is not known; prelet verify checks it",
				),
			},
		},
		{
			"a way back by hand, to one that is unhealthy as well",
			ending{
				kind: byHand, to: 1, why: "me",
				out: activation.Outcome{Code: fault.RollbackFails, Why: "crash loop", Generation: 3},
			},
			outcome{
				code:     fault.RollbackFails,
				summary:  "generation 3 is in place by hand; it has the contents of generation 1: crash loop",
				planHeld: chosen, quiet: true, degradedFirst: code(fault.Held, chosen),
			},
		},
		{
			"a way back by hand that is refused",
			ending{kind: byHand, to: 1, why: "me", activateErr: &fault.Fault{Code: fault.Usage, Summary: "no"}},
			outcome{code: fault.Usage, summary: "no", quiet: true},
		},
		{
			"the plan is held", ending{planHeld: "it failed", out: inPlace},
			outcome{
				summary: "no changes; generation 3 is in place; the site's plan is held", planHeld: "it failed",
				degradedFirst: code(fault.Held, "it failed"),
			},
		},
		{
			"the plan is held, and what is in place cannot be put right",
			ending{
				kind: failed, code: fault.CannotWrite, failure: "the site is wrong", planHeld: "it failed", out: inPlace,
			},
			outcome{
				code: fault.CannotWrite, reason: "the site is wrong", summary: stays, planHeld: "it failed",
				degradedFirst: code(fault.Held, "it failed"), degraded: code(fault.CannotWrite, stays),
			},
		},
		{
			"the plan was to be tried again, and that failed before the commit",
			ending{
				kind: failed, code: fault.Systemd, failure: "the site is wrong", planHeld: "it failed", releaseFailed: true,
				out: inPlace,
			},
			outcome{
				code: fault.Systemd, reason: "the site is wrong", summary: stays, planHeld: "it failed",
				degraded: append(code(fault.Systemd, stays), code(fault.Held, "it failed")...),
			},
		},
	} {
		got := decideEnding(c.in)

		for _, err := range []error{c.in.err, c.in.activateErr} {
			if err != nil && !errors.Is(got.err, err) && !(c.in.kind == broken && err == c.in.activateErr) {
				t.Errorf("%s: the error %v is lost: %v", c.name, err, got.err)
			}
		}

		got.err, c.want.err = nil, nil
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

// Failures of the cluster are fixed on its side, so a node that may continue does not fail. All other failures do.
func TestDecideMindsTheCluster(t *testing.T) {
	for _, code := range fault.Codes() {
		e := ending{
			kind:     failed,
			code:     code,
			failure:  "x",
			out:      activation.Outcome{Generation: 3},
			isGood:   true,
			lastGood: true,
		}
		want := code

		switch code {
		case fault.ClusterUnreachable, fault.ClusterUntrusted, fault.ClusterDenied, fault.ClusterUnusable:
			want = ""
		}

		if got := decideEnding(e).code; got != want {
			t.Errorf("%s on a node that may go on: code %q; want %q", code, got, want)
		}
	}
}

const (
	off        = "nothing was planned, changed or judged: prelet=off is on the kernel command line"
	foreignOff = "; generation 3 was made on another machine, and the kubelet starts as that one"
)

// TestDecideKeepsItsPromises checks every ending: a kubelet that may not start has a reason, a failure has a code and a
// summary, and a run that was stopped or needs a person never ends successfully.
func TestDecideKeepsItsPromises(t *testing.T) {
	each := func(do func(ending)) {
		for w := activated; w <= byHand; w++ {
			for bits := range 1 << 9 {
				is := func(i int) bool { return bits&(1<<i) != 0 }
				e := ending{
					kind:          w,
					isGateShut:    is(0),
					stopped:       is(1),
					lastGood:      is(2),
					isGood:        is(3),
					releaseFailed: is(4),
					changed:       is(5),
				}
				e.out.Generation, e.generationBefore = 3, 3

				if w == failed || w == broken {
					e.code, e.failure = fault.ClusterUnreachable, "it failed"
					if is(1) {
						e.code = fault.Interrupted
					}
				}

				if is(6) {
					e.planHeld = "held"
				}

				if is(7) {
					e.out.HeldBack, e.isGateShut = "so", true
				}

				if is(8) {
					e.activateErr = errors.New("gone")
				}

				do(e)
			}
		}
	}

	each(func(e ending) {
		o := decideEnding(e)

		switch {
		case o.summary == "":
			t.Errorf("%+v has no summary", e)
		case e.activateErr != nil && e.kind != broken && o.code == "" && e.kind != failed:
			t.Errorf("%+v went wrong and ends without a code", e)
		case e.kind == failed && o.code == "" && (e.stopped || !e.isGood || !e.lastGood):
			t.Errorf("%+v failed and ends without a code", e)
		case e.out.HeldBack != "" && e.activateErr == nil && e.kind != broken && e.kind != switchedOff && o.gateShut == "":
			t.Errorf("%+v is held back, and that is not reported", e)
		case e.planHeld != "" && o.planHeld != e.planHeld:
			t.Errorf("%+v is held, and that is not reported", e)
		}
	})
}
