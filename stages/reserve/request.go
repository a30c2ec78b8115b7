package reserve

import (
	"maps"
	"math/big"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
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

	memoryManager *bound // nil: the site leaves it alone

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

// read turns the configuration into a request and checks what can be checked without facts. It returns false if an
// argument that matters is unknown.
func read(cfg schema.Body, address string) (r request, isKnown bool, diags hcl.Diagnostics) {
	policy := policyAttr.Of(cfg)
	d := decoder{address: address, isKnown: true}

	if policy.Null() {
		d.errorf(fault.MissingArgument, policy.Range, "policy is null",
			"No default: write one of gke, eks, aks, gdc, static, remainder.")

		return r, false, d.diags
	}
	r.at = policy.Range
	r.site = d.origins(policy.Origins(), policy.Range)
	if d.hasValue(policy.Cty) {
		r.policy = policy.V
	}

	r.maxPods = d.decodeNumber(maxPodsAttr.Of(cfg))
	r.floor = d.decodeAmounts(floorAttr.Of(cfg))
	r.cap = d.decodeAmounts(capAttr.Of(cfg))
	if v := memoryManagerAttr.Of(cfg); d.hasValue(v.Cty) {
		r.memoryManager = &bound{at: v.Range, origins: d.origins(v.Origins(), v.Range)}
	}
	if b, ok := cfg.One("topology"); ok {
		r.topology = true
		r.cores, r.spread = d.decodeTopology(b)
	}
	d.checkBounds(r)

	if r.policy == "" {
		return r, false, d.diags
	}
	d.decodePolicy(cfg, &r)

	return r, d.isKnown, d.diags
}

// decoder decodes the arguments of one stage and collects errors.
type decoder struct {
	address string // of the stage
	isKnown bool   // all arguments until now are known
	diags   hcl.Diagnostics
}

func (d *decoder) errorf(
	code fault.Code,
	at hcl.Range,
	summary, detail string,
	args ...any,
) {
	d.diags = append(d.diags, origin.Error(code, at, summary, detail, args...))
}

// decodePolicy decodes the block of the policy.
func (d *decoder) decodePolicy(cfg schema.Body, r *request) {
	policy := policyAttr.Of(cfg)
	isLiteral := policy.Expr != nil && len(policy.Expr.Variables()) == 0
	if isLiteral { // otherwise the blocks are for other machines
		d.noteUnused(cfg, r.policy)
	}

	b, isWritten := cfg.One(r.policy)
	if isWritten {
		switch r.policy {
		case static:
			r.static = d.decodeStatic(b)
		case remainder:
			r.cpusRemain, r.percent = d.decodeRemainder(b)
		case eks:
			r.eniPods = d.decodeENIPods(b)
		}
	}

	examples := map[string]string{
		static:    `static { memory = "8Gi" }`,
		remainder: `remainder { cpus = 8 }`,
	}
	example, needsBlock := examples[r.policy]
	isEmpty := !isWritten || r.policy == static && d.isKnown && len(r.static) == 0
	if needsBlock && isEmpty {
		d.errorf(fault.MissingArgument, policy.Range, "Policy "+r.policy+" needs its block",
			"Write it, as %s.", example)
	}
}

// hasValue reports whether an argument is known and not null. An unknown one makes the request unknown.
func (d *decoder) hasValue(v cty.Value) bool {
	isKnown := v.IsWhollyKnown() && !v.ContainsMarked()
	d.isKnown = d.isKnown && isKnown

	return isKnown && !v.IsNull()
}

// origins returns the origins of a value, or the stage if it has none.
func (d *decoder) origins(of []origin.Origin, at hcl.Range) []origin.Origin {
	if len(of) > 0 {
		return of
	}

	return []origin.Origin{{
		Kind:  origin.Site,
		Role:  origin.Value,
		Ref:   d.address,
		Range: at,
	}}
}

// decodeNumber decodes a whole number; the zero bound if it has no value.
func (d *decoder) decodeNumber(v schema.Value[float64]) bound {
	if !d.hasValue(v.Cty) {
		return bound{}
	}

	n, accuracy := v.Cty.AsBigFloat().Int64()
	if accuracy != big.Exact || n > maxCPUs { // the attribute's own check gets a float64
		d.errorf(
			fault.WrongType,
			v.Range,
			"This number cannot be true",
			"Write a whole number up to %d.",
			maxCPUs,
		)
	}

	return bound{n, v.Range, d.origins(v.Origins(), v.Range)}
}

// decodeAmount decodes a quantity that was checked; false if it has no value.
func (d *decoder) decodeAmount(name string, v schema.Value[string]) (bound, bool) {
	if !d.hasValue(v.Cty) {
		return bound{}, false
	}
	n, _ := parseQuantity(name, v.V)

	return bound{n, v.Range, d.origins(v.Origins(), v.Range)}, true
}

// decodeAmounts decodes quantities by resource that were checked.
func (d *decoder) decodeAmounts(v schema.Value[map[string]*string]) map[string]bound {
	out := map[string]bound{}
	if !d.hasValue(v.Cty) {
		return out
	}

	for name, text := range v.V {
		if text != nil {
			n, _ := parseQuantity(name, *text)
			out[name] = bound{
				n,
				v.ItemRange(name),
				d.origins(v.ItemOrigins(name), v.ItemRange(name)),
			}
		}
	}

	return out
}

func (d *decoder) decodeTopology(b schema.Body) (cores bound, spread string) {
	c := coresAttr.Of(b)
	cores = d.decodeNumber(c)
	if c.Null() {
		d.errorf(fault.MissingArgument, c.Range, "cores is null",
			"topology needs the number of cores; leave the block out to reserve an amount of cpu.")
	}
	if v := spreadAttr.Of(b); d.hasValue(v.Cty) {
		spread = v.V
	}

	return cores, spread
}

// noteUnused notes the blocks of other policies.
func (d *decoder) noteUnused(cfg schema.Body, policy string) {
	for _, name := range policies() {
		if b, ok := cfg.One(name); ok && name != policy {
			d.diags = append(
				d.diags,
				origin.Note(fault.OverrideIgnored, b.Range, "Block "+name+" is not used",
					"The policy is %s.", policy),
			)
		}
	}
}

func (d *decoder) decodeStatic(b schema.Body) map[string]bound {
	out := map[string]bound{}
	attributes := map[string]schema.Attr[string]{
		cpu:     staticCPU,
		memory:  staticBytes,
		storage: staticStorage,
	}
	for name, attr := range attributes {
		if amount, ok := d.decodeAmount(name, attr.Of(b)); ok {
			out[name] = amount
		}
	}

	return out
}

// decodeRemainder returns the CPUs that remain for pods and the percentage of memory that is reserved; nil if
// not given.
func (d *decoder) decodeRemainder(b schema.Body) (cpus, percent *int64) {
	if v := remainderCPUs.Of(b); !v.Null() {
		n := d.decodeNumber(v).amount
		cpus = &n
	}
	if v := remainderMemory.Of(b); d.hasValue(v.Cty) {
		n, _ := parsePercent(v.V)
		percent = &n
	}

	return cpus, percent
}

// decodeENIPods returns how many pods the network interfaces take; 0 if not given.
func (d *decoder) decodeENIPods(b schema.Body) int64 {
	enis := d.decodeNumber(eksENIs.Of(b)).amount
	ips := d.decodeNumber(eksIPs.Of(b)).amount
	if d.isKnown && (enis == 0) != (ips == 0) {
		d.errorf(fault.MissingArgument, b.Range, "enis and ips_per_eni belong together",
			"Write both, or neither: then max_pods counts.")
	}
	if enis == 0 || ips == 0 {
		return 0
	}

	return enis*(ips-1) + 2
}

// checkBounds compares floor, cap and topology.
func (d *decoder) checkBounds(r request) {
	for _, name := range slices.Sorted(maps.Keys(r.floor)) {
		floor := r.floor[name]
		limit := r.cap[name]
		if _, ok := r.cap[name]; ok && floor.amount > limit.amount {
			d.errorf(
				fault.WrongType,
				floor.at,
				"floor."+name+" is above cap."+name,
				"At least %s and at most %s contradict each other. Lower the floor, or raise the cap.",
				formatQuantity(name, floor.amount),
				formatQuantity(name, limit.amount),
			)
		}
	}

	if !r.topology {
		return
	}
	refuse := func(name string, bounds map[string]bound) {
		if b, ok := bounds[cpu]; ok {
			d.errorf(
				fault.WrongType,
				b.at,
				"topology and "+name+".cpu exclude each other",
				"With topology the kubelet reserves whole CPUs (reservedSystemCPUs) "+
					"and silently ignores every amount of cpu. Remove one of them; "+
					"topology.cores is the number of cores.",
			)
		}
	}
	refuse("floor", r.floor)
	refuse("cap", r.cap)
}
