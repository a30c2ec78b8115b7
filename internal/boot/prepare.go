package boot

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Checked is the result of check: in which order the stages of a site run, and which types their outputs have.
type Checked struct {
	site  *site.Site
	types map[string]cty.Type // of outputs, without state, by address
	needs map[string][]string // the addresses of the stages that must be over before one starts, by its address
	order []*site.Instance    // dependencies first, then site order
}

// check looks at everything that needs no world.
//
// Inputs: the site, and what is known of detectors. Result: the order, needs and output types of stages. Fails if the
// site has no stage, and with every reference that is misspelt, of the wrong phase or part of a cycle.
func check(s *site.Site, locks map[string]detectorLock) (Checked, Findings) {
	c := Checked{site: s, types: declareOutputs(s, locks), needs: map[string][]string{}}
	if len(s.Stages) == 0 {
		return c, Findings{Diags: hcl.Diagnostics{origin.Error(fault.NoSite, hcl.Range{}, "The site has no stage",
			"Write at least a stage \"write\" \"kubelet\" {}. `prelet init` writes a first site.")}}
	}

	outputs := map[string]cty.Value{}
	for _, i := range s.Stages {
		outputs[i.Addr()] = makeUnknownOutput(i, c.types[i.Addr()])
	}
	blank := eval.New(context.Background(), s, nil).With(outputs).WithNode(cty.UnknownVal(eval.NodeType()))
	_ = blank.Variables() // the prepare step reports its findings
	diags := blank.References()
	c.order = blank.Order()
	for _, i := range s.Stages {
		c.needs[i.Addr()] = blank.Needs(i)
	}

	return c, Findings{Diags: diags}
}

// declareOutputs returns the types of the outputs of stages, without state, by address. They depend on the site and on
// what its detectors describe.
func declareOutputs(s *site.Site, locks map[string]detectorLock) map[string]cty.Type {
	d := stages.Declared{Detectors: map[string]*contract.Description{}}
	for n, l := range locks {
		d.Detectors[n] = l.describe
	}
	out := map[string]cty.Type{}
	for _, i := range s.Stages {
		out[i.Addr()] = i.Stage.Outputs(d)
	}

	return out
}

// Settings is the result of the step settings: what the prelet block says.
type Settings struct {
	onCluster string        // last-good | fail
	maxAge    time.Duration // of an answer of the last good generation
	deadline  time.Duration // of everything that reads from outside
}

// decodeSettings is the step settings: it decodes the prelet block.
//
// Inputs: the site and a scope. Result: the settings, with defaults for what is not written. Fails with what is wrong
// in the block.
func decodeSettings(s *site.Site, e *eval.Eval) (Settings, Findings) {
	b, diags := schema.PreletBlock.Decode(s.Prelet, nil, e.Scope("prelet"))
	out := Settings{onCluster: schema.OnClusterError.Of(b).V}
	out.maxAge, _ = time.ParseDuration(schema.MaxAge.Of(b).V)
	deadline, err := time.ParseDuration(schema.Deadline.Of(b).V)
	if err != nil {
		deadline = 5 * time.Minute
	}
	out.deadline = deadline

	return out, Findings{Diags: diags, Unknown: findUnknown(b, partAccess)}
}

// Prepared is the result of prepare: what gather stages need first.
type Prepared struct {
	eval *eval.Eval // with the variables
	env  stages.Env
}

// prepare evaluates variables, the cluster block and the detector blocks.
//
// Inputs: the site, the locks of detectors, a scope. Result: the scope with the variables, and the environment of
// gather stages. Fails with an error of a variable, alone; else with what is wrong in the blocks.
func prepare(s *site.Site, locks map[string]detectorLock, e *eval.Eval) (Prepared, Findings) {
	out := Prepared{eval: e}
	found := Findings{Diags: e.Variables()}
	if found.Diags.HasErrors() {
		return out, found
	}

	if s.Cluster != nil {
		access, more := decodeAccess(s, e)
		out.env.Access, out.env.Cluster = access, s.Cluster.SrcRange
		found = found.join(more)
	}
	all, more := decodeDetectors(s, locks, e)
	out.env.Detectors = all

	return out, found.join(more)
}

// decodeAccess decodes the cluster block.
func decodeAccess(s *site.Site, e *eval.Eval) (world.Access, Findings) {
	b, diags := schema.ClusterBlock.Decode(s.Cluster, nil, e.Scope("cluster"))
	retry, _ := time.ParseDuration(schema.Retry.Of(b).V)
	a := world.Access{
		Servers: schema.Servers.Of(b).V, CACertHashes: schema.CACertHashes.Of(b).V, CAFile: schema.CAFile.Of(b).V,
		DiscoveryFile: schema.Discovery.Of(b).V, TrustToken: schema.TrustBy.Of(b).V == "token",
		ProxyURL: schema.ProxyURL.Of(b).V, RetryMillis: retry.Milliseconds(),
	}
	if t := schema.Token.Of(b); t.Expr != nil {
		// The loader has checked that it is credential("NAME"). A missing credential is an error only when the token is
		// needed: a node that has joined does not use it.
		a.Token, _ = eval.TokenName(t.Expr)
		diags = slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool {
			return origin.CodeOf(d) == fault.CredentialMissing
		})
	}

	return a, Findings{Diags: diags, Unknown: findUnknown(b.Without(schema.Token.Name), partAccess)}
}

// makeBody returns a body with one attribute, so that an expression can be decoded like a written one.
func makeBody(name string, x hclsyntax.Expression) *hclsyntax.Body {
	attribute := &hclsyntax.Attribute{Name: name, Expr: x, SrcRange: x.Range(), NameRange: x.Range()}

	return &hclsyntax.Body{Attributes: hclsyntax.Attributes{name: attribute}, SrcRange: x.Range()}
}
