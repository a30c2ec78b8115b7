package commit

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/origin"
)

// Explain returns an error of writing, recovering or activating as diagnostics: what failed, on which object, why, and
// the next step, with a code that has a page. It returns nil for other errors.
func Explain(err error) (out hcl.Diagnostics) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok &&
		!errors.Is(err, generation.ErrLocked) {
		for _, e := range joined.Unwrap() {
			out = append(out, Explain(e)...)
		}

		return out
	}

	var f *fault.Fault
	if !errors.As(err, &f) || f.At.File != "" { // Diagnose has the place in the site
		return nil
	}

	target, ok := generation.OnPath(f)
	switch {
	case !ok:
		return hcl.Diagnostics{explainUnit(findPrefix(err, f), f)}
	case errors.Is(err, generation.ErrLocked):
		return hcl.Diagnostics{explainLocked(target)}
	}

	return hcl.Diagnostics{explainStore(findPrefix(err, f), f, target)}
}

// Explain returns the error of a result as diagnostics, nil where Err says it all, and whether there is a complete plan
// each of whose files could be written.
func (r Result) Explain() (messages hcl.Diagnostics, isComplete bool) {
	if placed := Diagnose(r.Plan, r.Err); placed != nil {
		return hcl.Diagnostics{placed}, false
	}

	return Explain(r.Err), r.Plan != nil && r.Plan.Complete
}

func buildMessage(c fault.Code, summary string, detail ...string) *hcl.Diagnostic {
	return origin.Error(c, hcl.Range{}, summary, "%s", strings.Join(detail, "\n"))
}

// pasteLine returns a command as an indented line, which the printer does not wrap.
func pasteLine(command string) string { return "    " + command }

func explainLocked(lock *fs.PathError) *hcl.Diagnostic {
	holder := strings.TrimPrefix(lock.Err.Error(), generation.ErrLocked.Error()+": ")

	return buildMessage(
		fault.Locked,
		"Another prelet holds the lock",
		fmt.Sprintf("%s: %s.", lock.Path, holder),
		"Nothing was changed. It is released when the process that holds it ends, however it ends.",
		"Next: see what that process does, or wait and try again:",
		pasteLine("fuser -v "+lock.Path),
		pasteLine("systemctl status prelet.service prelet-apply.service prelet-verify.service"),
	)
}

// explainStore explains a failure to read or write one object. before is the prefix of the callers.
func explainStore(before string, f *fault.Fault, target *fs.PathError) *hcl.Diagnostic {
	summary := "Cannot write " + target.Path
	after := "Nothing was changed."

	switch f.Code {
	case fault.NoAnswer:
		summary = "Cannot read " + target.Path
	case fault.Interrupted:
		summary = "Interrupted after the commit, at " + target.Path
		after = "The journal is kept, " +
			"and the next run, or prelet recover, finishes it."
	case fault.NeedsPerson:
		summary = "Cannot go on with " + target.Path
		after = "The gate stays shut where the files may be those of two generations."
	case fault.Internal:
		summary = "A bug in prelet, at " + target.Path
		after = "Please report it."
	}

	reason := fmt.Sprintf("%s%s: %v", before, target.Op, target.Err)
	detail := []string{formatReason(reason), after}
	if f.Next != "" {
		detail = append(detail, formatNext(f.Next))
	}

	return buildMessage(f.Code, summary, detail...)
}

// explainUnit explains a failure of the kubelet's unit.
func explainUnit(before string, f *fault.Fault) *hcl.Diagnostic {
	var detail []string
	if f.Err != nil {
		detail = append(detail, formatReason(f.Err.Error()))
	}

	if f.Next != "" {
		detail = append(detail, formatNext(f.Next))
	}

	return buildMessage(f.Code, before+f.Summary, detail...)
}

// findPrefix returns the text of callers before an error that they wrap, such as "recovering: ".
func findPrefix(err, inner error) string {
	head, _, found := strings.Cut(err.Error(), inner.Error())
	if !found {
		return ""
	}

	return head
}

func formatReason(s string) string {
	return "Why: " + strings.TrimSuffix(s, ".") + "."
}

func formatNext(s string) string {
	return "Next: " + strings.TrimSuffix(s, ".") + "."
}
