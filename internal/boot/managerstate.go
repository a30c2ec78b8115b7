package boot

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// managerState is a file in which one of the kubelet's managers stores its policy. With another policy, or other
// reserved CPUs or memory, the kubelet does not start until the file is removed.
type managerState struct {
	path      string
	policy    string   // field of the configuration
	flag      string   // that wins over it
	byDefault string   // its value where none is written
	others    []string // further fields that the state depends on
}

func listManagerStates() []managerState {
	return []managerState{
		{"/var/lib/kubelet/cpu_manager_state", "cpuManagerPolicy", "cpu-manager-policy", "none",
			[]string{"cpuManagerPolicyOptions", "reservedSystemCPUs", "kubeReserved", "systemReserved"}},
		{"/var/lib/kubelet/memory_manager_state", "memoryManagerPolicy", "memory-manager-policy", "None", []string{"reservedMemory"}},
	}
}

// States returns the state files of the managers that are on in a configuration, by path, each with the fields that it
// depends on; nil for none.
func States(config map[string]any) map[string]string {
	var out map[string]string
	for _, m := range listManagerStates() {
		policy, ok := config[m.policy].(string)
		if !ok || policy == "" || policy == m.byDefault {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[m.path] = policy
		for _, field := range m.others {
			if config[field] != nil {
				out[m.path] += fmt.Sprintf(" %s=%v", field, config[field])
			}
		}
	}

	return out
}

// observeStates asks for the states of the kubelet's managers, and keeps those that are in the way of the finished node:
// made by another policy, or with other values that the state depends on, or on a machine that had other memory or other
// CPUs. The kubelet does not start with one, so it goes in the commit, and the kubelet makes a new one. A reboot may bring
// another machine: the firmware and the kernel keep a little more or less for themselves (kubernetes#131253), a DIMM or a
// CPU is gone.
//
// What is not known says nothing: facts that could not be read, and a recording that was never asked, unless the
// configuration in place changes.
func (o *Observed) observeStates(
	ctx context.Context, tape *world.Tape, n node.Node, aside *Aside, b basis, facts *world.Facts,
) {
	at := o.findConfig(n)
	if n.Effective == nil || at >= 0 && o.files[at].err != nil {
		return // nobody knows what is configured
	}

	isUpdate := at >= 0 && compareTarget(o.files[at].file, o.files[at].is).Action == "update"
	isNew := at >= 0 && n.DropIn == "" && !o.files[at].is.Exists // then nothing says what the state was made with
	isUnchanged := !slices.ContainsFunc(o.files, func(s observedFile) bool {
		return s.err != nil || compareTarget(s.file, s.is).Changes()
	})
	old := o.readEffective(b, n, func(s observedFile) string {
		if s.is.Private { // then the state itself has its policy
			return s.file.Text.Template()
		}
		return s.is.Text
	})
	planned := o.readEffective(b, n, func(s observedFile) string { return s.file.Text.Template() })
	if at >= 0 && o.files[at].file.Purpose != "kubelet-config" {
		n.Effective = planned
	}

	for _, m := range listManagerStates() {
		isOwn := func(f node.Flag) bool { return !f.Assumed && f.Name == m.flag }
		if at < 0 && !slices.ContainsFunc(n.Flags, isOwn) {
			continue // its policy is in a configuration that this plan does not write
		}
		if aside != nil && slices.Contains(aside.Files, m.path) {
			continue
		}
		s := observeFile(ctx, tape, node.File{Path: m.path, Kind: node.Missing, Purpose: "state"}, world.TargetReq{Path: m.path})
		changed, policy := m.findChange(old, planned), m.readPolicy(n.Effective)
		switch {
		case s.isUnread() && isUpdate && (len(changed) > 0 || policy != m.byDefault):
			o.states = append(o.states, s)
			continue
		case s.err != nil || !s.is.Exists:
			continue
		}

		doc := decodeState(s.is.Text)
		isSure := !n.Inherited.Partly || !isNew && slices.Contains(changed, m.policy)
		if doc.PolicyName != "" { // which tells more than what the configuration was
			changed = slices.DeleteFunc(changed, func(field string) bool { return isNew || field == m.policy })
		}
		switch {
		case doc.PolicyName != "" && doc.PolicyName != policy && !isSure: // another file may have its policy
		case doc.PolicyName != "" && doc.PolicyName != policy:
			s.why = fmt.Sprintf("it was made by policy %q and %s is %q", doc.PolicyName, m.policy, policy)
			s.isOutdated = isUnchanged
		case at < 0:
		case len(changed) > 0:
			s.why = changed[0] + " changes, and this is the state of the old one"
		case policy != m.byDefault && doc.PolicyName != "":
			if facts == nil {
				if f, _, err := world.FactsOf.Ask(ctx, tape, world.FactsReq{}); err == nil {
					facts = &f
				}
			}
			s.why, s.isOutdated = m.compare(doc, n.Effective, facts), true
		}
		if s.why != "" {
			s.why += ", so the kubelet refuses to start with it"
			o.states = append(o.states, s)
		}
	}
}

// findConfig returns which file is the kubelet's configuration: the one that is rendered, or a block `file` at the place
// where the kubelet reads it; -1 for none, or where its text is not known.
func (o *Observed) findConfig(n node.Node) int {
	at := slices.IndexFunc(o.files, func(s observedFile) bool { return s.file.Purpose == "kubelet-config" })
	if i := slices.IndexFunc(n.Flags, func(f node.Flag) bool { return f.Name == "config" }); i >= 0 {
		n.Inherited.ConfigFile = n.Flags[i].Value
	}
	place := cmp.Or(n.Inherited.ConfigFile, kubelet.KubeadmDeb().ConfigFile)
	if at >= 0 && (n.DropIn != "" || n.Inherited.ConfigFile == "" || o.files[at].file.Path == place) {
		return at
	}

	return slices.IndexFunc(o.files, func(s observedFile) bool {
		_, err := kubelet.ParseConfig(s.file.Text.Template())

		return s.file.Path == place && s.file.Kind == node.Regular && err == nil && !s.is.Private &&
			len(s.file.Text.Secrets()) == 0 && !(s.file.CreateOnly && s.is.Exists)
	})
}

// readEffective returns the configuration that the kubelet works with where the node's files have the texts that are
// given: those in place, or those that are planned.
func (o *Observed) readEffective(b basis, n node.Node, text func(observedFile) string) map[string]any {
	own, config := map[string]any{}, ""
	if at := o.findConfig(n); at >= 0 {
		config = o.files[at].file.Path
	}
	n.Flags, n.Config = nil, b.base.Config
	for _, s := range o.files {
		switch {
		case s.file.Path == config && n.DropIn == "":
			n.Config = parseConfig(text(s))
		case s.file.Purpose == "kubelet-config":
			own = parseConfig(text(s))
		case s.file.Purpose == "kubelet-flags":
			n.Flags = parseFlags(text(s))
		}
	}

	base, dropIns := b.separate(inherit(n), own)
	effective, err := b.mergeDropIns(base, dropIns)
	if err != nil {
		return map[string]any{} // of a file that no kubelet reads either
	}

	return effective
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

// findChange returns the fields that change, of those that the state depends on.
func (m managerState) findChange(old, planned map[string]any) (changed []string) {
	for _, field := range append([]string{m.policy}, m.others...) {
		if field != m.policy && m.readPolicy(planned) == m.byDefault {
			continue // a manager that is off keeps its policy alone
		}
		was, is := fmt.Sprint(old[field]), fmt.Sprint(planned[field])
		if field == m.policy {
			was, is = m.readPolicy(old), m.readPolicy(planned)
		}
		if was != is {
			changed = append(changed, field)
		}
	}

	return changed
}

// readPolicy returns the policy that a configuration has.
func (m managerState) readPolicy(config map[string]any) string {
	if p, ok := config[m.policy].(string); ok && p != "" {
		return p
	}

	return m.byDefault
}

// parseConfig returns a KubeletConfiguration as an object; empty where the text is not one.
func parseConfig(text string) map[string]any {
	c, err := kubelet.ParseConfig(text)
	if err != nil {
		return map[string]any{}
	}

	return c.Object()
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
			Total    uint64 `json:"total"`
			Reserved uint64 `json:"systemReserved"`
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

// compare returns how a state of the planned policy does not fit the machine or what is reserved; "" where it fits, or
// where that is not known.
func (m managerState) compare(doc managerStateDoc, config map[string]any, f *world.Facts) string {
	switch {
	case f == nil:
		return ""
	case m.policy == "memoryManagerPolicy":
		return compareMemory(doc, *f, config)
	}

	return compareCPUs(doc, *f, config)
}

// compareMemory is areMachineStatesEqual of pkg/kubelet/cm/memorymanager/policy_static.go, for what the machine brings:
// the NUMA nodes, the memory of each, and its huge pages; and for what reservedMemory keeps of them.
func compareMemory(doc managerStateDoc, f world.Facts, config map[string]any) string {
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

	reserved := readReservedMemory(config)
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
			if was[name].Reserved != reserved[id+" "+name] {
				return fmt.Sprintf("it keeps %d bytes of %s of NUMA node %s, and reservedMemory is %d",
					was[name].Reserved, name, id, reserved[id+" "+name])
			}
		}
	}

	return ""
}

// readReservedMemory returns the bytes in reservedMemory by "NODE RESOURCE".
func readReservedMemory(config map[string]any) map[string]uint64 {
	out := map[string]uint64{}
	list, _ := config["reservedMemory"].([]any)
	for _, item := range list {
		one, _ := item.(map[string]any)
		limits, _ := one["limits"].(map[string]any)
		for name, amount := range limits {
			if q, err := resource.ParseQuantity(fmt.Sprint(amount)); err == nil && q.Sign() > 0 {
				out[fmt.Sprint(one["numaNode"], " ", name)] += uint64(q.Value())
			}
		}
	}

	return out
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
// included, are those that are online, without the reserved ones where strict-cpu-reservation is on; else these are not
// those of a container.
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
	if taken := reserved.Difference(free); !isStrict && err == nil && !taken.IsEmpty() {
		return fmt.Sprintf("reserved CPUs %s are not among its free ones, %s", taken, free)
	}
	if isStrict {
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
