package live

import (
	"context"
	"fmt"
	"os"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
)

// answerDetector passes a question about a detector on. The output of a vendor's program may have a secret of this node
// that the program found: all secrets of the site are read, and so known to the redactor, before any of it is kept.
func (l *Live) answerDetector(ctx context.Context, name string, q world.Question) world.Answer {
	if f := l.checkDetectors(name); f != nil {
		return world.Answer{Fault: f}
	}

	a := l.o.Detectors.Ask(ctx, q)
	if q.Kind != world.KindDetector || l.o.Redactor == nil {
		return a
	}

	l.learnSecrets()
	if f := a.Fault; f != nil {
		a = world.Failure(f.Code, l.o.Redactor.String(f.Why), l.o.Redactor.String(f.Next))
	}
	if text := l.o.Redactor.String(string(a.Value)); a.Value != nil && text != string(a.Value) {
		why := fmt.Sprintf("Detector %q: its answer is refused whole: it holds a secret of this node", name)
		a = world.Failure(fault.DetectorFailed, why, "See what the site grants it, and who else may read that credential")
	}
	return a
}

// checkDetectors returns why no detector can run here: there is no folder to look into, or nothing to run it.
func (l *Live) checkDetectors(name string) *fault.Fault {
	f := &fault.Fault{
		Code: fault.Absent,
		Next: "See that the site does without them: try(…, null) or a test of the state where they are used",
	}

	if st, err := os.Stat(l.o.Hardware); l.o.Hardware != "" && (err != nil || !st.IsDir()) {
		f.Why = fmt.Sprintf("Detectors look into a tree, and the hardware here is recorded in one file, "+
			"so %q gives no facts and has state = \"absent\"", name)
		return f
	}
	if l.o.Detectors == nil {
		f.Why = fmt.Sprintf("Nothing runs detectors here, so %q gives no facts and has state = \"absent\"", name)
		return f
	}
	return nil
}
