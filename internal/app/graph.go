package app

import (
	"context"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
)

// GraphOptions are the site and how much of it is drawn.
type GraphOptions struct {
	Where
	OnlyStages bool // without variables, locals, detectors and blocks
}

// Graph returns the declarations of a site and the references between them. It needs no machine and no network.
func (e *Env) Graph(o GraphOptions) (eval.Graph, error) {
	if err := o.Where.check(); err != nil {
		return eval.Graph{}, err
	}
	s, diags := e.readSite(anyOwner{lang.OS()}, o.layers(e.Version))
	if !diags.HasErrors() {
		locks := e.detectorHost(o.Where)
		diags = append(diags, boot.Check(s, nil, boot.CheckOptions{Locks: locks})...)
	}
	if diags.HasErrors() {
		return eval.Graph{}, refuseSite(s, diags)
	}

	scope := eval.New(context.Background(), s, nil)
	if o.OnlyStages {
		return scope.OnlyStages(), nil
	}

	return scope.Graph(), nil
}
