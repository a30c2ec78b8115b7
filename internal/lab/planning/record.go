package planning

import (
	"compress/gzip"
	"context"
	"io"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/lang"
)

// RecordOptions are the node to record and the file to write.
type RecordOptions struct {
	lab.Request
	File         string    // NAME.prelet or NAME.prelet.gz; "-" is Stdout
	Stdout       io.Writer // gets the recording, byte for byte, and nothing else
	WithIdentity bool      // keep serial numbers, uuids, machine id, MAC addresses and GUIDs
}

// Recorded is the result of a recording.
type Recorded struct {
	Site        *lang.Site
	Diagnostics hcl.Diagnostics
	Lacks       *hcl.Diagnostic // the first expression for which the recording has no value, as it has no identity
}

// Record plans like a run, and writes all questions and answers into a file.
func Record(ctx context.Context, e *machine.Env, o RecordOptions) (Recorded, error) {
	isNamed := strings.HasSuffix(o.File, ".prelet") || strings.HasSuffix(o.File, ".prelet.gz")
	if o.File != "-" && !isNamed {
		return Recorded{}, fault.Usage.Errorf(
			"%s: a recording's name ends in .prelet or .prelet.gz; - is standard output", o.File)
	}

	n, err := lab.Open(e, o.Request, nil)
	if err != nil {
		return Recorded{}, err
	}
	defer n.Close()
	if n.Found.HasErrors() {
		return Recorded{}, lab.RefuseSite(n.Site, n.Found)
	}

	p := n.Plan(ctx, nil)
	if err := machine.CheckStopped(ctx); err != nil {
		return Recorded{}, err
	}

	r := n.Recording(p)
	var lacks *hcl.Diagnostic
	if !o.WithIdentity {
		if err := r.Withhold(); err != nil {
			return Recorded{}, fault.Internal.Errorf("%s", err)
		}
		lacks = findUnread(ctx, e, r)
	}
	if err := userfile.WritePage(o.File, o.Stdout, o.encoder(r)); err != nil {
		return Recorded{}, err
	}

	return Recorded{n.Site, append(n.Found, p.Diagnostics...), lacks}, nil
}

// findUnread plans a recording, and returns the first error about a value that it does not have, nil for none.
func findUnread(ctx context.Context, e *machine.Env, r *tape.Recording) *hcl.Diagnostic {
	n := lab.OpenWorld(e, &lab.Given{}, r, nil)
	defer n.Close()
	for _, d := range n.PlanUnless(ctx).Diagnostics {
		if origin.CodeOf(d) == fault.Unread && d.Severity == hcl.DiagError {
			return d
		}
	}

	return nil
}

// encoder returns the function that writes a recording, compressed where its name says so.
func (o RecordOptions) encoder(r *tape.Recording) func(io.Writer) error {
	if !strings.HasSuffix(o.File, ".gz") {
		return r.Encode
	}

	return func(w io.Writer) error {
		z := gzip.NewWriter(w)
		if err := r.Encode(z); err != nil {
			return err
		}

		return z.Close()
	}
}
