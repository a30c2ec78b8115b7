package live

import (
	"context"
	"fmt"
	"os"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
)

// detector passes the questions about detectors on. What a stranger's program said may hold a secret that it came by: the
// secrets of the site are read before anything of it is kept.
func (l *Live) detector(ctx context.Context, name string, q world.Question) world.Answer {
	hint := "See that the site does without them: try(…, null) or a test of the state where they are used"
	if st, err := os.Stat(l.o.Hardware); l.o.Hardware != "" && (err != nil || !st.IsDir()) {
		return world.Failure(fault.Absent, fmt.Sprintf("Detectors look into a tree, and the hardware here is recorded in one file, "+
			"so %q gives no facts and has state = \"absent\"", name), hint)
	}
	if l.o.Detectors == nil {
		return world.Failure(fault.Absent, fmt.Sprintf("Nothing runs detectors here, so %q gives no facts and has state = \"absent\"", name), hint)
	}
	a := l.o.Detectors.Ask(ctx, q)
	if q.Kind == world.KindDetector && l.o.Redactor != nil {
		l.learnSecrets()
		if f := a.Fault; f != nil {
			a = world.Failure(f.Code, l.o.Redactor.String(f.Why), l.o.Redactor.String(f.Next))
		}
		if text := l.o.Redactor.String(string(a.Value)); a.Value != nil && text != string(a.Value) {
			a = world.Failure(fault.DetectorFailed, fmt.Sprintf("Detector %q: its answer is refused whole: it holds a secret of this node", name),
				"See what the site grants it, and who else may read that credential")
		}
	}
	return a
}

// learnSecrets tells the redactor every credential that this process was given.
func (l *Live) learnSecrets() {
	given, ok := l.o.Credentials.(interface{ Names() ([]string, error) })
	if !ok {
		return
	}
	names, _ := given.Names()
	for _, n := range names {
		_, _ = l.Secret(n) // one that cannot be read is not known to the detector's words either
	}
}
