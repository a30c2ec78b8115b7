package commit

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/fault"
)

// endingDoc is an ending in testdata/endings.txtar.
type endingDoc struct {
	Kind                                                                     string
	Changed, Stopped, LastGood, ReleaseFailed, IsGateShut, IsGood, IsForeign bool
	Code, PlanCode                                                           fault.Code
	Failure, Why, PlanHeld                                                   string
	To, GenerationBefore                                                     int
	Out                                                                      activation.Outcome
	Err, ActivateErr                                                         *fault.Fault // without a code: of another kind
}

func (d endingDoc) ending() ending {
	asError := func(f *fault.Fault) error {
		switch {
		case f == nil:
			return nil
		case f.Code == "":
			return errors.New(f.Summary)
		}

		return f
	}
	kinds := []string{"activated", "failed", "broken", "withoutSite", "switchedOff", "madeByNewer", "byHand"}

	return ending{
		kind: endingKind(slices.Index(kinds, d.Kind)), changed: d.Changed, code: d.Code, failure: d.Failure,
		err: asError(d.Err), planCode: d.PlanCode, stopped: d.Stopped, lastGood: d.LastGood, to: d.To, why: d.Why,
		generationBefore: d.GenerationBefore, out: d.Out, activateErr: asError(d.ActivateErr), planHeld: d.PlanHeld,
		releaseFailed: d.ReleaseFailed, isGateShut: d.IsGateShut, isGood: d.IsGood, isForeign: d.IsForeign,
	}
}

// describeOutcome returns one line for each field of an outcome that is set, without the error.
func describeOutcome(o outcome) string {
	o.err = nil
	var b strings.Builder
	for i, v := 0, reflect.ValueOf(o); i < v.NumField(); i++ {
		if !v.Field(i).IsZero() {
			fmt.Fprintf(&b, "%s: %+v\n", v.Type().Field(i).Name, v.Field(i))
		}
	}

	return b.String()
}

// TestDecideEnding covers how a run ends, for each kind of ending: testdata/endings.txtar.
func TestDecideEnding(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/endings.txtar")
	if err != nil || len(archive.Files) < 30 {
		t.Fatalf("endings: got %v, %v; want 30 or more", archive, err)
	}
	for _, section := range archive.Files {
		text, want, _ := strings.Cut(string(section.Data), "\n")
		var doc endingDoc
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&doc); err != nil {
			t.Fatalf("%s: got %v, want an ending in JSON", section.Name, err)
		}
		in := doc.ending()
		got := decideEnding(in)

		for _, err := range []error{in.err, in.activateErr} {
			if err != nil && !errors.Is(got.err, err) && !(in.kind == broken && err == in.activateErr) {
				t.Errorf("%s: the error %v is lost: %v", section.Name, err, got.err)
			}
		}
		if described := describeOutcome(got); described != want {
			t.Errorf("%s:\n got %s\nwant %s", section.Name, described, want)
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
