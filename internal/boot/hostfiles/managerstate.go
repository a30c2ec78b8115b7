package hostfiles

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/quantity"
	"github.com/prelet/prelet/internal/world"
)

// ConfigChange is how the kubelet's configuration changes.
type ConfigChange struct {
	// The effective configuration, with the files in place and with the planned files. It is computed at its first use:
	// most nodes have no state that depends on it.
	Old, Planned func() map[string]any
	Effective    map[string]any // the configuration of the planned kubelet
	IsPartly     bool           // files that prelet does not read may set more of it
	IsKnown      bool           // the plan writes the configuration
	IsNew        bool           // the configuration does not exist yet: it does not show the options of a state
	IsUnchanged  bool           // no managed file changes
}

// RefuseState returns why the planned kubelet would not start with a state; "" if it would, or if that is not
// known. isOutdated: the machine is the reason, and not a change of the plan.
func (c ConfigChange) RefuseState(
	m kubelet.ManagerState, is world.TargetAns, readFacts func() *world.Facts,
) (why string, isOutdated bool) {
	if is.Garbled { // whatever the policy: the kubelet reads it before it compares
		return "it is not a state that the kubelet can read", true
	}

	doc := decodeState(is.Text)
	policy := m.FindPolicy(c.Effective)
	changed := m.ListChanges(c.Old(), c.Planned())
	isPolicyKnown := !c.IsPartly || !c.IsNew && slices.Contains(changed, m.Policy)
	if doc.PolicyName != "" { // more exact than the configuration on the disk
		changed = slices.DeleteFunc(changed, func(field string) bool {
			return c.IsNew || field == m.Policy
		})
	}

	switch {
	case doc.PolicyName != "" && doc.PolicyName != policy:
		if !isPolicyKnown { // another file may set its policy
			return "", false
		}
		why = fmt.Sprintf("it was made by policy %q and %s is %q", doc.PolicyName, m.Policy, policy)
		return why, c.IsUnchanged
	case !c.IsKnown:
		return "", false
	case len(changed) > 0:
		return changed[0] + " changes, and this is the state of the old one", false
	case policy == m.ByDefault || doc.PolicyName == "":
		return "", false
	}

	return compareWithMachine(m, doc, c.Effective, readFacts()), true
}

// managerStateDoc has the fields of a state file that the kubelet compares with the machine
// (pkg/kubelet/cm/cpumanager/state and memorymanager/state, checkpoint.go).
type managerStateDoc struct {
	PolicyName string `json:"policyName"`

	DefaultCPUs string `json:"defaultCpuSet"`
	Entries     any    `json:"entries"`
	PodEntries  any    `json:"podEntries"`

	Machine map[string]struct {
		Memory map[string]struct {
			Total    uint64 `json:"total"`
			Reserved uint64 `json:"systemReserved"`
		} `json:"memoryMap"`
	} `json:"machineState"`

	Data string `json:"data"` // since 1.37 the document again, which counts
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

// compareWithMachine returns how a state of the planned policy does not fit the machine or the reserved resources;
// "" if it fits, or if that is not known.
func compareWithMachine(
	m kubelet.ManagerState,
	doc managerStateDoc,
	config map[string]any,
	f *world.Facts,
) string {
	switch {
	case f == nil:
		return ""
	case m.Policy == "memoryManagerPolicy":
		return compareMemory(doc, *f, config)
	}

	return compareCPUs(doc, *f, config)
}

// compareMemory is areMachineStatesEqual of pkg/kubelet/cm/memorymanager/policy_static.go: it compares the NUMA
// nodes, the memory and huge pages of each, and the part of them that reservedMemory keeps.
func compareMemory(doc managerStateDoc, f world.Facts, config map[string]any) string {
	isWithoutNUMA := strings.Contains(f.Evidence["numa"], "meminfo") // then the kernel has no sizes of nodes
	if len(doc.Machine) == 0 || isWithoutNUMA {
		return ""
	}

	nodes := map[string]world.NUMANode{}
	for _, n := range f.NUMA {
		nodes[strconv.Itoa(n.ID)] = n
	}
	if was, is := slices.Sorted(maps.Keys(doc.Machine)), slices.Sorted(maps.Keys(nodes)); !slices.Equal(was, is) {
		return fmt.Sprintf(
			"it is of the NUMA nodes %s, and this boot has %s", strings.Join(was, ", "), strings.Join(is, ", "),
		)
	}

	reserved := sumReservedMemory(config)
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		was := doc.Machine[id].Memory
		sizes := listMemorySizes(nodes[id])
		for _, name := range slices.Sorted(maps.Keys(sizes)) {
			if was[name].Total != sizes[name] {
				return fmt.Sprintf(
					"NUMA node %s had %d bytes of %s when it was made, and has %d in this boot",
					id, was[name].Total, name, sizes[name],
				)
			}
			if was[name].Reserved != reserved[id+" "+name] {
				return fmt.Sprintf(
					"it keeps %d bytes of %s of NUMA node %s, and reservedMemory is %d",
					was[name].Reserved, name, id, reserved[id+" "+name],
				)
			}
		}
	}

	return ""
}

// listMemorySizes returns the bytes of a NUMA node by resource; nil if they are not known.
func listMemorySizes(n world.NUMANode) map[string]uint64 {
	if n.MemoryBytes == nil {
		return nil
	}

	out := map[string]uint64{"memory": uint64(*n.MemoryBytes)}
	for size, pages := range n.HugePages {
		bytes, err := quantity.Parse(size) // 64Ki, 2Mi, 1Gi
		if err != nil {
			return nil
		}
		out["hugepages-"+size] = uint64(pages) * uint64(bytes.Value())
	}

	return out
}

// sumReservedMemory returns the bytes in reservedMemory by "NODE RESOURCE".
func sumReservedMemory(config map[string]any) map[string]uint64 {
	out := map[string]uint64{}
	list, _ := config["reservedMemory"].([]any)
	for _, item := range list {
		one, _ := item.(map[string]any)
		limits, _ := one["limits"].(map[string]any)
		for name, amount := range limits {
			q, err := quantity.Parse(fmt.Sprint(amount))
			if err == nil && q.Sign() > 0 {
				out[fmt.Sprint(one["numaNode"], " ", name)] += uint64(q.Value())
			}
		}
	}

	return out
}

// compareCPUs is validateState of pkg/kubelet/cm/cpumanager/policy_static.go. The CPUs of the state, including
// those of containers, must be the online ones. With strict-cpu-reservation they do not include the reserved CPUs;
// without it, the reserved CPUs must be free.
func compareCPUs(doc managerStateDoc, f world.Facts, config map[string]any) string {
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

	text, _ := config["reservedSystemCPUs"].(string)
	reserved, err := kubelet.ParseCPUSet(text)
	options, _ := config["cpuManagerPolicyOptions"].(map[string]any)
	isStrict := fmt.Sprint(options["strict-cpu-reservation"]) == "true"
	switch taken := reserved.Difference(free); {
	case !isStrict && err == nil && !taken.IsEmpty():
		return fmt.Sprintf("reserved CPUs %s are not among its free ones, %s", taken, free)
	case isStrict && (err != nil || text == "") && all.IsSubsetOf(online): // the kubelet chooses the reserved CPUs
		return ""
	case isStrict:
		online = online.Difference(reserved)
	}
	if all.Equals(online) {
		return ""
	}

	return fmt.Sprintf("it is of CPUs %s, and this boot has %s", all, online)
}

// listTexts returns the texts in a decoded document.
func listTexts(v any) (out []string) {
	switch x := v.(type) {
	case string:
		return []string{x}
	case []any:
		for _, e := range x {
			out = append(out, listTexts(e)...)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			out = append(out, listTexts(x[k])...)
		}
	}

	return out
}
