package evaluate

import (
	"context"
	"reflect"
	"slices"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/detectors"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/stages"
)

// Checked is the result of check: the order in which the stages of a site run, and the types of their outputs.
type Checked struct {
	site  *lang.Site
	types map[string]cty.Type // of outputs, without state, by address
	needs map[string][]string // by address: the addresses of the stages that must have ended before this one starts
	order []*lang.Instance    // dependencies first, then site order
}

// check checks everything that needs no world.
//
// Inputs: the site, and the descriptions of detectors. Result: the order, needs and output types of stages. Fails
// if the site has no stage, and with every reference that is misspelt, of the wrong phase or part of a cycle.
func check(s *lang.Site, locks detectors.Locks) (Checked, Findings) {
	c := Checked{
		site:  s,
		types: declareOutputs(s, locks),
		needs: map[string][]string{},
	}
	if len(s.Stages) == 0 {
		return c, newFindings(origin.Error(
			fault.NoSite, hcl.Range{}, "The site has no stage",
			"Write at least a stage \"write\" \"kubelet\" {}. `prelet init` writes a first site.",
		))
	}

	outputs := map[string]cty.Value{}
	for _, i := range s.Stages {
		outputs[i.Addr()] = makeUnknownOutput(i, c.types[i.Addr()])
	}
	unknownNode := cty.UnknownVal(eval.NodeType())
	blank := eval.New(context.Background(), s, nil).WithOuterLimits().With(outputs).WithNode(unknownNode)
	_ = blank.Variables() // the prepare step reports its findings
	diags := blank.References()
	c.order = blank.Order()
	for _, i := range s.Stages {
		c.needs[i.Addr()] = blank.Needs(i)
	}

	return c, newFindings(diags...)
}

// listNeeded returns stages and all that they need, the nearest first.
func (c Checked) listNeeded(stages []string) []string {
	all := slices.Clone(stages)
	for n := 0; n < len(all); n++ {
		for _, addr := range c.needs[all[n]] {
			if !slices.Contains(all, addr) {
				all = append(all, addr)
			}
		}
	}

	return all
}

// Checks is a cache for runs of the same site over many machines: the result of the check of the site, and values that
// are decoded from answers which the machines share. The zero value is ready. It is safe for concurrent use.
type Checks struct {
	mu        sync.Mutex
	last      Checked // without findings; its site is nil before the first run
	detectors map[string]*contract.Description

	configText string // of config
	config     *kubelet.Config

	shared sync.Map // see stages.Env
}

// parseConfig is kubelet.ParseConfig. Most machines of a site have the configuration of the same cluster, so it keeps
// the last one.
func (c *Checks) parseConfig(text string) (*kubelet.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.config != nil && c.configText == text {
		return c.config, nil
	}

	config, err := kubelet.ParseConfig(text)
	if err == nil {
		c.configText, c.config = text, config
	}

	return config, err
}

// check returns the result of the function check. It depends on the site and the descriptions of detectors only, so an
// earlier result counts where both are equal.
func (c *Checks) check(s *lang.Site, locks detectors.Locks) (Checked, Findings) {
	c.mu.Lock()
	last, lastDetectors := c.last, c.detectors
	c.mu.Unlock()
	described := locks.Describe()
	if last.site == s && reflect.DeepEqual(lastDetectors, described) {
		return last, Findings{}
	}

	checked, found := check(s, locks)
	if len(found.Diags) == 0 {
		c.mu.Lock()
		c.last, c.detectors = checked, described
		c.mu.Unlock()
	}

	return checked, found
}

// declareOutputs returns the types of the outputs of stages, without state, by address. They depend on the site and
// on the descriptions of its detectors.
func declareOutputs(s *lang.Site, locks detectors.Locks) map[string]cty.Type {
	d := stages.Declared{Detectors: locks.Describe()}
	out := map[string]cty.Type{}
	for _, i := range s.Stages {
		out[i.Addr()] = i.Stage.Outputs(d)
	}

	return out
}
