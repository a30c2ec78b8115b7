package reserve

import (
	"fmt"
	"strings"
)

type machine struct {
	cpus int64 // online threads
	// memory is in bytes, rounded down to 64 MiB, and results are rounded down to 1m and 1 MiB: a kernel that keeps a
	// page more for itself must not change the plan of a fleet.
	memory int64
	pods   int64
}

// amounts has the kubeReserved and systemReserved of one resource.
type amounts struct{ kube, system int64 }

func (a amounts) sum() int64 { return a.kube + a.system }

// share is the decision about one resource.
type share struct {
	resource string
	amounts
	hasSystem  bool     // systemReserved is set too; otherwise all is kubeReserved
	isBase     bool     // neither the policy nor a bound decides: the amounts are those of the base
	isComputed bool     // by a formula, not written by the site
	steps      []string // the arithmetic, in words
	site       bound    // the bound in the site; zero for a formula
}

// formula is a policy that computes its shares from the machine.
type formula struct {
	cpu      func(cpus int64) (millis int64, steps []string)
	memory   func(m machine) (bytes int64, steps []string)
	storage  bool // 1Gi of ephemeral-storage
	eviction map[string]string
}

func formulas() map[string]formula {
	return map[string]formula{
		gke: {
			cpu:      gkeCPU,
			memory:   gkeMemory,
			eviction: map[string]string{"memory.available": "100Mi"},
		},
		eks: {
			cpu:     gkeCPU,
			memory:  eksMemory,
			storage: true,
			eviction: map[string]string{
				"memory.available":  "100Mi",
				"nodefs.available":  "10%",
				"nodefs.inodesFree": "5%",
			},
		},
		aks: {
			cpu:      aksCPU,
			memory:   aksMemory,
			eviction: map[string]string{"memory.available": "100Mi"},
		},
		gdc: {
			cpu:    gdcCPU,
			memory: gdcMemory,
		},
	}
}

// computeShares returns the decisions of the policy, and its eviction thresholds. Other resources are left to the base.
func (r request) computeShares(m machine) (out []share, eviction map[string]string) {
	switch r.policy {
	case static:
		return r.staticShares(), nil
	case remainder:
		return r.remainderShares(m), nil
	}

	f := formulas()[r.policy]
	add := func(resource string, n int64, steps []string) {
		out = append(out, share{
			resource:   resource,
			amounts:    amounts{kube: n},
			isComputed: true,
			steps:      steps,
		})
	}

	millis, steps := f.cpu(m.cpus)
	add(cpu, millis, steps)
	bytes, steps := f.memory(m)
	add(memory, bytes, steps)
	if f.storage {
		add(storage, gib, []string{"ephemeral-storage always: 1Gi"})
	}

	return out, f.eviction
}

func (r request) staticShares() (out []share) {
	for _, name := range resources() {
		if b, ok := r.static[name]; ok {
			step := fmt.Sprintf("%s as written: %s", name, formatQuantity(name, b.amount))
			out = append(out, share{
				resource: name,
				amounts:  amounts{kube: b.amount},
				steps:    []string{step},
				site:     b,
			})
		}
	}

	return out
}

func (r request) remainderShares(m machine) (out []share) {
	add := func(resource string, site bound, half int64, step string, args ...any) {
		out = append(
			out,
			share{
				resource:  resource,
				amounts:   amounts{half, half},
				hasSystem: true,
				steps:     []string{fmt.Sprintf(step+": "+formatQuantity(resource, half), args...)},
				site:      site,
			},
		)
	}

	// Half of the CPUs that do not remain for pods; an odd number gives halves like 1500m.
	// Source: init-k8s-node.py, resources.cpuRemained.
	if r.cpusRemain != nil && r.cpusRemain.amount < m.cpus {
		left := m.cpus - r.cpusRemain.amount
		add(cpu, *r.cpusRemain, left*1000/2, "%d CPUs − %d that remain for pods: %d, half of it for each",
			m.cpus, r.cpusRemain.amount, left)
	}
	// Half of a percentage of the whole GiB, rounded down to a whole GiB at each step.
	// Source: init-k8s-node.py, resources.memoryReserved.
	if r.percent != nil {
		whole := m.memory / gib
		part := whole * r.percent.amount / 100
		add(memory, *r.percent, part/2*gib, "%d%% of %dGi: %dGi, half of it for each, in whole Gi",
			r.percent.amount, whole, part)
	}

	return out
}

// tier is one step of a progressive rate; upTo 0 has no end.
type tier struct {
	upTo int64
	rate int64
}

// span is the part of an amount with one rate.
type span struct{ from, to, rate int64 }

func (s span) size() int64 {
	return s.to - s.from
}

// splitIntoSpans splits an amount where the rate changes.
func splitIntoSpans(amount int64, tiers []tier) (out []span) {
	from := int64(0)
	for _, t := range tiers {
		to := amount
		if t.upTo != 0 {
			to = min(amount, t.upTo)
		}
		if to <= from {
			break
		}
		out = append(out, span{from, to, t.rate})
		from = to
	}

	return out
}

// gkeCPU is 6% of core 1, 1% of core 2, 0.5% of cores 3–4, 0.25% of those above, rounded down to 1m.
// Source: Google Cloud documentation, "Plan GKE Standard node sizes", CPU reservations; EKS uses the same
// (amazon-eks-ami, nodeadm/internal/kubelet/config.go, getCPUMillicoresToReserve).
func gkeCPU(cpus int64) (millis int64, steps []string) {
	tiers := []tier{{1, 600}, {2, 100}, {4, 50}, {0, 25}}

	return cpuTiers(cpus, tiers, 100, "% of")
}

// aksCPU is AKS' table: 60m for 1 core, 100m for 2, 140m for 4, 180m for 8, 260m for 16, 420m for 32, 740m for 64.
// Between its rows, and above the last one, the rate is constant: 40m for core 2, 20m for cores 3–4, 10m for each
// above. Source: azure-aks-docs, "Node resource reservations", AKS 1.29 and later.
func aksCPU(cpus int64) (millis int64, steps []string) {
	tiers := []tier{{1, 600}, {2, 400}, {4, 200}, {0, 100}}

	return cpuTiers(cpus, tiers, 10, "m for")
}

// cpuTiers adds up rates per core in tenths of a millicore, since a quarter of a percent is 2.5m. The arithmetic has
// them divided by scale, with a unit.
func cpuTiers(cpus int64, tiers []tier, scale int64, unit string) (millis int64, steps []string) {
	tenths := int64(0)
	for _, s := range splitIntoSpans(cpus, tiers) {
		part := s.size() * s.rate
		which := fmt.Sprintf("each of cores %d to %d", s.from+1, s.to)
		if s.size() == 1 {
			which = fmt.Sprintf("core %d", s.to)
		}
		steps = append(steps, fmt.Sprintf("%s%s %s: %sm", decimal(s.rate, scale), unit, which, decimal(part, 10)))
		tenths += part
	}
	millis = tenths / 10

	return millis, appendTotal(steps, cpu, millis)
}

// gkeMemory is 255 MiB below 1 GiB; else 25% of the first 4 GiB, 20% of the next 4, 10% of the next 8, 6% of the next
// 112, 2% above 128 GiB, rounded down to 1 MiB. Source: Google Cloud documentation, "Plan GKE Standard node sizes",
// memory reservations.
func gkeMemory(m machine) (reserved int64, steps []string) {
	if m.memory < gib {
		return 255 * mib, []string{"less than 1Gi of memory: 255Mi"}
	}

	tiers := []tier{
		{4 * gib, 25},
		{8 * gib, 20},
		{16 * gib, 10},
		{128 * gib, 6},
		{0, 2},
	}
	hundredths := int64(0) // of a byte
	for _, s := range splitIntoSpans(m.memory, tiers) {
		part := s.size() * s.rate

		which := "the next"
		if s.from == 0 {
			which = "the first"
		}
		text := decimal(part/mib, 100) + "Mi"
		if part%(100*mib) == 0 {
			text = formatQuantity(memory, part/100)
		}
		steps = append(
			steps,
			fmt.Sprintf(
				"%d%% of %s %s: %s",
				s.rate,
				which,
				formatQuantity(memory, s.size()),
				text,
			),
		)
		hundredths += part
	}
	reserved = roundToMiB(hundredths / 100)

	return reserved, appendTotal(steps, memory, reserved)
}

// eksMemory is 11 MiB for each pod and 255 MiB, for any size of memory: an unbounded number of pods takes nearly all of
// it. Source: amazon-eks-ami, nodeadm/internal/kubelet/config.go, getMemoryMebibytesToReserve.
func eksMemory(m machine) (reserved int64, steps []string) {
	reserved = (11*m.pods + 255) * mib

	return reserved, []string{
		fmt.Sprintf("11Mi × %d pods + 255Mi: %s", m.pods, formatQuantity(memory, reserved)),
	}
}

// aksMemory is the lesser of 20 MB for each pod and 50 MB, and 25% of the memory. Their MB are MiB: nodes of 110 pods
// run with --kube-reserved=memory=2250Mi. Source: azure-aks-docs, "Node resource reservations", AKS 1.29 and later.
func aksMemory(m machine) (reserved int64, steps []string) {
	byPods := (20*m.pods + 50) * mib
	quarter := roundToMiB(m.memory / 4)
	reserved = min(byPods, quarter)

	return reserved, []string{
		fmt.Sprintf("20Mi × %d pods + 50Mi: %s", m.pods, formatQuantity(memory, byPods)),
		fmt.Sprintf("25%% of %s: %s", formatQuantity(memory, m.memory), formatQuantity(memory, quarter)),
		"the lesser one: " + formatQuantity(memory, reserved),
	}
}

// gdcCPU is 80m and 1% of the CPUs. Source: Google Distributed Cloud documentation, node allocatable resources.
func gdcCPU(cpus int64) (millis int64, steps []string) {
	millis = 80 + 10*cpus

	return millis, []string{fmt.Sprintf("80m + 1%% of %d CPUs: %s", cpus, formatQuantity(cpu, millis))}
}

// gdcMemory is 330 MiB and 5% of the memory, rounded down to 1 MiB. Source: as gdcCPU.
func gdcMemory(m machine) (reserved int64, steps []string) {
	reserved = roundToMiB(330*mib + m.memory*5/100)

	return reserved, []string{
		fmt.Sprintf("330Mi + 5%% of %s: %s", formatQuantity(memory, m.memory), formatQuantity(memory, reserved)),
	}
}

func roundToMiB(bytes int64) int64 {
	return bytes / mib * mib
}

// appendTotal adds the result to a sum of several steps.
func appendTotal(steps []string, resource string, n int64) []string {
	if len(steps) < 2 {
		return steps
	}

	return append(steps, "together: "+formatQuantity(resource, n))
}

// decimal formats n/scale without trailing zeros; scale is 10 or 100.
func decimal(n, scale int64) string {
	whole := n / scale
	rest := n % scale
	if rest == 0 {
		return fmt.Sprint(whole)
	}
	digits := fmt.Sprintf("%0*d", len(fmt.Sprint(scale))-1, rest)

	return fmt.Sprintf("%d.%s", whole, strings.TrimRight(digits, "0"))
}
