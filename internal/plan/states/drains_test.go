package states

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

// TestListDrains: less for pods, or another place for them, needs a drained node; more for them, and what only new pods
// notice, does not.
func TestListDrains(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Name         string
		Old, Planned map[string]any
		Want         []string
	}](t, `
- {name: nothing}
- {name: maxPods lower than the default, planned: {maxPods: 50}, want: ["maxPods becomes 50, was 110"]}
- {name: maxPods higher, old: {maxPods: 50}, planned: {maxPods: 250}}
- {name: maxPods at its default, planned: {maxPods: 110}}
- {name: a first podsPerCore, planned: {podsPerCore: 10}, want: ["podsPerCore becomes 10, was 0"]}
- {name: no podsPerCore, old: {podsPerCore: 10}, planned: {podsPerCore: 0}}
- name: larger reservations
  old: {kubeReserved: {cpu: 100m, memory: 1Gi}, systemReserved: {memory: 1Gi}}
  planned: {kubeReserved: {cpu: "0.2", memory: 1024Mi}, systemReserved: {memory: 2Gi, pid: "100"}}
  want:
  - kubeReserved.cpu becomes 0.2, was 100m
  - systemReserved.memory becomes 2Gi, was 1Gi
  - systemReserved.pid becomes 100, was empty
- name: smaller reservations
  old: {kubeReserved: {cpu: 200m}, systemReserved: {memory: 2Gi}}
  planned: {kubeReserved: {cpu: 100m}}
- {name: the default thresholds, planned: {evictionHard: {memory.available: 100Mi, nodefs.available: 10%}}}
- name: larger thresholds
  planned: {evictionHard: {memory.available: 200Mi, nodefs.available: 12%, imagefs.available: 10Gi}}
  want:
  - evictionHard.imagefs.available becomes 10Gi, was 15%
  - evictionHard.memory.available becomes 200Mi, was 100Mi
  - evictionHard.nodefs.available becomes 12%, was 10%
- name: a threshold that is off
  planned: {evictionHard: {memory.available: 100%}}
- name: policies
  planned: {cpuManagerPolicy: static, memoryManagerPolicy: Static, topologyManagerPolicy: restricted}
  want:
  - cpuManagerPolicy becomes static, was none
  - memoryManagerPolicy becomes Static, was None
  - topologyManagerPolicy becomes restricted, was none
- name: options
  old: {cpuManagerPolicy: static}
  planned: {cpuManagerPolicy: static, cpuManagerPolicyOptions: {full-pcpus-only: "true"}, reservedSystemCPUs: 0-1}
  want: [cpuManagerPolicyOptions changes, "reservedSystemCPUs becomes 0-1, was empty"]
- name: another runtime and another driver
  old: {cgroupDriver: systemd}
  planned: {containerRuntimeEndpoint: unix:///run/crio.sock}
  want:
  - cgroupDriver becomes cgroupfs, was systemd
  - containerRuntimeEndpoint becomes unix:///run/crio.sock, was unix:///run/containerd/containerd.sock
- name: what new pods and the kubelet itself notice
  planned: {clusterDNS: [10.0.0.10], featureGates: {A: true}, imageGCHighThresholdPercent: 80, logging: {verbosity: 4}}
- {name: an amount that nobody can read, planned: {kubeReserved: {memory: a lot}}, want: ["kubeReserved.memory becomes a lot, was empty"]}
`) {
		if got := ListDrains(c.Old, c.Planned); !slices.Equal(got, c.Want) {
			t.Errorf("%s: got %q, want %q", c.Name, got, c.Want)
		}
	}
}

// Property: of random configurations, each reason of some changes is also one of more changes.
func TestMoreChangesDrainNoLess(t *testing.T) {
	values := map[string][]any{
		"maxPods":               {10, 110, 250},
		"podsPerCore":           {0, 5, 10},
		"kubeReserved":          {nil, map[string]any{"cpu": "1"}, map[string]any{"cpu": "2", "memory": "1Gi"}},
		"systemReserved":        {nil, map[string]any{"memory": "1Gi"}, map[string]any{"memory": "2Gi"}},
		"evictionHard":          {nil, map[string]any{"memory.available": "5%"}, map[string]any{"memory.available": "1Gi"}},
		"cpuManagerPolicy":      {nil, "none", "static"},
		"topologyManagerPolicy": {nil, "none", "restricted"},
		"cgroupDriver":          {nil, "systemd", "cgroupfs"},
		"clusterDomain":         {nil, "a", "b"},
	}
	rng := rand.New(rand.NewPCG(4, 4))
	reasons := 0
	for range 2000 {
		old, some, more := map[string]any{}, map[string]any{}, map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			of := values[name]
			old[name] = of[rng.IntN(len(of))]
			some[name], more[name] = old[name], old[name]
			if rng.IntN(2) == 0 {
				more[name] = of[rng.IntN(len(of))]
			}
			if rng.IntN(2) == 0 {
				some[name] = more[name]
			}
		}

		few, many := ListDrains(old, some), ListDrains(old, more)
		reasons += len(few)
		for _, why := range few {
			if !slices.Contains(many, why) {
				t.Fatalf("from %v: the changes to %v need a drain because %s, and those to %v do not: %q",
					old, some, why, more, many)
			}
		}
		if !reflect.DeepEqual(ListDrains(old, old), []string(nil)) {
			t.Fatalf("no change of %v: got %q, want nothing", old, ListDrains(old, old))
		}
	}
	t.Logf("%d reasons", reasons)
	if reasons == 0 {
		t.Error("no change needed a drain")
	}
}
