package nodeobject

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// Capacity is what an autoscaler has to know of machines that do not run yet.
type Capacity struct {
	FormatVersion int      `json:"format_version"`
	Pools         []Pool   `json:"pools"`
	Assumed       []string `json:"assumed"`
}

// Pool is a set of machines whose Nodes offer the same. Amounts are quantities by resource.
type Pool struct {
	Machines    []string            `json:"machines"` // names of nodes
	Capacity    map[string]string   `json:"capacity"`
	Allocatable map[string]string   `json:"allocatable"`
	Overhead    Overhead            `json:"overhead"`
	Labels      map[string]string   `json:"labels"` // without the host name
	Taints      []map[string]string `json:"taints"`
	Annotations map[string]string   `json:"cluster_api_annotations"` // of a MachineDeployment or MachineSet
}

// Overhead is the difference of capacity and allocatable resources, with the names of Karpenter's InstanceTypeOverhead.
// The memory of huge pages is of the system.
type Overhead struct {
	KubeReserved      map[string]string `json:"kubeReserved"`
	SystemReserved    map[string]string `json:"systemReserved"`
	EvictionThreshold map[string]string `json:"evictionThreshold"`
}

// AddToPool is Add for Capacity.
func (s *Set) AddToPool(p *evaluate.Plan, source string) error {
	return s.add(p, source, func(m *maker, name string) {
		pool := m.makePool(name)
		key, _ := json.Marshal(pool) // of texts only, so it cannot fail
		if s.pools[string(key)] == nil {
			s.pools[string(key)] = &pool
		}
		first := s.pools[string(key)]
		first.Machines = append(first.Machines, name)
	})
}

// Capacity returns the pools by their first machines, and the assumptions.
func (s *Set) Capacity() Capacity {
	c := Capacity{FormatVersion: 1, Pools: []Pool{}, Assumed: append([]string{}, s.Assumed()...)}
	for _, pool := range s.pools {
		c.Pools = append(c.Pools, *pool)
	}
	slices.SortFunc(c.Pools, func(a, b Pool) int { return cmp.Compare(a.Machines[0], b.Machines[0]) })

	return c
}

// makePool returns the pool of a node, without its name.
func (m *maker) makePool(name string) (p Pool) {
	p.Capacity, p.Allocatable = m.resources()
	p.Labels = m.labels(name)
	delete(p.Labels, "kubernetes.io/hostname")
	p.Taints = append([]map[string]string{}, m.taints()...)
	p.Annotations = p.annotate()

	kube, system, eviction := map[string]string{}, map[string]string{}, map[string]string{}
	p.Overhead = Overhead{kube, system, eviction}
	for name, amount := range p.Capacity {
		put := func(into map[string]string, q resource.Quantity) {
			if !q.IsZero() {
				into[name] = q.String()
			}
		}
		rest, _ := kubelet.ParseQuantity(amount)
		left, _ := kubelet.ParseQuantity(p.Allocatable[name])
		r := findReserved(m.plan.Node, name, rest)
		put(kube, r.kube)
		put(eviction, r.eviction)
		for _, q := range []resource.Quantity{left, r.kube, r.eviction} {
			rest.Sub(q)
		}
		put(system, rest)
	}

	return p
}

// annotate returns the annotations of Cluster API. cluster-autoscaler takes their amounts for what pods can have, so
// they are the allocatable ones. It has none for huge pages, or for a second type of devices.
// Source: k8s.io/autoscaler, cloudprovider/clusterapi, clusterapi_utils.go and TemplateNodeInfo.
func (p Pool) annotate() map[string]string {
	out := map[string]string{}
	put := func(key, value string) {
		if value != "" {
			out["capacity.cluster-autoscaler.kubernetes.io/"+key] = value
		}
	}
	count := func(name string) string { // never 1k, which is refused
		q, _ := kubelet.ParseQuantity(p.Allocatable[name])
		return strconv.FormatInt(q.Value(), 10)
	}

	var labels, taints, devices []string
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		labels = append(labels, key+"="+p.Labels[key])
	}
	for _, t := range p.Taints {
		taints = append(taints, kubelet.Taint{Key: t["key"], Value: t["value"], Effect: t["effect"]}.String())
	}
	for name := range p.Allocatable {
		if strings.Contains(name, "/") {
			devices = append(devices, name)
		}
	}

	put("cpu", p.Allocatable[cpu])
	put("memory", p.Allocatable[memory])
	put("ephemeral-disk", p.Allocatable[storage])
	put("maxPods", count("pods"))
	put("labels", strings.Join(labels, ","))
	put("taints", strings.Join(taints, ","))
	if len(devices) == 1 {
		put("gpu-type", devices[0])
		put("gpu-count", count(devices[0]))
	}

	return out
}
