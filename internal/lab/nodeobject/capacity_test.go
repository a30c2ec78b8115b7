package nodeobject

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// poolsOf returns the pools of plans by their sources.
func poolsOf(t *testing.T, plans map[string]*evaluate.Plan) []Pool {
	t.Helper()
	var set Set
	for source, p := range plans {
		if err := set.AddToPool(p, source); err != nil {
			t.Fatalf("%s: got %v, want a pool", source, err)
		}
	}

	return set.Capacity().Pools
}

// onePool returns the pool of one plan.
func onePool(t *testing.T, p *evaluate.Plan) Pool {
	t.Helper()
	pools := poolsOf(t, map[string]*evaluate.Plan{"fleet/n1.prelet.gz": p})
	if len(pools) != 1 {
		t.Fatalf("got %d pools, want 1: %+v", len(pools), pools)
	}

	return pools[0]
}

func TestCapacity(t *testing.T) {
	want := Pool{
		Machines: []string{"n1"},
		Capacity: map[string]string{
			"cpu": "8", "memory": "16Gi", "ephemeral-storage": "100Gi",
			"hugepages-2Mi": "1Gi", "nvidia.com/gpu": "2", "pods": "110",
		},
		Allocatable: map[string]string{
			"cpu": "7", "memory": "13Gi", "ephemeral-storage": "65Gi",
			"hugepages-2Mi": "1Gi", "nvidia.com/gpu": "2", "pods": "110",
		},
		Overhead: Overhead{
			KubeReserved:      map[string]string{"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "10Gi"},
			SystemReserved:    map[string]string{"cpu": "500m", "memory": "1Gi"}, // the huge pages
			EvictionThreshold: map[string]string{"memory": "1Gi", "ephemeral-storage": "25Gi"},
		},
		Labels: map[string]string{
			"example.com/a":      "b",
			"kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "arm64",
			"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux",
		},
		Taints: []map[string]string{{"key": "example.com/stays", "value": "", "effect": "NoSchedule"}},
		Annotations: map[string]string{
			"capacity.cluster-autoscaler.kubernetes.io/cpu":            "7",
			"capacity.cluster-autoscaler.kubernetes.io/memory":         "13Gi",
			"capacity.cluster-autoscaler.kubernetes.io/ephemeral-disk": "65Gi",
			"capacity.cluster-autoscaler.kubernetes.io/maxPods":        "110",
			"capacity.cluster-autoscaler.kubernetes.io/gpu-type":       "nvidia.com/gpu",
			"capacity.cluster-autoscaler.kubernetes.io/gpu-count":      "2",
			"capacity.cluster-autoscaler.kubernetes.io/labels": "beta.kubernetes.io/arch=arm64," +
				"beta.kubernetes.io/os=linux,example.com/a=b,kubernetes.io/arch=arm64,kubernetes.io/os=linux",
			"capacity.cluster-autoscaler.kubernetes.io/taints": "example.com/stays:NoSchedule",
		},
	}
	if diff := cmp.Diff(want, onePool(t, newPlan())); diff != "" {
		t.Errorf("pool, want - and got +:\n%s", diff)
	}
}

// TestCapacityAnnotations: counts of pods and devices are integers for cluster-autoscaler, and what is not known or
// cannot be said is missing.
func TestCapacityAnnotations(t *testing.T) {
	const prefix = "capacity.cluster-autoscaler.kubernetes.io/"
	tests := map[string]struct {
		change    func(*evaluate.Plan)
		key, want string
	}{
		"a thousand pods": {
			func(p *evaluate.Plan) { p.Node.Effective["maxPods"] = json.Number("1000") }, "maxPods", "1000",
		},
		"no size of the disk": {
			func(p *evaluate.Plan) { p.Kubelet.Disk = 0 }, "ephemeral-disk", "",
		},
		"no taint": {func(p *evaluate.Plan) { p.Node.Taints = nil }, "taints", ""},
		"a taint with a value": {
			func(p *evaluate.Plan) {
				p.Node.Taints[0].Taint = kubelet.Taint{Key: "example.com/a", Value: "b", Effect: "NoExecute"}
			}, "taints", "example.com/a=b:NoExecute",
		},
		"two types of devices": {
			func(p *evaluate.Plan) { p.Facts.Accelerators[0].Vendor = pointTo("amd") }, "gpu-type", "",
		},
		"no devices": {func(p *evaluate.Plan) { p.Facts.Accelerators = nil }, "gpu-count", ""},
		"milli-CPUs": {
			func(p *evaluate.Plan) { p.Node.Effective["kubeReserved"] = map[string]any{"cpu": "60m"} }, "cpu", "7440m",
		},
	}
	for name, tt := range tests {
		p := newPlan()
		tt.change(p)
		got := onePool(t, p).Annotations[prefix+tt.key]
		if got != tt.want {
			t.Errorf("%s: got %s %q, want %q", name, tt.key, got, tt.want)
		}
	}
}

// TestCapacityGroups: machines that differ in nothing but their names are one pool.
func TestCapacityGroups(t *testing.T) {
	small := newPlan()
	small.Facts.CPU.Logical = pointTo(4)
	labelled := newPlan()
	labelled.Node.Labels[0].Value = "c"
	untainted := newPlan()
	untainted.Node.Taints = nil
	moved := newPlan() // the same is allocatable
	moved.Node.Effective["kubeReserved"] = map[string]any{"cpu": "1", "memory": "1Gi", "ephemeral-storage": "10Gi"}
	delete(moved.Node.Effective, "systemReserved")

	var got [][]string
	for _, pool := range poolsOf(t, map[string]*evaluate.Plan{
		"a.prelet": newPlan(), "b.prelet": small, "c.prelet": labelled, "d.prelet": untainted, "e.prelet": moved,
		"f.prelet": newPlan(),
	}) {
		slices.Sort(pool.Machines)
		got = append(got, pool.Machines)
	}
	slices.SortFunc(got, slices.Compare)
	if diff := cmp.Diff([][]string{{"a", "f"}, {"b"}, {"c"}, {"d"}, {"e"}}, got); diff != "" {
		t.Errorf("pools, want - and got +:\n%s", diff)
	}
}

// TestCapacityIsExact: of each recording, and with CPUs that are reserved by number, the capacity less the overhead is
// what is allocatable, and no amount is negative.
func TestCapacityIsExact(t *testing.T) {
	plans := planRecordings(t)
	plans["cpus.prelet"] = newPlan()
	plans["cpus.prelet"].Node.Effective["reservedSystemCPUs"] = "0-2"
	for source, p := range plans {
		pool := onePool(t, p)
		for name, text := range pool.Capacity {
			left := resource.MustParse(text)
			o := pool.Overhead
			for _, part := range []map[string]string{o.KubeReserved, o.SystemReserved, o.EvictionThreshold} {
				if amount, exists := part[name]; exists {
					q := resource.MustParse(amount)
					if q.Sign() < 0 {
						t.Errorf("%s: got an overhead of %s of %s, want none below 0", source, amount, name)
					}
					left.Sub(q)
				}
			}
			if want := resource.MustParse(pool.Allocatable[name]); left.Cmp(want) != 0 {
				t.Errorf("%s: got %s of %s less the overhead %+v, want %s", source, &left, name, o, &want)
			}
		}
	}
}
