package commit

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
)

// endingDoc is an ending in testdata/endings.txtar.
type endingDoc struct {
	Kind                                  string
	Changed, LastGood, IsGateShut, IsGood bool
	IsForeign                             bool
	Code, PlanCode                        fault.Code
	Failure, PlanHeld                     string
	To, GenerationBefore                  int
	Out                                   activation.Outcome
	Err, EnterErr                         *fault.Fault // without a code: of another kind
}

// endingKinds are endings of each kind.
var endingKinds = map[string]ending{
	"activated":   {on: activation.OnChange},
	"failed":      {on: activation.OnFailed},
	"broken":      {isBroken: true},
	"withoutSite": {on: activation.OnNoSite},
	"switchedOff": {on: activation.OnOff},
	"madeByNewer": {on: activation.OnOff, isNewer: true},
	"byHand":      {on: activation.OnRollback},
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

	e := endingKinds[d.Kind]
	e.Result = Result{Code: d.Code, Reason: d.Failure, Err: asError(d.Err), Outcome: d.Out, Changed: d.Changed}
	e.planCode, e.lastGood, e.to, e.generationBefore = d.PlanCode, d.LastGood, d.To, d.GenerationBefore
	e.enterErr, e.planHeld = asError(d.EnterErr), d.PlanHeld
	e.isGateShut, e.isGood, e.isForeign = d.IsGateShut, d.IsGood, d.IsForeign

	return e
}

// describeEnding returns one line for each field of a decision that is set, without the error.
func describeEnding(e ending) string {
	var b strings.Builder
	for _, field := range []struct {
		name  string
		value any
	}{
		{"code", string(e.Code)}, {"summary", e.Summary}, {"reason", e.Reason}, {"held", e.Held},
		{"gateShut", e.gateShut}, {"degraded", e.degraded}, {"quiet", e.isQuiet},
	} {
		if !reflect.ValueOf(field.value).IsZero() {
			fmt.Fprintf(&b, "%s: %+v\n", field.name, field.value)
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
		got := in
		got.decide()

		for _, err := range []error{in.Err, in.enterErr} {
			if err != nil && !errors.Is(got.Err, err) && !(in.isBroken && err == in.enterErr) {
				t.Errorf("%s: the error %v is lost: %v", section.Name, err, got.Err)
			}
		}
		if described := describeEnding(got); described != want {
			t.Errorf("%s:\n got %s\nwant %s", section.Name, described, want)
		}
	}
}

// Failures of the cluster are fixed on its side, so a node that may continue does not fail. All other failures do.
func TestDecideMindsTheCluster(t *testing.T) {
	for _, code := range fault.Codes() {
		e := ending{
			on:        activation.OnFailed,
			Result:    Result{Code: code, Reason: "x", Outcome: activation.Outcome{Generation: 3}},
			lastGood:  true,
			nodeAfter: nodeAfter{isGood: true},
		}
		want := code

		switch code {
		case fault.ClusterUnreachable, fault.ClusterUntrusted, fault.ClusterDenied, fault.ClusterUnusable:
			want = ""
		}

		if e.decide(); e.Code != want {
			t.Errorf("%s on a node that may go on: code %q; want %q", code, e.Code, want)
		}
	}
}

// TestDecideKeepsItsPromises checks every ending: a kubelet that may not start has a reason, a failure has a code and a
// summary, and a run that was stopped or needs a person never ends successfully.
func TestDecideKeepsItsPromises(t *testing.T) {
	each := func(do func(ending)) {
		for _, e := range endingKinds {
			isFailure := e.on == activation.OnFailed || e.isBroken || e.isNewer
			for bits := range 1 << 8 {
				is := func(i int) bool { return bits&(1<<i) != 0 }
				e := e
				e.isGateShut, e.lastGood, e.isGood, e.Changed = is(0), is(2), is(3), is(4)
				e.Outcome.Generation, e.generationBefore = 3, 3

				if isFailure {
					e.Code, e.Reason = fault.ClusterUnreachable, "it failed"
					if is(1) {
						e.Code = fault.Interrupted
					}
				}

				if is(5) {
					e.planHeld = "held"
				}

				if is(6) {
					e.Outcome.HeldBack, e.isGateShut = "so", true
				}

				if is(7) {
					e.enterErr = errors.New("gone")
				}

				do(e)
			}
		}
	}

	each(func(e ending) {
		o := e
		o.decide()
		isFailed := e.on == activation.OnFailed
		isStopped := e.Code == fault.Interrupted
		isOff := e.on == activation.OnOff && !e.isNewer

		switch {
		case o.Summary == "":
			t.Errorf("%+v has no summary", e)
		case e.enterErr != nil && !e.isBroken && o.Code == "" && !isFailed:
			t.Errorf("%+v went wrong and ends without a code", e)
		case isFailed && o.Code == "" && (isStopped || !e.isGood || !e.lastGood):
			t.Errorf("%+v failed and ends without a code", e)
		case e.Outcome.HeldBack != "" && e.enterErr == nil && !e.isBroken && !isOff && o.gateShut == "":
			t.Errorf("%+v is held back, and that is not reported", e)
		case e.planHeld != "" && o.Held != e.planHeld:
			t.Errorf("%+v is held, and that is not reported", e)
		}
	})
}
