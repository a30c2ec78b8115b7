package reserve

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/schema"
)

// request is the stage's configuration in amounts.
type request struct {
	at      hcl.Range // of policy
	policy  string
	site    []origin.Origin // of policy
	maxPods bound           // amount 0: not given
	floor   map[string]bound
	cap     map[string]bound

	excludesGPUs  bool
	memoryManager *bound // nil: the site leaves it alone

	topology bool
	cores    bound
	spread   string

	static     map[string]bound
	cpusRemain *bound
	percent    *bound
	eniPods    int64 // 0: not given
}

// bound is an amount with its place.
type bound struct {
	amount  int64
	at      hcl.Range
	origins []origin.Origin
}

// read turns the configuration into a request and checks what can be checked without facts. It returns false if an
// argument that matters is unknown.
func read(cfg schema.Body) (r request, isKnown bool, diags hcl.Diagnostics) {
	policy := policyAttr.Of(cfg)
	maxPods := maxPodsAttr.Of(cfg)
	r = request{
		at:      policy.Range,
		policy:  policy.V,
		site:    policy.Origins(),
		maxPods: boundOf(maxPods, maxPods.V),
		floor:   readAmounts(floorAttr.Of(cfg)),
		cap:     readAmounts(capAttr.Of(cfg)),

		excludesGPUs: gpuMemoryAttr.Of(cfg).V == gpuMemoryExclude,
	}
	if v := memoryManagerAttr.Of(cfg); v.Set() {
		r.memoryManager = new(boundOf(v, 0))
	}
	topology, hasTopology := cfg.One("topology")
	if hasTopology {
		cores := coresAttr.Of(topology)
		r.topology = cores.Set()
		r.cores = boundOf(cores, cores.V)
		r.spread = spreadAttr.Of(topology).V
	}
	diags = r.checkBounds()
	if r.policy == "" {
		return r, false, diags
	}

	if isLiteral := len(policy.Expr.Variables()) == 0; isLiteral { // otherwise the blocks are for other machines
		diags = append(diags, noteUnused(cfg, r.policy)...)
	}
	block, isWritten := cfg.One(r.policy)
	own := cfg
	own.Blocks = nil // those of other policies do not matter
	isKnown = own.Known() && topology.Known() && block.Known()
	if isWritten {
		diags = append(diags, r.readPolicy(block)...)
	}

	examples := map[string]string{
		static:    `static { memory = "8Gi" }`,
		remainder: `remainder { cpus = 8 }`,
	}
	example, needsBlock := examples[r.policy]
	isEmpty := !isWritten || r.policy == static && isKnown && len(r.static) == 0
	if needsBlock && isEmpty {
		diags = append(diags, origin.Error(
			fault.MissingArgument, policy.Range, "Policy "+r.policy+" needs its block",
			"Write it, as %s.", example,
		))
	}

	return r, isKnown, diags
}

// boundOf returns an amount with the place and the origins of an argument.
func boundOf[T any](v schema.Value[T], amount int64) bound {
	return bound{amount, v.Range, v.Origins()}
}

// readAmounts returns quantities by resource, without nulls.
func readAmounts(v schema.Value[map[string]*string]) map[string]bound {
	out := map[string]bound{}
	for name, item := range v.Items() {
		if item.Set() {
			n, _ := parseQuantity(name, item.V) // checked
			out[name] = boundOf(item, n)
		}
	}

	return out
}

func (r *request) readPolicy(b schema.Body) hcl.Diagnostics {
	switch r.policy {
	case static:
		r.static = readStatic(b)
	case remainder:
		if v := remainderCPUs.Of(b); v.Set() {
			r.cpusRemain = new(boundOf(v, v.V))
		}
		if v := remainderMemory.Of(b); v.Set() {
			n, _ := parsePercent(v.V) // checked
			r.percent = new(boundOf(v, n))
		}
	case eks:
		enis := eksENIs.Of(b)
		ips := eksIPs.Of(b)
		if b.Known() && enis.Set() != ips.Set() {
			return hcl.Diagnostics{origin.Error(
				fault.MissingArgument, b.Range, "enis and ips_per_eni belong together",
				"Write both, or neither: then max_pods counts.",
			)}
		}
		if enis.Set() && ips.Set() {
			r.eniPods = enis.V*(ips.V-1) + 2
		}
	}

	return nil
}

func readStatic(b schema.Body) map[string]bound {
	out := map[string]bound{}
	attributes := map[string]schema.Attr[string]{
		cpu:     staticCPU,
		memory:  staticBytes,
		storage: staticStorage,
	}
	for name, attr := range attributes {
		if v := attr.Of(b); v.Set() {
			n, _ := parseQuantity(name, v.V) // checked
			out[name] = boundOf(v, n)
		}
	}

	return out
}

// noteUnused notes the blocks of other policies.
func noteUnused(cfg schema.Body, policy string) (diags hcl.Diagnostics) {
	for _, name := range policies() {
		if b, ok := cfg.One(name); ok && name != policy {
			diags = append(
				diags,
				origin.Note(fault.OverrideIgnored, b.Range, "Block "+name+" is not used",
					"The policy is %s. Write policy = %q, or remove the block.", policy, name),
			)
		}
	}

	return diags
}

// findViolated returns the bound that the sum of a resource violates. No floor is above its cap (checkBounds).
func (r *request) findViolated(resource string, sum int64) (boundName string, b bound, ok bool) {
	if b, ok = r.floor[resource]; ok && sum < b.amount {
		return "floor", b, true
	}
	b, ok = r.cap[resource]

	return "cap", b, ok && sum > b.amount
}

// checkBounds compares floor, cap and topology.
func (r *request) checkBounds() (diags hcl.Diagnostics) {
	for _, name := range slices.Sorted(maps.Keys(r.floor)) {
		floor := r.floor[name]
		limit, hasLimit := r.cap[name]
		if hasLimit && floor.amount > limit.amount {
			diags = append(diags, origin.Error(
				fault.WrongType,
				floor.at,
				"floor."+name+" is above cap."+name,
				"At least %s and at most %s contradict each other. Lower the floor, or raise the cap.",
				formatQuantity(name, floor.amount),
				formatQuantity(name, limit.amount),
			))
		}
	}

	for _, of := range []struct {
		name   string
		bounds map[string]bound
	}{
		{"floor", r.floor},
		{"cap", r.cap},
	} {
		if b, ok := of.bounds[cpu]; ok && r.topology {
			diags = append(diags, origin.Error(
				fault.WrongType,
				b.at,
				"topology and "+of.name+".cpu exclude each other",
				"With topology the kubelet reserves whole CPUs (reservedSystemCPUs) "+
					"and silently ignores every amount of cpu. Remove one of them; "+
					"topology.cores is the number of cores.",
			))
		}
	}

	return diags
}
