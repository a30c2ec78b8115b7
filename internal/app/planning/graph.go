package planning

import (
	"context"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
)

// GraphOptions are the site and how much of it is drawn.
type GraphOptions struct {
	app.Where
	OnlyStages bool // without variables, locals, detectors and blocks
}

// Graph returns the declarations of a site and the references between them. It needs no machine and no network.
func Graph(e *app.Env, o GraphOptions) (eval.Graph, error) {
	o.Files = lang.AnyOwner()
	g, err := e.Read(o.Where)
	if err != nil {
		return eval.Graph{}, err
	}
	s, diags := g.Loaded.Site, g.Loaded.Diags
	if !diags.HasErrors() {
		locks := e.DetectorHost(g.Where)
		diags = append(diags, boot.Check(s, nil, boot.CheckOptions{Locks: locks})...)
	}
	if diags.HasErrors() {
		return eval.Graph{}, app.RefuseSite(s, diags)
	}

	scope := eval.New(context.Background(), s, nil)
	if o.OnlyStages {
		return scope.OnlyStages(), nil
	}

	return scope.Graph(), nil
}
