// Package nodeobject makes the Node that the kubelet of a plan would register, for a rehearsal with a scheduler: which
// pods would still be placed after a change of a site? It is pure.
package nodeobject

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/kubelet/annotation"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// Set counts the Nodes of several plans, and the assumptions made for them. Its zero value is an empty set.
type Set struct {
	sources map[string]string // by the name of the node
	assumed map[string]int
	pools   map[string]*Pool // by what their machines offer
}

// Add returns the Node of a plan as an object of Kubernetes' API, v1. It fails without a complete plan, without the
// values that a scheduler needs, and for a second node of one name. source is the recording, "" for this machine.
func (s *Set) Add(p *evaluate.Plan, source string) (object map[string]any, err error) {
	err = s.add(p, source, func(m *maker, name string) { object = m.makeNode(name) })

	return object, err
}

// add calls a function with the maker of a plan's Node and its name, and counts them.
func (s *Set) add(p *evaluate.Plan, source string, use func(*maker, string)) error {
	ofFile, _, _ := strings.Cut(strings.TrimSuffix(path.Base(source), ".json"), ".prelet")
	name := cmp.Or(p.NodeName(), ofFile)
	other, isTaken := s.sources[name]
	switch f := p.Facts; {
	case p.Code() != "":
		return p.Code().Errorf("no complete plan; prelet plan has the reason")
	case name == ".": // this machine, without a recording
		return fault.Unread.Errorf("the name of the node is not known; set node.name in the site")
	case len(content.IsDNS1123Subdomain(name)) > 0:
		return fault.Unread.Errorf(
			"the name of the node is not known, and no Node can have that of the recording, %s; rename the recording",
			name)
	case isTaken:
		return fault.RecordingInvalid.Errorf("node %s is also in %s; remove one of them", name, other)
	case f == nil || f.CPU.Logical == nil || f.Memory.TotalBytes == nil:
		return fault.Unread.Errorf(
			"the CPUs and memory of node %s are not known; the site needs a stage detect-hw", name)
	}

	m := maker{plan: p}
	if p.NodeName() == "" {
		m.assume("the node has the name of its recording")
	}
	if s.sources == nil {
		s.sources = map[string]string{}
		s.assumed = map[string]int{}
		s.pools = map[string]*Pool{}
	}
	use(&m, name)
	s.sources[name] = source
	for _, text := range m.assumed {
		s.assumed[text]++
	}

	return nil
}

// Assumed returns the assumptions, each with its number of nodes.
func (s *Set) Assumed() (lines []string) {
	for _, text := range slices.Sorted(maps.Keys(s.assumed)) {
		lines = append(lines, fmt.Sprintf("assumed on %d of %d nodes: %s", s.assumed[text], len(s.sources), text))
	}

	return lines
}

type maker struct {
	plan    *evaluate.Plan
	assumed []string
}

func (m *maker) assume(format string, args ...any) {
	m.assumed = append(m.assumed, fmt.Sprintf(format, args...))
}

// makeNode returns the Node. By its first annotation kwok in a cluster knows that it has to send heartbeats.
func (m *maker) makeNode(name string) map[string]any {
	k := m.plan.Kubelet
	info := map[string]string{
		"kernelVersion":   orEmpty(m.plan.Facts.Kernel.Release),
		"kubeletVersion":  k.KnownVersion(),
		"operatingSystem": "linux",
		"osImage":         orEmpty(m.plan.Facts.OS.Name),
	}
	if k.Runtime != nil && k.Runtime.Version != "" {
		info["containerRuntimeVersion"] = k.Runtime.Name + "://" + k.Runtime.Version
	}
	labels := m.labels(name)
	taints := m.taints()
	capacity, allocatable := m.resources()
	features := m.features()

	return map[string]any{
		"apiVersion": "v1",
		"kind":       "Node",
		"metadata": map[string]any{
			"name":   name,
			"labels": labels,
			"annotations": map[string]string{
				"kwok.x-k8s.io/node": "fake",
				annotation.Assumed:   strings.Join(m.assumed, "; "),
			},
		},
		"spec": map[string]any{"taints": taints},
		"status": map[string]any{
			"capacity":    capacity,
			"allocatable": allocatable,
			"conditions": []map[string]string{{
				"type":   "Ready",
				"status": "True",
				"reason": "Rehearsal",
			}},
			"nodeInfo":         info,
			"declaredFeatures": features,
		},
	}
}

// x86 has the vendors of CPUs that Linux knows on amd64. Source: arch/x86/kernel/cpu, c_ident.
var x86 = []string{
	"GenuineIntel", "AuthenticAMD", "HygonGenuine", "CentaurHauls", "  Shanghai  ", "GenuineTMx86", "TransmetaCPU",
}

// labels returns the labels of the plan, and those that the kubelet adds (pkg/kubelet/kubelet_node_status.go,
// initialNode). Those of a cloud provider are not known.
func (m *maker) labels(name string) map[string]string {
	cpu := m.plan.Facts.CPU
	arch := orEmpty(cpu.Arch)
	if arch == "" && slices.Contains(x86, orEmpty(cpu.Vendor)) { // the recording is older than the fact
		arch = "amd64"
	}
	out := map[string]string{"kubernetes.io/hostname": name}
	for _, domain := range []string{"", "beta."} {
		out[domain+"kubernetes.io/os"] = "linux"
		if arch != "" {
			out[domain+"kubernetes.io/arch"] = arch
		}
	}
	if arch == "" {
		m.assume("no label has the architecture, which is not known")
	}
	for _, l := range m.plan.Node.Labels {
		out[l.Key] = l.Value
	}

	return out
}

// taints returns the taints that stay: other programs remove startup taints.
func (m *maker) taints() (out []map[string]string) {
	for _, t := range m.plan.Node.Taints {
		if t.Startup || t.IsStartup() {
			m.assume("the startup taint %s is removed", t.Taint)
			continue
		}
		out = append(out, map[string]string{"key": t.Key, "value": t.Value, "effect": t.Effect})
	}

	return out
}

func (m *maker) features() (names []string) {
	if m.plan.Declares == nil {
		m.assume("no features are declared, as the kubelet is not known")
		return nil
	}
	for _, f := range *m.plan.Declares {
		switch {
		case f.Declared && f.ByRuntime:
			m.assume("the container runtime does not support %s", f.Name)
		case f.Declared:
			names = append(names, f.Name)
		}
	}

	return names
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}

	return *text
}
