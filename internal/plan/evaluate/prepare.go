package evaluate

import (
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/functions"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/detectors"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Settings is the result of the step settings: the values of the prelet block.
type Settings struct {
	onCluster string        // last-good | fail
	maxAge    time.Duration // of an answer of the last good generation
	deadline  time.Duration // of all reads of the world
	group     string        // that may read the recording of the last run; "" is none
}

// decodeSettings is the step settings: it decodes the prelet block.
//
// Inputs: the site and a scope. Result: the settings, with defaults for missing attributes. Fails with the errors
// of the block.
func decodeSettings(s *lang.Site, e *eval.Eval) (Settings, Findings) {
	b, diags := schema.PreletBlock.Decode(s.Prelet, nil, e.Scope("prelet"))
	deadline, err := time.ParseDuration(schema.Deadline.Of(b).V)
	if err != nil {
		deadline = 5 * time.Minute
	}
	found := newFindings(diags...)

	return Settings{
		onCluster: schema.OnClusterError.Of(b).V,
		maxAge:    schema.ParseDuration(schema.MaxAge.Of(b)),
		deadline:  deadline,
		group:     schema.RecordingGroup.Of(b).V,
	}, found.join(checkNested(s, deadline))
}

// Prepared is the result of prepare: the input of gather stages.
type Prepared struct {
	eval *eval.Eval // with the variables
	env  stages.Env
}

// prepare evaluates variables, the cluster block and the detector blocks.
//
// Inputs: the site, the locks of detectors, a scope. Result: the scope with the variables, and the environment of
// gather stages. Fails with an error of a variable, alone; else with the errors of the blocks.
func prepare(
	s *lang.Site,
	locks detectors.Locks,
	e *eval.Eval,
) (Prepared, Findings) {
	out := Prepared{eval: e}
	found := newFindings(e.Variables()...)
	if found.Diags.HasErrors() {
		return out, found
	}

	if s.Cluster != nil {
		access, more := decodeAccess(s, e)
		out.env.Access = access
		out.env.Cluster = s.Cluster.SrcRange
		out.env.Anchor = s.Cluster.SrcRange
		for _, name := range []string{schema.CAFile.Name, schema.Discovery.Name, schema.CACertHashes.Name} {
			if a := s.Cluster.Attributes[name]; a != nil {
				out.env.Anchor = a.Expr.Range()
				break
			}
		}
		found.add(more)
	}
	all, more := locks.Decode(s, e)
	out.env.Detectors = all
	out.env.Unit = hostfiles.KubeletUnit(s)
	found.Report(more...)

	return out, found
}

func decodeAccess(s *lang.Site, e *eval.Eval) (tape.Access, Findings) {
	b, diags := schema.ClusterBlock.Decode(s.Cluster, nil, e.Scope("cluster"))
	a := tape.Access{
		Servers:       schema.Servers.Of(b).V,
		CACertHashes:  schema.CACertHashes.Of(b).V,
		CAFile:        schema.CAFile.Of(b).V,
		DiscoveryFile: schema.Discovery.Of(b).V,
		TrustToken:    schema.TrustBy.Of(b).V == "token",
		ProxyURL:      schema.ProxyURL.Of(b).V,
		RetryMillis:   schema.ParseDuration(schema.Retry.Of(b)).Milliseconds(),
	}
	if t := schema.Token.Of(b); t.Expr != nil {
		// The loader has checked that it is credential("NAME"). A missing credential is an error only where the
		// token is needed: a node that has joined does not use it. A recording need not contain it.
		a.Token, _ = functions.CredentialName(t.Expr)
		diags = slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool {
			isUnread := origin.CodeOf(d) == fault.Unread && t.Range.Overlaps(findPlace(d))
			return origin.CodeOf(d) == fault.CredentialMissing || isUnread
		})
	}

	return a, newFindings(diags...)
}

// bound is a time that ends all that is inside of it.
type bound struct {
	name string
	time time.Duration
}

// checkNested warns of a time that a site writes and that is longer than one around it, which ends first: see the table
// of package limit. A time that is not a literal is not checked.
func checkNested(s *lang.Site, deadline time.Duration) (found Findings) {
	// check checks a time, whose default is 0 or t, and returns the bound of the times inside of it.
	check := func(x hclsyntax.Expression, name string, t time.Duration, outer bound) bound {
		if x != nil {
			text, _ := value.LiteralText(x)
			if written, err := time.ParseDuration(text); err == nil {
				t = written
			}
			if t > outer.time {
				found.Warn(fault.WrongType, x.Range(), name+" is longer than "+outer.name,
					"It is %s, and %s ends it after %s. Raise that, or lower this.", text, outer.name, outer.time)
			}
		}
		if t == 0 || t > outer.time {
			return outer
		}

		return bound{"the timeout of its stage", t}
	}
	find := func(b *hclsyntax.Body, name string) hclsyntax.Expression {
		if b == nil || b.Attributes[name] == nil {
			return nil
		}

		return b.Attributes[name].Expr
	}

	site := bound{"the deadline of the prelet block", deadline}
	check(find(s.Cluster, schema.Retry.Name), "retry", 0, site)
	hardware := site
	for _, i := range s.Stages {
		if i.Spec.Phase != schema.Gather {
			continue
		}
		stage := check(i.Timeout, "timeout", i.Spec.Timeout, site)
		check(find(i.Body, "wait"), "wait", 0, stage)
		for _, b := range i.Body.Blocks {
			check(find(b.Body, "timeout"), "timeout", 0, stage)
		}
		if i.Type == stages.DetectHW {
			hardware = stage
		}
	}
	for _, name := range s.DetectorNames() {
		check(find(s.Detectors[name].Body, "timeout"), "timeout", 0, hardware)
	}

	return found
}
