package app

import (
	"context"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
)

// GraphOptions are the site and how much of it is drawn.
type GraphOptions struct {
	Where
	OnlyStages bool // without variables, locals, detectors and blocks
}

// Graphed is a site with its graph. The graph is empty if the diagnostics have errors.
type Graphed struct {
	Site        *lang.Site
	Graph       eval.Graph
	Diagnostics hcl.Diagnostics
}

// Graph returns the declarations of a site and the references between them. It needs no machine and no network.
func (e *Env) Graph(o GraphOptions) (Graphed, error) {
	if err := o.Where.check(); err != nil {
		return Graphed{}, err
	}
	options := siteOptions(e.Version)
	options.Paths = o.Config
	options.Root = o.Root
	s, diags := lang.Load(anyOwner{lang.OS()}, options)
	if !diags.HasErrors() {
		locks := e.detectorHost(o.Where)
		diags = append(diags, boot.Check(s, nil, boot.CheckOptions{Locks: locks})...)
	}

	out := Graphed{Site: s, Diagnostics: diags}
	if diags.HasErrors() {
		return out, nil
	}
	scope := eval.New(context.Background(), s, nil)
	out.Graph = scope.Graph()
	if o.OnlyStages {
		out.Graph = scope.OnlyStages()
	}

	return out, nil
}
