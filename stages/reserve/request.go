package reserve

import (
	"maps"
	"math/big"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/schema"
)

// request is what the site asks for, in amounts.
type request struct {
	at      hcl.Range // of policy
	policy  string
	site    []origin.Origin // of policy
	maxPods bound           // amount 0: not given
	floor   map[string]bound
	cap     map[string]bound

	topology bool
	cores    bound
	spread   string

	static     map[string]bound
	cpusRemain *int64
	percent    *int64
	eniPods    int64 // 0: not given
}

// bound is an amount with its place.
type bound struct {
	amount  int64
	at      hcl.Range
	origins []origin.Origin
}

// read turns the configuration into a request. It finds what can be found without facts. Known is false where
// something that matters has no value yet.
func read(cfg schema.Body, address string) (r request, known bool, diags hcl.Diagnostics) {
	policy := policyAttr.Of(cfg)
	d := reader{address: address, known: true}
	r.at, r.site = policy.Range, d.origins(policy.Origins(), policy.Range)
	if d.has(policy.Cty) {
		r.policy = policy.V
	} else if policy.Null() {
		return r, false, hcl.Diagnostics{origin.Error(fault.MissingArgument, policy.Range, "policy is null",
			"There is no default: write one of gke, eks, aks, gdc, static, remainder.")}
	}
	r.maxPods = d.number(maxPodsAttr.Of(cfg))
	r.floor, r.cap = d.amounts(floorAttr.Of(cfg)), d.amounts(capAttr.Of(cfg))
	if b, ok := cfg.One("topology"); ok {
		r.topology = true
		r.cores, r.spread = d.topology(b)
	}
	d.diags = append(d.diags, r.checkBounds()...)
	if r.policy == "" {
		return r, false, d.diags
	}

	if isLiteral(policy.Expr) { // else it is by the machine, and the blocks are for others
		d.noteUnused(cfg, r.policy)
	}
	b, written := cfg.One(r.policy)
	switch {
	case !written:
	case r.policy == static:
		r.static = d.static(b)
	case r.policy == remainder:
		r.cpusRemain, r.percent = d.remainder(b)
	case r.policy == eks:
		r.eniPods = d.eniPods(b)
	}
	nothing := !written || r.policy == static && d.known && len(r.static) == 0
	if example := examples[r.policy]; nothing && example != "" {
		d.diags = append(d.diags, origin.Error(fault.MissingArgument, policy.Range,
			"Policy "+r.policy+" reserves what its block says", "Write it, as %s.", example))
	}
	return r, d.known, d.diags
}

// examples are blocks of the policies that reserve nothing without one.
var examples = map[string]string{static: `static { memory = "8Gi" }`, remainder: `remainder { cpus = 8 }`}

// reader reads the arguments of one stage, and collects what is wrong with them.
type reader struct {
	address string // of the stage
	known   bool   // all that were read have values
	diags   hcl.Diagnostics
}

// has says whether an argument has a value that is known and not null. One that has none yet makes the request unknown.
func (d *reader) has(v cty.Value) bool {
	settled := v.IsWhollyKnown() && !v.ContainsMarked()
	d.known = d.known && settled
	return settled && !v.IsNull()
}

// origins are those of a value, or the stage for one that has none.
func (d *reader) origins(of []origin.Origin, at hcl.Range) []origin.Origin {
	if len(of) > 0 {
		return of
	}
	return []origin.Origin{{Kind: origin.Site, Role: origin.Value, Ref: d.address, Range: at}}
}

// number is a whole number; nothing where the argument has no value.
func (d *reader) number(v schema.Value[float64]) bound {
	if !d.has(v.Cty) {
		return bound{}
	}
	n, exact := v.Cty.AsBigFloat().Int64()
	if exact != big.Exact || n > maxCPUs { // the attribute's own check sees only what fits a float64
		d.diags = append(d.diags, origin.Error(fault.WrongType, v.Range, "This number cannot be true",
			"Write a whole number up to %d.", maxCPUs))
	}
	return bound{n, v.Range, d.origins(v.Origins(), v.Range)}
}

// amounts are quantities by resource, which the attribute's own check has seen.
func (d *reader) amounts(v schema.Value[map[string]*string]) map[string]bound {
	out := map[string]bound{}
	if !d.has(v.Cty) {
		return out
	}
	for name, text := range v.V {
		if text != nil {
			n, _ := parseQuantity(name, *text)
			out[name] = bound{n, v.ItemRange(name), d.origins(v.ItemOrigins(name), v.ItemRange(name))}
		}
	}
	return out
}

func (d *reader) topology(b schema.Body) (cores bound, spread string) {
	c := coresAttr.Of(b)
	cores = d.number(c)
	if v := spreadAttr.Of(b); d.has(v.Cty) {
		spread = v.V
	}
	if c.Null() {
		d.diags = append(d.diags, origin.Error(fault.MissingArgument, c.Range, "cores is null",
			"topology needs the number of cores; leave the block out to reserve an amount of cpu."))
	}
	return cores, spread
}

// isLiteral reports whether an expression is a text that depends on nothing.
func isLiteral(e hclsyntax.Expression) bool { return e != nil && len(e.Variables()) == 0 }

// noteUnused names the blocks of other policies.
func (d *reader) noteUnused(cfg schema.Body, policy string) {
	for _, name := range []string{gke, eks, aks, gdc, static, remainder} {
		if b, ok := cfg.One(name); ok && name != policy {
			d.diags = append(d.diags, origin.Note(fault.OverrideIgnored, b.Range, "Block "+name+" is not used",
				"The policy is %s.", policy))
		}
	}
}

// static is what the block of policy static reserves, by resource.
func (d *reader) static(b schema.Body) map[string]bound {
	out := map[string]bound{}
	for name, attr := range map[string]schema.Attr[string]{cpu: staticCPU, memory: staticMemory, storage: staticStorage} {
		if v := attr.Of(b); d.has(v.Cty) {
			n, _ := parseQuantity(name, v.V)
			out[name] = bound{n, v.Range, d.origins(v.Origins(), v.Range)}
		}
	}
	return out
}

// remainder is what is left for pods: CPUs and a percentage of memory; nil: not given.
func (d *reader) remainder(b schema.Body) (cpus, percent *int64) {
	if v := remainderCPUs.Of(b); !v.Null() {
		n := d.number(v).amount
		cpus = &n
	}
	if v := remainderMemory.Of(b); d.has(v.Cty) {
		n, _ := parsePercent(v.V)
		percent = &n
	}
	return cpus, percent
}

// eniPods is how many pods the network interfaces take; 0: not given.
func (d *reader) eniPods(b schema.Body) int64 {
	enis, ips := d.number(eksENIs.Of(b)), d.number(eksIPs.Of(b))
	if d.known && (enis.amount == 0) != (ips.amount == 0) {
		d.diags = append(d.diags, origin.Error(fault.MissingArgument, b.Range, "enis and ips_per_eni belong together",
			"Write both, or neither: then max_pods counts."))
	}
	if enis.amount > 0 && ips.amount > 0 {
		return enis.amount*(ips.amount-1) + 2
	}
	return 0
}

// checkBounds looks at floor, cap and topology against each other.
func (r request) checkBounds() (diags hcl.Diagnostics) {
	for _, name := range slices.Sorted(maps.Keys(r.floor)) {
		if c, ok := r.cap[name]; ok && r.floor[name].amount > c.amount {
			diags = append(diags, origin.Error(fault.WrongType, r.floor[name].at, "floor."+name+" is above cap."+name,
				"At least %s and at most %s cannot both be kept. Lower the floor, or raise the cap.",
				quantity(name, r.floor[name].amount), quantity(name, c.amount)))
		}
	}
	for _, x := range []struct {
		name string
		m    map[string]bound
	}{{"floor", r.floor}, {"cap", r.cap}} {
		if b, ok := x.m[cpu]; ok && r.topology {
			diags = append(diags, origin.Error(fault.WrongType, b.at, "topology and "+x.name+".cpu exclude each other",
				"With topology the kubelet reserves whole CPUs (reservedSystemCPUs) and drops every amount of cpu without a word. "+
					"Remove one of them; topology.cores says how many cores."))
		}
	}
	return diags
}
