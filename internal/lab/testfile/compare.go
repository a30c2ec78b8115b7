package testfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/stages"
)

// Compare returns how a plan differs from the expectations of the run, its snapshot aside. The first failure names the
// detectors without a reply, because that may be its cause.
func (r *Run) Compare(p *evaluate.Plan) []Failure {
	out := r.compare(p)
	if silent := r.listSilent(p); len(out) > 0 && out[0].Kind != KindExpected && len(silent) > 0 {
		advice := fmt.Sprintf("Detectors of the site without a reply here: %s. Give one in the run: "+
			"detectors = { %s = "+
			"{ facts = { … }, devices = [ … ] } }.", strings.Join(silent, ", "), silent[0])
		out[0].Message = strings.TrimSpace(stages.Sentence(out[0].Message) + " " + advice)
	}

	return out
}

// listSilent returns the detectors that had no reply, of the machine or of the run, by name. A detector without a lock
// is not asked.
func (r *Run) listSilent(p *evaluate.Plan) []string {
	if p.Tape == nil {
		return nil
	}
	hasReply := map[string]bool{}
	for _, e := range p.Tape.Entries() {
		if lock, err := tape.Lock.Request(e.Question); e.Kind == tape.KindLock && err == nil {
			hasReply[lock.Name] = hasReply[lock.Name] || false
		}
		if asked, err := tape.Detector.Request(e.Question); e.Kind == tape.KindDetector && err == nil {
			hasReply[asked.Name] = e.Answer.Fault == nil
		}
	}
	for name := range r.Detectors {
		delete(hasReply, name)
	}
	maps.DeleteFunc(hasReply, func(_ string, has bool) bool { return has })

	return slices.Sorted(maps.Keys(hasReply))
}

func (r *Run) compare(p *evaluate.Plan) (out []Failure) {
	var errs hcl.Diagnostics
	for _, d := range p.Diagnostics {
		if d.Severity == hcl.DiagError {
			errs = append(errs, adviseTest(d))
		}
	}
	if len(r.Expected) > 0 {
		return r.compareErrors(errs)
	}
	if len(errs) > 0 {
		return []Failure{{
			Kind:    KindError,
			At:      r.At,
			Summary: "The plan has an error",
			Errors:  errs,
		}}
	}

	names := map[string]cty.Value{"plan": makePlanValue(p)}
	scope := p.Eval.WithTrace().Outside("a condition", makeNodeValue(p), names, r.File.functions)
	for _, a := range r.Asserts {
		if failed := r.File.check(a, scope); failed != nil {
			out = append(out, *failed)
		}
	}

	return out
}

// adviseTest returns an error of a plan with advice for the author of a test.
func adviseTest(d *hcl.Diagnostic) *hcl.Diagnostic {
	if origin.CodeOf(d) != fault.VariableMissing {
		return d
	}
	out := *d
	out.Detail = "Give it a value in the run, variables = { … }, " +
		"or for all runs in the block variables of the test file."

	return &out
}

// compareErrors compares the codes of errors with the expected ones. Each must occur, and no other.
func (r *Run) compareErrors(errs hcl.Diagnostics) (out []Failure) {
	var other hcl.Diagnostics
	missing := slices.Clone(r.Expected)
	for _, d := range errs {
		code := origin.CodeOf(d)
		missing = slices.DeleteFunc(missing, func(m fault.Code) bool {
			return m == code
		})
		if !slices.Contains(r.Expected, code) {
			other = append(other, d)
		}
	}

	for _, code := range missing {
		message := "The plan has no error."
		if len(errs) > 0 {
			message = "The plan has other errors, which follow."
		}
		out = append(out, Failure{
			Kind:    KindExpected,
			At:      r.ExpectAt,
			Summary: fmt.Sprintf("The plan does not have the error %q", code),
			Message: message,
		})
	}
	if len(other) > 0 {
		out = append(out, Failure{
			Kind:    KindError,
			At:      r.ExpectAt,
			Summary: "The plan has an error that the run does not expect",
			Errors:  other,
		})
	}
	return out
}
