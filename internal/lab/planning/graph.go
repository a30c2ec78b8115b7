package planning

import (
	"context"

	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
)

// GraphOptions are the site and how much of it is drawn.
type GraphOptions struct {
	lab.Request
	OnlyStages bool // without variables, locals, detectors and blocks
}

// Graph returns the declarations of a site and the references between them. It needs no machine and no network.
func Graph(e *machine.Env, o GraphOptions) (eval.Graph, error) {
	o.Files = lang.AnyOwner()
	g, err := lab.Read(e, o.Request)
	if err != nil {
		return eval.Graph{}, err
	}
	s, diags := g.Loaded.Site, g.Loaded.Diags
	if !diags.HasErrors() {
		locks := e.DetectorHost(g.Where)
		diags = append(diags, evaluate.Check(s, nil, evaluate.CheckOptions{Locks: locks})...)
	}
	if diags.HasErrors() {
		return eval.Graph{}, lab.RefuseSite(s, diags)
	}

	scope := eval.New(context.Background(), s, nil)
	if o.OnlyStages {
		return scope.OnlyStages(), nil
	}

	return scope.Graph(), nil
}
