// Package states decides which states of the kubelet's managers a planned kubelet would not start with: made by another
// policy, with other values that the state depends on, or on a machine that had other memory or other CPUs, or garbled.
// A reboot may bring another machine: the firmware and the kernel reserve a little more or less (kubernetes#131253), a
// DIMM or a CPU is gone.
package states

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/utils/cpuset"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/effective"
	"github.com/prelet/prelet/stages"
)

// PlannedFile is a planned file, and the one on the disk.
type PlannedFile struct {
	desired.File

	Old      tape.TargetAns
	Changes  bool
	IsFailed bool // Old is not known
}

// Change is how the kubelet's configuration changes.
type Change struct {
	inputs stages.Inputs
	node   desired.Node // Effective is the configuration of the planned kubelet
	files  []PlannedFile
	config *PlannedFile // of the kubelet; nil: the plan does not write it
	// The effective configuration, with the files in place and with the planned files. It is computed at its first use:
	// most nodes have no state that depends on it.
	old, planned func() map[string]any
}

// Compare compares the configuration of the files in place with that of the planned files; nil if it is not known.
func Compare(in stages.Inputs, n desired.Node, files []PlannedFile) *Change {
	c := &Change{inputs: in, node: n, files: files}
	c.config = c.findConfig()
	if n.Effective == nil || c.config != nil && c.config.IsFailed {
		return nil
	}

	plannedText := func(f PlannedFile) string { return f.Text.Template() }
	c.old = sync.OnceValue(func() map[string]any {
		return c.compute(func(f PlannedFile) string {
			if f.Old.Private { // then only the state itself shows its policy
				return plannedText(f)
			}
			return f.Old.Text
		})
	})
	c.planned = sync.OnceValue(func() map[string]any { return c.compute(plannedText) })
	if c.config != nil && c.config.Purpose != "kubelet-config" {
		c.node.Effective = c.planned()
	}

	return c
}

// List returns the states whose policy is in a flag or in a configuration that the plan writes.
func (c *Change) List() []kubelet.ManagerState {
	return slices.DeleteFunc(kubelet.ManagerStates(), func(m kubelet.ManagerState) bool {
		return c.config == nil && !slices.ContainsFunc(c.node.Flags, func(f desired.Flag) bool {
			return !f.Assumed && f.Name == m.Flag
		})
	})
}

// findConfig returns the kubelet's configuration: the rendered file, or a block `file` at the path that the kubelet
// reads; nil if there is none, or if its text is not known.
func (c *Change) findConfig() *PlannedFile {
	named := cmp.Or(c.node.FindPath("config"), c.node.Inherited.ConfigFile)
	place := cmp.Or(named, kubelet.KubeadmDeb().ConfigFile)
	isAnyPath := c.node.DropIn != "" || named == ""
	at := slices.IndexFunc(c.files, func(f PlannedFile) bool { return f.Purpose == "kubelet-config" })
	if at < 0 || !isAnyPath && c.files[at].Path != place {
		at = slices.IndexFunc(c.files, func(f PlannedFile) bool {
			isKept := f.CreateOnly && f.Old.Exists
			if f.Path != place || f.Kind != desired.Regular || f.Old.Private || isKept {
				return false
			}
			_, err := kubelet.ParseConfig(f.Text.Template())

			return err == nil && len(f.Text.Secrets()) == 0
		})
	}
	if at < 0 {
		return nil
	}

	return &c.files[at]
}

// compute returns the configuration that the kubelet works with if the files have these texts.
func (c *Change) compute(text func(PlannedFile) string) map[string]any {
	own := map[string]any{}
	n := c.node
	n.Flags = nil
	n.Config = c.inputs.Base.Config
	for _, f := range c.files {
		switch {
		case c.config != nil && f.Path == c.config.Path && n.DropIn == "":
			n.Config = parseConfig(text(f))
		case f.Purpose == "kubelet-config":
			own = parseConfig(text(f))
		case f.Purpose == "kubelet-flags":
			n.Flags = parseFlags(text(f))
		}
	}

	return effective.Compute(c.inputs, n, own)
}

// parseFlags returns the flags in all variables of an environment file.
func parseFlags(text string) (out []desired.Flag) {
	env, err := kubelet.ParseEnvFile(text)
	if err != nil {
		return nil
	}

	for _, variable := range env.Names() {
		flags, _ := env.Get(variable)
		for _, name := range flags.Names() {
			value, _ := flags.Lookup(name)
			out = append(out, desired.Flag{Name: name, Value: value})
		}
	}

	return out
}

// parseConfig returns a KubeletConfiguration as an object; empty if the text is not a configuration.
func parseConfig(text string) map[string]any {
	c, err := kubelet.ParseConfig(text)
	if err != nil {
		return map[string]any{}
	}

	return c.Object()
}

// Refuse returns why the planned kubelet would not start with a state; "" if it would, or if that is not known.
// isOutdated: the machine is the reason, and not a change of the plan. Without facts it keeps a state, unless the
// configuration changes.
func (c *Change) Refuse(
	m kubelet.ManagerState, is tape.TargetAns, readFacts func() *tape.Facts,
) (why string, isOutdated bool) {
	if is.Garbled { // whatever the policy: the kubelet reads it before it compares
		return "it is not a state that the kubelet can read", true
	}

	doc := decodeState(is.Text)
	policy := m.FindPolicy(c.node.Effective)
	changed := m.ListChanges(c.old(), c.planned())
	isNew := c.config != nil && c.node.DropIn == "" && !c.config.Old.Exists // it does not show the options of a state
	isPolicyKnown := !c.node.Inherited.Partly || !isNew && slices.Contains(changed, m.Policy)
	if doc.PolicyName != "" { // more exact than the configuration on the disk
		changed = slices.DeleteFunc(changed, func(field string) bool {
			return isNew || field == m.Policy
		})
	}

	switch {
	case doc.PolicyName != "" && doc.PolicyName != policy:
		if !isPolicyKnown { // another file may set its policy
			return "", false
		}
		why = fmt.Sprintf("it was made by policy %q and %s is %q", doc.PolicyName, m.Policy, policy)
		return why, !slices.ContainsFunc(c.files, func(f PlannedFile) bool { return f.IsFailed || f.Changes })
	case c.config == nil:
		return "", false
	case len(changed) > 0:
		return changed[0] + " changes, and this is the state of the old one", false
	case policy == m.ByDefault || doc.PolicyName == "":
		return "", false
	}

	return compareWithMachine(m, doc, c.node.Effective, readFacts()), true
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
	f *tape.Facts,
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
func compareMemory(doc managerStateDoc, f tape.Facts, config map[string]any) string {
	isWithoutNUMA := strings.Contains(f.Evidence["numa"], "meminfo") // then the kernel has no sizes of nodes
	if len(doc.Machine) == 0 || isWithoutNUMA {
		return ""
	}

	nodes := map[string]tape.NUMANode{}
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
func listMemorySizes(n tape.NUMANode) map[string]uint64 {
	if n.MemoryBytes == nil {
		return nil
	}

	out := map[string]uint64{"memory": uint64(*n.MemoryBytes)}
	for size, pages := range n.HugePages {
		bytes, err := kubelet.ParseQuantity(size) // 64Ki, 2Mi, 1Gi
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
			q, err := kubelet.ParseQuantity(fmt.Sprint(amount))
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
func compareCPUs(doc managerStateDoc, f tape.Facts, config map[string]any) string {
	free, err := kubelet.ParseCPUSet(doc.DefaultCPUs)
	if err != nil || free.IsEmpty() || len(f.CPU.Cores) == 0 {
		return ""
	}
	all := free
	for _, text := range kubelet.ListTexts([]any{doc.Entries, doc.PodEntries}) {
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
