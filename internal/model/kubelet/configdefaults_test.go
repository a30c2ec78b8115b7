package kubelet

import (
	"reflect"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

func TestKnownField(t *testing.T) {
	for name, want := range table.YAML[map[string]bool](t, `
maxPods: true
logging.options.json.infoBufferSize: true
authentication: true
featureGates.InPlacePodVerticalScaling: true
kubeReserved.cpu: true
evictionHard.memory.available: true
'': false
maxpods: false
maxPods.x: false
evictionHard.memory: false
evictionHard.: false
authentication.x: false
'reservedMemory[].limits': false
clusterDNS.0: false
`) {
		if got := KnownField(name, ""); got != want {
			t.Errorf("%q: got %t, want %t", name, got, want)
		}
	}
}

// The message about a missing evictionHard contains the values that the kubelet uses then.
func TestFieldDefault(t *testing.T) {
	empty := NewConfig()
	all, ok := FieldDefault("evictionHard", "")
	if !ok {
		t.Fatal("evictionHard has no default")
	}
	for signal, want := range EffectiveEvictionHard(empty, "") {
		if one, ok := FieldDefault("evictionHard."+signal, ""); !ok || one != want ||
			all.(map[string]any)[signal] != want {
			t.Errorf("%s: %v, %v; not %s", signal, one, all, want)
		}
	}
	for name, want := range map[string]any{"maxPods": int64(110), "memory.available": nil, "clusterDNS": nil, "evictionHard.pid.available": nil} {
		got, ok := FieldDefault(name, "")
		if ok != (want != nil) || want != nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, %t; want %v", name, got, ok, want)
		}
	}
}
