package reserve

import (
	"maps"
	"math/big"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
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
	known = true
	settled := func(v cty.Value) bool {
		ok := v.IsWhollyKnown() && !v.ContainsMarked()
		known = known && ok
		return ok && !v.IsNull()
	}
	at := func(origins []origin.Origin, at hcl.Range) []origin.Origin {
		if len(origins) > 0 {
			return origins
		}
		return []origin.Origin{{Kind: origin.Site, Role: origin.Value, Ref: address, Range: at}}
	}
	number := func(v schema.Value[float64]) (b bound) {
		if !settled(v.Cty) {
			return b
		}
		n, exact := v.Cty.AsBigFloat().Int64()
		if exact != big.Exact || n > maxCPUs { // the attribute's own check sees only what fits a float64
			diags = append(diags, origin.Error(fault.WrongType, v.Range, "This number cannot be true", "Write a whole number up to %d.", maxCPUs))
		}
		return bound{n, v.Range, at(v.Origins(), v.Range)}
	}

	policy := policyAttr.Of(cfg)
	r.at, r.site = policy.Range, at(policy.Origins(), policy.Range)
	if settled(policy.Cty) {
		r.policy = policy.V
	} else if policy.Null() {
		return r, false, hcl.Diagnostics{origin.Error(fault.MissingArgument, policy.Range, "policy is null", "There is no default: write one of gke, eks, aks, gdc, static, remainder.")}
	}
	r.maxPods = number(maxPodsAttr.Of(cfg))
	for _, x := range []struct {
		attr schema.Attr[map[string]*string]
		into *map[string]bound
	}{{floorAttr, &r.floor}, {capAttr, &r.cap}} {
		v := x.attr.Of(cfg)
		*x.into = map[string]bound{}
		if !settled(v.Cty) {
			continue
		}
		for name, text := range v.V {
			if text != nil {
				n, _ := parseQuantity(name, *text) // the attribute's own check has seen it
				(*x.into)[name] = bound{n, v.ItemRange(name), at(v.ItemOrigins(name), v.ItemRange(name))}
			}
		}
	}
	if b, ok := cfg.One("topology"); ok {
		r.topology, r.cores = true, number(coresAttr.Of(b))
		if v := spreadAttr.Of(b); settled(v.Cty) {
			r.spread = v.V
		}
		if c := coresAttr.Of(b); c.Null() {
			diags = append(diags, origin.Error(fault.MissingArgument, c.Range, "cores is null", "topology needs the number of cores; leave the block out to reserve an amount of cpu."))
		}
	}
	diags = append(diags, r.checkBounds()...)

	if r.policy == "" {
		return r, false, diags
	}
	for _, name := range []string{gke, eks, aks, gdc, static, remainder} {
		if b, ok := cfg.One(name); ok && name != r.policy {
			diags = append(diags, origin.Note(fault.OverrideIgnored, b.Range, "Block "+name+" is not used", "The policy is %s.", r.policy))
		}
	}
	b, written := cfg.One(r.policy)
	switch r.policy {
	case static:
		r.static = map[string]bound{}
		if !written {
			break
		}
		for name, attr := range map[string]schema.Attr[string]{cpu: staticCPU, memory: staticMemory, storage: staticStorage} {
			if v := attr.Of(b); settled(v.Cty) {
				n, _ := parseQuantity(name, v.V)
				r.static[name] = bound{n, v.Range, at(v.Origins(), v.Range)}
			}
		}
		if known && len(r.static) == 0 {
			written = false
		}
	case remainder:
		if !written {
			break
		}
		if v := remainderCPUs.Of(b); !v.Null() {
			n := number(v)
			r.cpusRemain = &n.amount
		}
		if v := remainderMemory.Of(b); settled(v.Cty) {
			n, _ := parsePercent(v.V)
			r.percent = &n
		}
	case eks:
		if written {
			e, i := number(eksENIs.Of(b)), number(eksIPs.Of(b))
			if known && (e.amount == 0) != (i.amount == 0) {
				diags = append(diags, origin.Error(fault.MissingArgument, b.Range, "enis and ips_per_eni belong together", "Write both, or neither: then max_pods counts."))
			}
			if e.amount > 0 && i.amount > 0 {
				r.eniPods = e.amount*(i.amount-1) + 2
			}
		}
		written = true
	default:
		written = true
	}
	if !written {
		what := map[string]string{static: `static { memory = "8Gi" }`, remainder: `remainder { cpus = 8 }`}[r.policy]
		diags = append(diags, origin.Error(fault.MissingArgument, policy.Range, "Policy "+r.policy+" reserves what its block says", "Write it, as %s.", what))
	}
	return r, known, diags
}

// checkBounds looks at floor, cap and topology against each other.
func (r request) checkBounds() (diags hcl.Diagnostics) {
	for _, name := range slices.Sorted(maps.Keys(r.floor)) {
		if c, ok := r.cap[name]; ok && r.floor[name].amount > c.amount {
			diags = append(diags, origin.Error(fault.WrongType, r.floor[name].at, "floor."+name+" is above cap."+name,
				"At least %s and at most %s cannot both be kept. Lower the floor, or raise the cap.", quantity(name, r.floor[name].amount), quantity(name, c.amount)))
		}
	}
	for _, x := range []struct {
		name string
		m    map[string]bound
	}{{"floor", r.floor}, {"cap", r.cap}} {
		if b, ok := x.m[cpu]; ok && r.topology {
			diags = append(diags, origin.Error(fault.WrongType, b.at, "topology and "+x.name+".cpu exclude each other",
				"With topology the kubelet reserves whole CPUs (reservedSystemCPUs) and drops every amount of cpu without a word. Remove one of them; topology.cores says how many cores."))
		}
	}
	return diags
}
