package nvidia

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/prelet/prelet/plugins/internal/devices"
	"github.com/prelet/prelet/plugins/sdk"
)

// The states of a GPU's NVLink fabric. All but failed are NVML's. A GPU is registered with the fabric by the fabric
// manager of the machine (HGX), or by the rack's (NVL72), which can take longer than the boot of this machine.
const (
	fabricNotSupported = "not-supported"
	fabricCompleted    = "completed"
	fabricInProgress   = "in-progress"
	fabricNotStarted   = "not-started"
	fabricFailed       = "failed"
)

// The summaries of a fabric's health, from best to worst.
const (
	healthy         = "healthy"
	limitedCapacity = "limited-capacity"
	unhealthy       = "unhealthy"
)

var (
	fabricState = sdk.Fact[string]{
		Name: "fabric_state",
		Doc: "The registration of the GPUs with the NVLink fabric, of the GPU that is furthest from its end: " +
			"`failed`, `not-started`, `in-progress` or `completed`; `not-supported` if no GPU has a fabric.",
	}
	fabricHealth = sdk.Fact[string]{
		Name: "fabric_health",
		Doc:  "The worst health of the GPUs' fabric: `healthy`, `limited-capacity` or `unhealthy`.",
	}
	fabricCluster = sdk.Fact[string]{
		Name: "fabric_cluster",
		Doc: "The cluster UUID of the NVLink domain, the same for all machines of a rack; " +
			"null if the fabric ends at this machine.",
	}
	fabricClique = sdk.Fact[int]{
		Name: "fabric_clique",
		Doc:  "The id of the clique. GPUs with the same cluster UUID and clique id can use each other's memory.",
	}
)

// fabric is the NVLink fabric as one GPU reports it, or all together. Empty fields are unknown.
type fabric struct {
	state   string
	health  string
	cluster string // UUID
	clique  int    // only with a cluster
}

// fabrics is the joined fabric of all GPUs.
type fabrics struct {
	fabric

	cliques int // different ones
}

// joinFabrics returns the fabric of all GPUs: the worst state and health, and the clique that they have in common.
func joinFabrics(gpus []gpu) (out fabrics) {
	states := []string{"", fabricNotSupported, fabricCompleted, fabricInProgress, fabricNotStarted, fabricFailed}
	healths := []string{"", healthy, limitedCapacity, unhealthy}
	worse := func(order []string, a, b string) string {
		return order[max(slices.Index(order, a), slices.Index(order, b), 0)]
	}

	type key struct {
		cluster string
		clique  int
	}
	cliques := map[key]bool{}
	for _, g := range gpus {
		f := g.fabric
		out.state = worse(states, out.state, f.state)
		out.health = worse(healths, out.health, f.health)
		if f.cluster != "" {
			out.cluster, out.clique = f.cluster, f.clique
			cliques[key{f.cluster, f.clique}] = true
		}
	}
	out.cliques = len(cliques)

	return out
}

// report adds the facts, a warning about faults, and the label that schedulers of NVLink domains read. Its value is
// that of GPU feature discovery: ClusterUUID.CliqueID.
func (f fabrics) report(m *sdk.Machine, unknown string) {
	const evidence = "nvml, nvmlDeviceGetGpuFabricInfoV"
	noAnswer := cmp.Or(unknown, "NVML does not report it: drivers before 550 do not")
	noHealth := cmp.Or(unknown, "NVML does not report it for these GPUs")
	m.AddFacts(
		devices.TextFact(fabricState, f.state, evidence, noAnswer),
		devices.TextFact(fabricHealth, f.health, evidence, noHealth),
	)

	switch f.state {
	case fabricFailed:
		m.Warn("a GPU could not be registered with the NVLink fabric: " +
			"see `nvidia-smi -q` (Fabric), and the log of nvidia-fabricmanager or of the rack's fabric manager")
	case fabricNotStarted, fabricInProgress:
		m.Warn("the GPUs are not registered with the NVLink fabric yet (%s)", f.state)
	}
	if f.health == unhealthy || f.health == limitedCapacity {
		m.Warn("the NVLink fabric is %s: see `nvidia-smi -q` (Fabric, Health)", f.health)
	}

	isUsable := f.state == fabricCompleted && f.cliques == 1
	if !isUsable {
		why := f.explainNoClique(noAnswer)
		m.AddFacts(fabricCluster.Unknown(why), fabricClique.Unknown(why))
		if f.cliques > 1 {
			m.Warn("%s: nvidia.com/gpu.clique is not recommended", why)
		}
		return
	}
	m.AddFacts(fabricCluster.Is(f.cluster, evidence), fabricClique.Is(f.clique, evidence))
	m.Recommend(Domain+"/gpu.clique", f.cluster+"."+strconv.Itoa(f.clique), evidence)
}

// explainNoClique returns why a GPU has no clique.
func (f fabrics) explainNoClique(noAnswer string) string {
	switch {
	case f.state == "":
		return noAnswer
	case f.state == fabricNotSupported:
		return "the GPUs have no NVLink fabric"
	case f.state != fabricCompleted:
		return "the fabric is " + f.state
	case f.cliques > 1:
		return "the GPUs are in " + strconv.Itoa(f.cliques) + " cliques"
	}

	return "the fabric ends at this machine: it has no cluster UUID"
}
