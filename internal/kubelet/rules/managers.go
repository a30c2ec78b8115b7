package rules

import (
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/kubelet"
)

const (
	cpuOptions      = "pkg/kubelet/cm/cpumanager/policy_options.go"
	topologyOptions = "pkg/kubelet/cm/topologymanager/policy_options.go"
)

// levels say by version how ripe each option of a policy is: from the minor version on alpha (a), beta (b) or stable.
type levels string

const (
	cpuLevels levels = `full-pcpus-only 22a 23b 33
distribute-cpus-across-numa 23a 33b
align-by-socket 25a
distribute-cpus-across-cores 31a
strict-cpu-reservation 32a 33b 35
prefer-align-cpus-by-uncorecache 32a 34b 36`
	topologyLevels levels = `prefer-closest-numa-nodes 26a 28b 32
max-allowable-numa-nodes 31b 35`
)

// at is the stage of an option in a version, a, b or "", and all options that there are.
func (ls levels) at(option string, minor int) (stage string, known bool, all []string) {
	for line := range strings.Lines(string(ls)) {
		f := strings.Fields(line)
		all = append(all, f[0])
		for _, l := range f[1:] {
			if since, _ := strconv.Atoi(l[:2]); f[0] == option && minor >= since {
				stage, known = l[2:], true
			}
		}
	}
	return stage, known, all
}

// managerRules mind the CPU, memory and topology managers together.
func managerRules() []Rule {
	return []Rule{
		{ID: "config-cpu-option", Minds: "options of the CPU manager that are unknown, not ripe, or exclude each other", Since: 23, Does: Exits, Severity: Error, Source: cpuOptions, check: func(l *look) {
			if l.text("cpuManagerPolicy") != "static" {
				return
			}
			l.options("cpuManagerPolicyOptions", "CPU Manager Policy", "CPUManagerPolicy", cpuLevels)
			l.exclusive()
		}},
		{ID: "config-topology-option", Minds: "options of the topology manager that are unknown or not ripe", Since: 26, Does: Exits, Severity: Error, Source: topologyOptions, check: func(l *look) {
			if p := l.text("topologyManagerPolicy"); p == "" || p == "none" {
				return
			}
			l.options("topologyManagerPolicyOptions", "Topology Manager Policy", "TopologyManagerPolicy", topologyLevels)
			path := []string{"topologyManagerPolicyOptions", "max-allowable-numa-nodes"}
			if v, ok := l.stringMap(path[0])[path[1]]; ok {
				if n, err := strconv.Atoi(v); err != nil {
					l.at(path, "write a number", "unable to convert policy option to integer %q: %s", path[1], err)
				} else if n < 8 {
					l.at(path, "", "the minimum value of %q should not be less than 8", path[1])
				}
			}
		}},
		{ID: "config-cpu-option-unused", Minds: "options of the CPU manager without its static policy", Since: 22, Does: Exits, Severity: Error, Source: "pkg/kubelet/cm/cpumanager/policy_none.go", check: func(l *look) {
			if p := l.text("cpuManagerPolicy"); p == "" || p == "none" {
				for _, name := range sorted(l.stringMap("cpuManagerPolicyOptions")) {
					l.at([]string{"cpuManagerPolicyOptions", name}, "set cpuManagerPolicy: static, or take them out", "new none policy error: None policy: received unsupported options=map[%s", name)
				}
			}
		}},
		{ID: "config-topology-unused", Minds: "a topology policy with neither a CPU nor a memory manager to give hints", Does: Swallows, Severity: Note, Source: "pkg/kubelet/cm/topologymanager", check: func(l *look) {
			cpu, memory := l.text("cpuManagerPolicy"), l.text("memoryManagerPolicy")
			if p := l.text("topologyManagerPolicy"); slices.Contains([]string{"best-effort", "restricted", "single-numa-node"}, p) && cpu != "static" && memory != "Static" {
				l.field("topologyManagerPolicy", "cpuManagerPolicy: static lets it align CPUs, memoryManagerPolicy: Static memory", "%s aligns only devices, because neither the CPU manager nor the memory manager gives it hints", p)
			}
		}},
		{ID: "config-topology-align-by-socket", Minds: "`align-by-socket` with `single-numa-node`", Since: 25, Does: Exits, Severity: Error, Source: cpuOptions + ", ValidateStaticPolicyOptions", check: func(l *look) {
			if l.text("cpuManagerPolicy") == "static" && l.text("topologyManagerPolicy") == "single-numa-node" && l.has("cpuManagerPolicyOptions", "align-by-socket", "true") {
				l.at([]string{"cpuManagerPolicyOptions", "align-by-socket"}, "use another topologyManagerPolicy, or take it out", "Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option")
			}
		}},
		{ID: "config-pods-per-core", Minds: "`podsPerCore` that keeps `maxPods` from being reached", Does: Swallows, Severity: Warning, Source: "pkg/kubelet/kubelet_node_status.go, setNodeStatusMachineInfo", check: func(l *look) {
			per, ok := l.number("podsPerCore")
			if !ok || per <= 0 || l.Machine == nil || len(l.Machine.CPUs) == 0 {
				return
			}
			pods, set := l.number("maxPods")
			if !set || pods == 0 && l.zeroIsUnset("maxPods") {
				pods = kubelet.DefaultMaxPods
			}
			if most := per * int64(len(l.Machine.CPUs)); most < pods {
				l.field("podsPerCore", "raise it, or lower maxPods", "%d pods for each of the %d CPUs are %d: maxPods %d is not reached, and the kubelet does not say so", per, len(l.Machine.CPUs), most, pods)
			}
		}},
	}
}

// has says whether a member of an object of texts is one text.
func (l *look) has(object, name, text string) bool {
	v, _ := l.entry(object, name)
	return v == text
}

// options minds names, ripeness and values of a policy's options.
func (l *look) options(field, what, gate string, ls levels) {
	m := l.stringMap(field)
	for _, name := range sorted(m) {
		path := []string{field, name}
		stage, ok, all := ls.at(name, l.minor)
		switch {
		case !ok:
			l.at(path, choose(name, all), "unknown %s option: %q", what, name)
			continue
		case stage == "a" && !l.gate(gate+"AlphaOptions"):
			l.at(path, "set the feature gate "+gate+"AlphaOptions", "%s Alpha-level Options not enabled, but option %q provided", what, name)
		case stage == "b" && !l.gate(gate+"BetaOptions"):
			l.at(path, "set the feature gate "+gate+"BetaOptions", "%s Beta-level Options not enabled, but option %q provided", what, name)
		}
		if name == "max-allowable-numa-nodes" {
			continue
		}
		if _, err := strconv.ParseBool(m[name]); err != nil {
			l.at(path, `write "true" or "false"`, "bad value for option %q: %s", name, err)
		}
	}
}

// exclusive minds options of the static policy that exclude each other.
func (l *look) exclusive() {
	on := func(name string) bool {
		text, _ := l.entry("cpuManagerPolicyOptions", name)
		b, _ := strconv.ParseBool(text)
		return b
	}
	for _, pair := range [][2]string{
		{"full-pcpus-only", "distribute-cpus-across-cores"},
		{"distribute-cpus-across-numa", "distribute-cpus-across-cores"},
		{"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"},
		{"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"},
	} {
		l.fresh()
		if l.text("cpuManagerPolicy") == "static" && on(pair[0]) && on(pair[1]) {
			l.at([]string{"cpuManagerPolicyOptions", pair[0]}, "keep one of the two", "static policy options %s and %s can not be used at the same time", pair[0], pair[1])
		}
	}
}
