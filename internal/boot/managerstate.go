package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// observeOutdated asks for the states of managers that are on. A kubelet does not start with the state of a machine that
// had other memory or other CPUs, and a reboot may bring either: the firmware and the kernel keep a little more or less
// for themselves (kubernetes#131253), a DIMM or a CPU is gone. Such a state goes in the commit; the kubelet makes a new one.
//
// What is not known says nothing: facts that could not be read, and a recording that is older than the question.
func (o *Observed) observeOutdated(
	ctx context.Context, tape *world.Tape, n node.Node, aside *Aside, facts *world.Facts,
) {
	for _, m := range listManagerStates() {
		isOff := m.readPolicy(n) == m.byDefault
		if isOff || aside != nil && slices.Contains(aside.Files, m.path) {
			continue
		}

		at := slices.IndexFunc(o.states, func(s observedFile) bool { return s.file.Path == m.path })
		var s observedFile
		if at >= 0 {
			s = o.states[at]
		} else {
			f := node.File{Path: m.path, Kind: node.Missing, Purpose: "state"}
			s = observeFile(ctx, tape, f, world.TargetReq{Path: m.path})
		}
		if s.why != "" || s.err != nil || !s.is.Exists || s.is.Text == "" {
			continue
		}

		if facts == nil {
			f, _, err := world.FactsOf.Ask(ctx, tape, world.FactsReq{})
			if err != nil {
				return
			}
			facts = &f
		}
		if s.why = m.compare(n, decodeState(s.is.Text), *facts); s.why == "" {
			continue
		}
		s.why += ", and the kubelet refuses to start with it"
		s.isOutdated = true
		if at >= 0 {
			o.states[at] = s
		} else {
			o.states = append(o.states, s)
		}
	}
}

// managerStateDoc is what a state file holds, as far as the kubelet compares it with the machine
// (pkg/kubelet/cm/cpumanager/state and memorymanager/state, checkpoint.go).
type managerStateDoc struct {
	PolicyName string `json:"policyName"`

	DefaultCPUs string `json:"defaultCpuSet"`
	Entries     any    `json:"entries"`
	PodEntries  any    `json:"podEntries"`

	Machine map[string]struct {
		Memory map[string]struct {
			Total uint64 `json:"total"`
		} `json:"memoryMap"`
	} `json:"machineState"`

	Data string `json:"data"` // since 1.37 the same once more, and what counts
}

func decodeState(text string) (doc managerStateDoc) {
	if json.Unmarshal([]byte(text), &doc) != nil {
		return managerStateDoc{}
	}
	if doc.Data != "" {
		return decodeState(doc.Data)
	}

	return doc
}

// compare returns how a state does not fit the machine; "" where it fits, or where that is not known.
func (m managerState) compare(n node.Node, doc managerStateDoc, f world.Facts) string {
	switch {
	case doc.PolicyName != m.readPolicy(n):
		return ""
	case m.policy == "memoryManagerPolicy":
		return compareMemory(doc, f)
	}

	return compareCPUs(doc, f, n)
}

// compareMemory is areMachineStatesEqual of pkg/kubelet/cm/memorymanager/policy_static.go, for what the machine brings:
// the NUMA nodes, the memory of each, and its huge pages.
func compareMemory(doc managerStateDoc, f world.Facts) string {
	if len(doc.Machine) == 0 || strings.Contains(f.Evidence["numa"], "meminfo") { // a kernel without NUMA tells no node's size
		return ""
	}

	here := map[string]world.NUMANode{}
	for _, n := range f.NUMA {
		here[strconv.Itoa(n.ID)] = n
	}
	if was, is := sortKeys(doc.Machine), sortKeys(here); !slices.Equal(was, is) {
		return fmt.Sprintf("it is of the NUMA nodes %s, and this boot has %s", strings.Join(was, ", "), strings.Join(is, ", "))
	}

	for _, id := range sortKeys(here) {
		was, is := doc.Machine[id].Memory, here[id]
		if is.MemoryBytes == nil {
			continue
		}
		sizes := map[string]uint64{"memory": uint64(*is.MemoryBytes)}
		for size, pages := range is.HugePages {
			bytes, ok := parseBinary(size)
			if !ok {
				return ""
			}
			sizes["hugepages-"+size] = uint64(pages) * bytes
		}
		for _, name := range slices.Sorted(maps.Keys(sizes)) {
			if was[name].Total != sizes[name] {
				return fmt.Sprintf("NUMA node %s had %d bytes of %s when it was made, and has %d in this boot",
					id, was[name].Total, name, sizes[name])
			}
		}
	}

	return ""
}

// parseBinary reads a size as Kubernetes writes it: 64Ki, 2Mi, 1Gi.
func parseBinary(size string) (uint64, bool) {
	for i, unit := range []string{"Ki", "Mi", "Gi"} {
		if text, ok := strings.CutSuffix(size, unit); ok {
			n, err := strconv.ParseUint(text, 10, 32)
			return n << (10 * (i + 1)), err == nil
		}
	}

	return 0, false
}

// compareCPUs is validateState of pkg/kubelet/cm/cpumanager/policy_static.go: the CPUs of the state, those of containers
// included, are those that are online, without the reserved ones where strict-cpu-reservation is on.
func compareCPUs(doc managerStateDoc, f world.Facts, n node.Node) string {
	free, err := kubelet.ParseCPUSet(doc.DefaultCPUs)
	if err != nil || free.IsEmpty() || len(f.CPU.Cores) == 0 {
		return ""
	}
	all := free
	for _, text := range append(listTexts(doc.Entries), listTexts(doc.PodEntries)...) {
		if set, err := kubelet.ParseCPUSet(text); err == nil {
			all = all.Union(set)
		}
	}
	var online cpuset.CPUSet
	for _, core := range f.CPU.Cores {
		online = online.Union(cpuset.New(core.CPUs...))
	}

	if options, _ := n.Config["cpuManagerPolicyOptions"].(map[string]any); fmt.Sprint(options["strict-cpu-reservation"]) == "true" {
		text, _ := n.Config["reservedSystemCPUs"].(string)
		reserved, err := kubelet.ParseCPUSet(text)
		if err != nil || text == "" { // how many CPUs that is, is the kubelet's reckoning
			if all.IsSubsetOf(online) {
				return ""
			}
		}
		online = online.Difference(reserved)
	}
	if all.Equals(online) {
		return ""
	}

	return fmt.Sprintf("it is of CPUs %s, and this boot has %s", all, online)
}

// listTexts returns the texts in a decoded document.
func listTexts(v any) (out []string) {
	switch v := v.(type) {
	case string:
		out = append(out, v)
	case map[string]any:
		for _, k := range sortKeys(v) {
			out = append(out, listTexts(v[k])...)
		}
	}

	return out
}
