package apply

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/activate"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
	"github.com/prelet/prelet/internal/origin"
)

// Explain tells an error of writing, recovering or activating as messages: what, on which object, why, what to do next, with the
// code that has a page. Nil for an error of another kind.
func Explain(err error) (out hcl.Diagnostics) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok && !errors.Is(err, generation.ErrLocked) {
		for _, e := range joined.Unwrap() {
			out = append(out, Explain(e)...)
		}
		return out
	}
	var stuck *generation.StuckError
	var store *generation.Error
	var machine *activate.Error
	switch {
	case errors.As(err, &stuck):
		return hcl.Diagnostics{explainStuck(stuck)}
	case errors.As(err, &machine):
		return hcl.Diagnostics{explainMachine(err, machine)}
	case errors.Is(err, generation.ErrLocked) && errors.As(err, &store):
		return hcl.Diagnostics{explainLocked(store)}
	case errors.As(err, &store):
		return hcl.Diagnostics{explainStore(err, store)}
	}
	return nil
}

func message(c fault.Code, summary string, detail ...string) *hcl.Diagnostic {
	return origin.Error(c, hcl.Range{}, summary, "%s", strings.Join(detail, "\n"))
}

// paste is a line that nobody breaks: see present.
func paste(command string) string { return "    " + command }

func explainStuck(e *generation.StuckError) *hcl.Diagnostic {
	why := e.Why
	if e.Err != nil {
		why += ": " + e.Err.Error()
	}
	detail := []string{reason(why)}
	if e.Journal != "" {
		detail = append(detail, "The commit that was interrupted is in "+e.Journal+".")
	}
	detail = append(detail, "Nothing was touched, and the kubelet is not started on a mixture.")
	if len(e.Ways) == 0 {
		return message(fault.NeedsPerson, "Recovery needs a person: "+e.Path, append(detail, next(e.Hint))...)
	}
	detail = append(detail, "Next: look at it, move it away if it is still needed, and do one of these:")
	for _, w := range e.Ways {
		detail = append(detail, w.What+":", paste(w.Command))
	}
	return message(fault.NeedsPerson, "Recovery needs a person: "+e.Path, append(detail, "and then:", paste("prelet recover"))...)
}

func explainLocked(e *generation.Error) *hcl.Diagnostic {
	detail := []string{fmt.Sprintf("%s: %s.", e.Path, strings.TrimPrefix(e.Err.Error(), generation.ErrLocked.Error()+": "))}
	if h, ok := generation.HeldBy(e); ok {
		detail = append(detail, "Nothing was changed. It is released when that process ends, however it ends.", "Next: see what it does, or wait and try again:",
			paste(fmt.Sprintf("ps -o pid,lstart,stat,wchan:20,args -p %d", h.PID)), paste("prelet status"))
	} else {
		detail = append(detail, "Nothing was changed. It is released when the process that holds it ends, however it ends.", "Next: see who that is, or wait and try again:",
			paste("fuser -v "+e.Path), paste("systemctl status prelet.service prelet-apply.service prelet-verify.service"))
	}
	return message(fault.Locked, "Another prelet holds the lock", detail...)
}

func explainStore(err error, e *generation.Error) *hcl.Diagnostic {
	code, summary, after := fault.CannotWrite, "Cannot write "+e.Path, "Nothing was changed."
	switch e.Exit {
	case generation.ExitInterrupted:
		code, summary, after = fault.Interrupted, "Interrupted after the commit, at "+e.Path, "The journal is kept, and the next run, or prelet recover, finishes it."
	case generation.ExitInternal:
		code, summary, after = fault.Internal, "A fault of prelet at "+e.Path, "Please report it."
	}
	detail := []string{reason(fmt.Sprintf("%s%s: %v", prefix(err, e), e.Op, e.Err)), after}
	if e.Hint != "" {
		detail = append(detail, next(e.Hint))
	}
	return message(code, summary, detail...)
}

func explainMachine(err error, e *activate.Error) *hcl.Diagnostic {
	code := fault.Internal
	for _, c := range []fault.Code{fault.Interrupted, fault.RolledBack, fault.RollbackFails, fault.Systemd, fault.Usage} {
		if c.Exit() == e.Exit {
			code = c
		}
	}
	detail := []string{}
	if e.Err != nil {
		detail = append(detail, reason(e.Err.Error()))
	}
	if e.Hint != "" {
		detail = append(detail, next(e.Hint))
	}
	return message(code, prefix(err, e)+e.What, detail...)
}

// prefix is what callers have put before an error that they wrap, such as "recovering: ".
func prefix(err, inner error) string {
	head, _, found := strings.Cut(err.Error(), inner.Error())
	if !found {
		return ""
	}
	return head
}

func reason(s string) string { return "Why: " + strings.TrimSuffix(s, ".") + "." }

func next(s string) string { return "Next: " + strings.TrimSuffix(s, ".") + "." }
