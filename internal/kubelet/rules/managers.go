package rules

import (
	"slices"
	"strconv"
	"strings"
)

const (
	cpuSource      = "pkg/kubelet/cm/cpumanager/policy_options.go"
	topologySource = "pkg/kubelet/cm/topologymanager/policy_options.go"
	maxNUMANodes   = "max-allowable-numa-nodes"
)

// policyOption is an option of a policy: the minor version that added it, and those that made it beta and stable; 0:
// none yet.
type policyOption struct {
	name                string
	since, beta, stable int
}

var cpuOptions = []policyOption{
	{"full-pcpus-only", 22, 23, 33},
	{"distribute-cpus-across-numa", 23, 33, 0},
	{"align-by-socket", 25, 0, 0},
	{"distribute-cpus-across-cores", 31, 0, 0},
	{"strict-cpu-reservation", 32, 33, 35},
	{"prefer-align-cpus-by-uncorecache", 32, 34, 36},
}

var topologyOptions = []policyOption{
	{"prefer-closest-numa-nodes", 26, 28, 32},
	{maxNUMANodes, 31, 31, 35},
}

// managerRules returns the rules about the CPU, memory and topology managers.
func managerRules() []Rule {
	return []Rule{
		lists(exits("config-cpu-option", 23,
			"options of the CPU manager that are unknown, not enabled, or exclude each other",
			cpuSource,
			at("cpuManagerPolicyOptions.*",
				func(v value) bool {
					return v.isStaticCPU() && v.isBadOption("CPU Manager", cpuOptions)
				},
				"", ""),
			excludes("full-pcpus-only", "distribute-cpus-across-cores"),
			excludes("distribute-cpus-across-numa", "distribute-cpus-across-cores"),
			excludes("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"),
			excludes("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"))),

		lists(exits("config-topology-option", 26, "options of the topology manager that are unknown or not enabled",
			topologySource,
			at("topologyManagerPolicyOptions.*", func(v value) bool {
				return v.alignsTopology() && v.isBadOption("Topology Manager", topologyOptions)
			}, "", ""),
			at("topologyManagerPolicyOptions."+maxNUMANodes, isBadNUMALimit, "", ""))),

		exits("config-cpu-option-unused", 22, "options of the CPU manager without its static policy",
			"pkg/kubelet/cm/cpumanager/policy_none.go",
			at("cpuManagerPolicyOptions.*", func(v value) bool { return v.textOf("cpuManagerPolicy") == "none" },
				"set cpuManagerPolicy: static, or remove them",
				"new none policy error: None policy: received unsupported options=map[{key}")),

		row(Ignores, Note, "config-topology-unused", 0,
			"a topology policy with neither a CPU nor a memory manager to give hints",
			"pkg/kubelet/cm/topologymanager",
			at("topologyManagerPolicy", alignsOnlyDevices,
				"to align CPUs set cpuManagerPolicy: static, to align memory memoryManagerPolicy: Static",
				"{value} aligns only devices, because neither the CPU manager nor the memory manager gives it hints")),

		exits("config-topology-align-by-socket", 25, "`align-by-socket` with `single-numa-node`",
			cpuSource+", ValidateStaticPolicyOptions",
			at("cpuManagerPolicyOptions.align-by-socket", func(v value) bool {
				return v.text() == "true" && v.isStaticCPU() && v.textOf("topologyManagerPolicy") == "single-numa-node"
			}, "use another topologyManagerPolicy, or remove it", "Topolgy manager single-numa-node policy is "+
				"incompatible with CPUManager align-by-socket policy option")),

		ignores("config-pods-per-core", 0, "`podsPerCore` that is too low for `maxPods`",
			"pkg/kubelet/kubelet_node_status.go, setNodeStatusMachineInfo",
			at("podsPerCore", allowsFewPods, "raise it, or lower maxPods", "")),
	}
}

func (c *checker) isStaticCPU() bool { return c.textOf("cpuManagerPolicy") == "static" }

func (c *checker) alignsTopology() bool { return c.textOf("topologyManagerPolicy") != "none" }

// excludes is a check of two options of the static CPU policy that exclude each other.
func excludes(option, other string) check {
	areOn := func(v value) bool {
		isOtherOn, _ := v.lookUp("cpuManagerPolicyOptions", other).(string)

		return v.isStaticCPU() && isOnText(v.text()) && isOnText(isOtherOn)
	}

	return at("cpuManagerPolicyOptions."+option, areOn, "keep one of the two",
		"static policy options "+option+" and "+other+" can not be used at the same time")
}

func isOnText(text string) bool {
	isOn, _ := strconv.ParseBool(text)

	return isOn
}

// isBadOption reports an option that the version does not have or enable, or that is not a boolean.
func (v value) isBadOption(manager string, options []policyOption) bool {
	var names []string
	for _, o := range options {
		names = append(names, o.name)
		if o.name != v.key() || v.minor < o.since {
			continue
		}
		stage := o.stageIn(v.minor)
		gate := strings.ReplaceAll(manager, " ", "") + "Policy" + stage + "Options"
		if stage != "" && !v.isGateOn(gate) {
			return v.because("set the feature gate "+gate,
				"%s Policy %s-level Options not enabled, but option %q provided", manager, stage, o.name)
		}
		_, err := strconv.ParseBool(v.text())

		return err != nil && o.name != maxNUMANodes &&
			v.because(`write "true" or "false"`, "bad value for option %q: %s", o.name, err)
	}

	return v.because(suggest(v.key(), names), `unknown %s Policy option: "{key}"`, manager)
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

func isBadNUMALimit(v value) bool {
	n, err := strconv.Atoi(v.text())
	switch {
	case v.raw == nil || !v.alignsTopology():
	case err != nil:
		return v.because("write a number", "unable to convert policy option to integer %q: %s", maxNUMANodes, err)
	case n < 8:
		return v.because("", "the minimum value of %q should not be less than 8", maxNUMANodes)
	}

	return false
}

func alignsOnlyDevices(v value) bool {
	aligns := slices.Contains([]string{"best-effort", "restricted", "single-numa-node"}, v.text())

	return aligns && !v.isStaticCPU() && v.textOf("memoryManagerPolicy") != "Static"
}

func allowsFewPods(v value) bool {
	perCore, _ := v.number()
	cpus := int64(len(v.Machine.CPUs))
	pods := v.positiveOf("maxPods")
	limit := perCore * cpus

	return limit > 0 && limit < pods && v.because("", "%d pods for each of the %d CPUs allow %d pods, so the kubelet "+
		"silently never reaches maxPods %d", perCore, cpus, limit, pods)
}
