package rules

import (
	"slices"
	"strconv"

	"github.com/prelet/prelet/internal/kubelet"
)

const (
	cpuOptionsField = "cpuManagerPolicyOptions"
	cpuSource       = "pkg/kubelet/cm/cpumanager/policy_options.go"
	topologySource  = "pkg/kubelet/cm/topologymanager/policy_options.go"
)

// policyOption is an option of a policy: the minor version that added it, and those that made it beta and stable; 0:
// none yet.
type policyOption struct {
	name                string
	since, beta, stable int
}

// policyOptions are the options of one manager.
type policyOptions struct {
	field   string
	manager string // as in the kubelet's messages
	gate    string // without AlphaOptions and BetaOptions
	options []policyOption
}

var cpuOptions = policyOptions{
	field:   cpuOptionsField,
	manager: "CPU Manager Policy",
	gate:    "CPUManagerPolicy",
	options: []policyOption{
		{name: "full-pcpus-only", since: 22, beta: 23, stable: 33},
		{name: "distribute-cpus-across-numa", since: 23, beta: 33},
		{name: "align-by-socket", since: 25},
		{name: "distribute-cpus-across-cores", since: 31},
		{name: "strict-cpu-reservation", since: 32, beta: 33, stable: 35},
		{name: "prefer-align-cpus-by-uncorecache", since: 32, beta: 34, stable: 36},
	},
}

var topologyOptions = policyOptions{
	field:   "topologyManagerPolicyOptions",
	manager: "Topology Manager Policy",
	gate:    "TopologyManagerPolicy",
	options: []policyOption{
		{name: "prefer-closest-numa-nodes", since: 26, beta: 28, stable: 32},
		{name: maxNUMANodes, since: 31, beta: 31, stable: 35},
	},
}

const maxNUMANodes = "max-allowable-numa-nodes"

// exclusiveOptions are pairs of options of the static CPU policy that exclude each other.
var exclusiveOptions = [][2]string{
	{"full-pcpus-only", "distribute-cpus-across-cores"},
	{"distribute-cpus-across-numa", "distribute-cpus-across-cores"},
	{"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"},
	{"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"},
}

// managerRules returns the rules about the CPU, memory and topology managers.
func managerRules() []Rule {
	return []Rule{
		{
			ID:      "config-cpu-option",
			Lists:   true,
			Summary: "options of the CPU manager that are unknown, not enabled, or exclude each other",
			Since:   23,
			Source:  cpuSource,
			check:   checkCPUOptions,
		},
		{
			ID:      "config-topology-option",
			Lists:   true,
			Summary: "options of the topology manager that are unknown or not enabled",
			Since:   26,
			Source:  topologySource,
			check:   checkTopologyOptions,
		},
		{
			ID:      "config-cpu-option-unused",
			Summary: "options of the CPU manager without its static policy",
			Since:   22,
			Source:  "pkg/kubelet/cm/cpumanager/policy_none.go",
			check:   checkUnusedCPUOptions,
		},
		{
			ID:       "config-topology-unused",
			Summary:  "a topology policy with neither a CPU nor a memory manager to give hints",
			Effect:   Ignores,
			Severity: Note,
			Source:   "pkg/kubelet/cm/topologymanager",
			check:    checkUnusedTopology,
		},
		{
			ID:      "config-topology-align-by-socket",
			Summary: "`align-by-socket` with `single-numa-node`",
			Since:   25,
			Source:  cpuSource + ", ValidateStaticPolicyOptions",
			check:   checkAlignBySocket,
		},
		{
			ID:      "config-pods-per-core",
			Summary: "`podsPerCore` that is too low for `maxPods`",
			Effect:  Ignores,
			Source:  "pkg/kubelet/kubelet_node_status.go, setNodeStatusMachineInfo",
			check:   checkPodsPerCore,
		},
	}
}

func (c *checker) isStaticCPU() bool { return c.textAt("cpuManagerPolicy") == "static" }

func checkCPUOptions(c *checker) {
	if !c.isStaticCPU() {
		return
	}
	c.checkPolicyOptions(cpuOptions)
	for _, pair := range exclusiveOptions {
		c.startFinding()
		if c.isStaticCPU() && c.isCPUOptionOn(pair[0]) && c.isCPUOptionOn(pair[1]) {
			c.reportMember(cpuOptionsField, pair[0], "keep one of the two",
				"static policy options %s and %s can not be used at the same time", pair[0], pair[1])
		}
	}
}

func (c *checker) isCPUOptionOn(name string) bool {
	text, _ := c.memberAt(cpuOptionsField, name)
	isOn, err := strconv.ParseBool(text)

	return err == nil && isOn
}

func checkTopologyOptions(c *checker) {
	if policy := c.textAt("topologyManagerPolicy"); policy == "" || policy == "none" {
		return
	}
	c.checkPolicyOptions(topologyOptions)

	limit, isSet := c.mapAt(topologyOptions.field)[maxNUMANodes]
	if !isSet {
		return
	}
	path := []string{topologyOptions.field, maxNUMANodes}
	n, err := strconv.Atoi(limit)
	switch {
	case err != nil:
		c.reportAt(path, "write a number", "unable to convert policy option to integer %q: %s",
			maxNUMANodes, err)
	case n < 8:
		c.reportAt(path, "", "the minimum value of %q should not be less than 8", maxNUMANodes)
	}
}

// checkPolicyOptions reports options that the version does not have or enable, and values that are not booleans.
func (c *checker) checkPolicyOptions(policy policyOptions) {
	values := c.mapAt(policy.field)
	for _, name := range sortedKeys(values) {
		path := []string{policy.field, name}
		option := c.findOption(policy, name)
		if option == nil {
			c.reportAt(path, suggest(name, policy.names()), "unknown %s option: %q", policy.manager, name)
			continue
		}

		stage := option.stageIn(c.minor)
		gate := policy.gate + stage + "Options"
		if stage != "" && !c.isGateOn(gate) {
			c.reportAt(path, "set the feature gate "+gate,
				"%s %s-level Options not enabled, but option %q provided", policy.manager, stage, name)
		}
		if _, err := strconv.ParseBool(values[name]); err != nil && name != maxNUMANodes {
			c.reportAt(path, `write "true" or "false"`, "bad value for option %q: %s", name, err)
		}
	}
}

// findOption returns an option if the version has it, otherwise nil.
func (c *checker) findOption(policy policyOptions, name string) *policyOption {
	for _, option := range policy.options {
		if option.name == name && c.minor >= option.since {
			return &option
		}
	}

	return nil
}

func (p policyOptions) names() []string {
	var names []string
	for _, option := range p.options {
		names = append(names, option.name)
	}

	return names
}

// stageIn returns Alpha, Beta, or "" for a stable option.
func (o policyOption) stageIn(minor int) string {
	switch {
	case o.stable > 0 && minor >= o.stable:
		return ""
	case o.beta > 0 && minor >= o.beta:
		return "Beta"
	}

	return "Alpha"
}

func checkUnusedCPUOptions(c *checker) {
	if policy := c.textAt("cpuManagerPolicy"); policy != "" && policy != "none" {
		return
	}
	for _, name := range sortedKeys(c.mapAt(cpuOptionsField)) {
		c.reportMember(cpuOptionsField, name, "set cpuManagerPolicy: static, or remove them",
			"new none policy error: None policy: received unsupported options=map[%s", name)
	}
}

func checkUnusedTopology(c *checker) {
	policy := c.textAt("topologyManagerPolicy")
	aligns := slices.Contains([]string{"best-effort", "restricted", "single-numa-node"}, policy)
	hasHints := c.isStaticCPU() || c.textAt("memoryManagerPolicy") == "Static"
	if aligns && !hasHints {
		c.reportField("topologyManagerPolicy",
			"to align CPUs set cpuManagerPolicy: static, to align memory memoryManagerPolicy: Static",
			"%s aligns only devices, because neither the CPU manager nor the memory manager gives it hints",
			policy)
	}
}

func checkAlignBySocket(c *checker) {
	isSingleNode := c.textAt("topologyManagerPolicy") == "single-numa-node"
	align, _ := c.memberAt(cpuOptionsField, "align-by-socket")
	if isSingleNode && c.isStaticCPU() && align == "true" {
		c.reportMember(cpuOptionsField, "align-by-socket",
			"use another topologyManagerPolicy, or remove it",
			"Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option")
	}
}

func checkPodsPerCore(c *checker) {
	perCore, _ := c.numberAt("podsPerCore")
	if perCore <= 0 || c.Machine == nil || len(c.Machine.CPUs) == 0 {
		return
	}
	cpus := int64(len(c.Machine.CPUs))
	pods := c.numberOr("maxPods", kubelet.DefaultMaxPods)
	if limit := perCore * cpus; limit < pods {
		c.reportField("podsPerCore", "raise it, or lower maxPods",
			"%d pods for each of the %d CPUs allow %d pods, so the kubelet silently never reaches maxPods %d",
			perCore, cpus, limit, pods)
	}
}
