package boot

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/utils/cpuset"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/quantity"
	"github.com/prelet/prelet/internal/world"
)

// configChange is how the kubelet's configuration changes.
type configChange struct {
	// The effective configuration, with the files in place and with the planned files. It is computed at its first use:
	// most nodes have no state that depends on it.
	old, planned func() map[string]any
	isKnown      bool // the plan writes the configuration
	isNew        bool // the configuration does not exist yet: it does not show the options of a state
	isUnchanged  bool // no managed file changes
}

// observeStates returns the states of the kubelet's managers with which the planned kubelet would not start: made
// by another policy, with other values that the state depends on, or on a machine that had other memory or other
// CPUs, or garbled. Such a state is removed in the commit, and the kubelet makes a new one. A reboot may bring
// another machine: the firmware and the kernel reserve a little more or less (kubernetes#131253), a DIMM or a CPU is
// gone.
//
// Without an answer (facts that could not be read, a recording that was never asked) it keeps a state, unless the
// configuration changes.
func (in observation) observeStates(ctx context.Context, o Observed) (out []observedFile) {
	at := in.findConfig(o.files)
	if in.node.Effective == nil || at >= 0 && o.files[at].failure != nil {
		return nil // the configuration is not known
	}

	change := in.compareConfig(o.files, at)
	if at >= 0 && o.files[at].File.Purpose != configPurpose {
		in.node.Effective = change.planned()
	}
	for _, m := range kubelet.ManagerStates() {
		isOwn := func(f node.Flag) bool {
			return !f.Assumed && f.Name == m.Flag
		}
		if !change.isKnown && !slices.ContainsFunc(in.node.Flags, isOwn) {
			continue // its policy is in a configuration that this plan does not write
		}
		if in.previous != nil && slices.Contains(in.previous.Files, m.Path) {
			continue
		}

		f := node.File{Path: m.Path, Kind: node.Missing, Purpose: "state"}
		s := in.observeFile(ctx, f, world.TargetReq{Path: m.Path})
		s.Action = "delete"
		if s.failure == nil && s.Old.Exists {
			s.Why, s.Outdated = in.refuseState(ctx, m, s.Old, change)
			if s.Why != "" {
				s.Why += ", so the kubelet refuses to start with it"
				out = append(out, s)
			}
		}
	}

	return out
}

// refuseState returns why the planned kubelet would not start with a state; "" if it would, or if that is not
// known. isOutdated: the machine is the reason, and not a change of the plan.
func (in observation) refuseState(
	ctx context.Context, m kubelet.ManagerState, is world.TargetAns, change configChange,
) (why string, isOutdated bool) {
	if is.Garbled { // whatever the policy: the kubelet reads it before it compares
		return "it is not a state that the kubelet can read", true
	}

	doc := decodeState(is.Text)
	policy := m.FindPolicy(in.node.Effective)
	changed := m.ListChanges(change.old(), change.planned())
	isPolicyKnown := !in.node.Inherited.Partly || !change.isNew && slices.Contains(changed, m.Policy)
	if doc.PolicyName != "" { // more exact than the configuration on the disk
		changed = slices.DeleteFunc(changed, func(field string) bool {
			return change.isNew || field == m.Policy
		})
	}

	switch {
	case doc.PolicyName != "" && doc.PolicyName != policy:
		if !isPolicyKnown { // another file may set its policy
			return "", false
		}
		why = fmt.Sprintf("it was made by policy %q and %s is %q", doc.PolicyName, m.Policy, policy)
		return why, change.isUnchanged
	case !change.isKnown:
		return "", false
	case len(changed) > 0:
		return changed[0] + " changes, and this is the state of the old one", false
	case policy == m.ByDefault || doc.PolicyName == "":
		return "", false
	}

	return compareWithMachine(m, doc, in.node.Effective, in.readFacts(ctx)), true
}

// readFacts returns the machine's facts, also for a site without detect-hw; nil if they could not be read.
func (in observation) readFacts(ctx context.Context) *world.Facts {
	if in.basis.Facts != nil {
		return in.basis.Facts
	}
	f, _, err := world.Hardware.Ask(ctx, in.tape, world.HardwareReq{})
	if err != nil {
		return nil
	}

	return &f
}

// findConfig returns the index of the kubelet's configuration: the rendered file, or a block `file` at the path
// that the kubelet reads; -1 if there is none, or if its text is not known.
func (in observation) findConfig(files []observedFile) int {
	at := slices.IndexFunc(files, func(s observedFile) bool {
		return s.File.Purpose == configPurpose
	})
	flag, _ := node.FindFlag(in.node.Flags, "config")
	named := cmp.Or(flag.Value, in.node.Inherited.ConfigFile)
	place := cmp.Or(named, kubelet.KubeadmDeb().ConfigFile)
	isAnyPath := in.node.DropIn != "" || named == ""
	if at >= 0 && (isAnyPath || files[at].File.Path == place) {
		return at
	}

	return slices.IndexFunc(files, func(s observedFile) bool {
		isKept := s.File.CreateOnly && s.Old.Exists
		if s.File.Path != place || s.File.Kind != node.Regular || s.Old.Private || isKept {
			return false
		}
		_, err := kubelet.ParseConfig(s.File.Text.Template())

		return err == nil && len(s.File.Text.Secrets()) == 0
	})
}

// compareConfig compares the configuration of the files in place with that of the planned files. at is the index of
// the kubelet's configuration, -1 for none.
func (in observation) compareConfig(files []observedFile, at int) configChange {
	plannedText := func(s observedFile) string {
		return s.File.Text.Template()
	}
	oldText := func(s observedFile) string {
		if s.Old.Private { // then only the state itself shows its policy
			return plannedText(s)
		}
		return s.Old.Text
	}

	config := ""
	change := configChange{isKnown: at >= 0}
	if at >= 0 {
		config = files[at].File.Path
		change.isNew = in.node.DropIn == "" && !files[at].Old.Exists
	}
	change.isUnchanged = !slices.ContainsFunc(files, func(s observedFile) bool {
		return s.failure != nil || s.Changes()
	})
	change.old = sync.OnceValue(func() map[string]any {
		return in.computeEffective(files, config, oldText)
	})
	change.planned = sync.OnceValue(func() map[string]any {
		return in.computeEffective(files, config, plannedText)
	})

	return change
}

// computeEffective returns the configuration that the kubelet works with if files have these texts. config is the path
// of its configuration.
func (in observation) computeEffective(
	files []observedFile, config string, text func(observedFile) string,
) map[string]any {
	own := map[string]any{}
	n := in.node
	n.Flags = nil
	n.Config = in.basis.Base.Config
	for _, s := range files {
		switch {
		case s.File.Path == config && n.DropIn == "":
			n.Config = parseConfig(text(s))
		case s.File.Purpose == configPurpose:
			own = parseConfig(text(s))
		case s.File.Purpose == flagsPurpose:
			n.Flags = parseFlags(text(s))
		}
	}

	n = applyInherited(n)
	merged, err := in.basis.mergeFiles(n, own)
	if err != nil {
		return map[string]any{} // the kubelet cannot read it either
	}

	return merged.merged.Effective(n.Flags)
}

// parseFlags returns the flags in all variables of an environment file.
func parseFlags(text string) (out []node.Flag) {
	env, err := kubelet.ParseEnvFile(text)
	if err != nil {
		return nil
	}

	for _, variable := range env.Names() {
		flags, _ := env.Get(variable)
		for _, name := range flags.Names() {
			value, _ := flags.Lookup(name)
			out = append(out, node.Flag{Name: name, Value: value})
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
	if was, is := sortKeys(doc.Machine), sortKeys(nodes); !slices.Equal(was, is) {
		return fmt.Sprintf(
			"it is of the NUMA nodes %s, and this boot has %s", strings.Join(was, ", "), strings.Join(is, ", "),
		)
	}

	reserved := sumReservedMemory(config)
	for _, id := range sortKeys(nodes) {
		was := doc.Machine[id].Memory
		sizes := listMemorySizes(nodes[id])
		for _, name := range sortKeys(sizes) {
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
		for _, k := range sortKeys(x) {
			out = append(out, listTexts(x[k])...)
		}
	}

	return out
}
