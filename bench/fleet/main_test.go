package main

import (
	"strings"
	"testing"
)

// Recordings of two machines differ, in the values of the machine only.
func TestChangeMachine(t *testing.T) {
	const recording = `{"format":1,"answers":[` +
		`{"kind":"facts","args":{},"answer":{"value":{"cpu":{"logical":224},"product":{"serial":"a"},` +
		`"interfaces":{"eth0":{"mac":"x","ipv4":[]}}}}},{"kind":"kubelet","args":{},"answer":{"value":{}}}]}`
	one, err := changeMachine([]byte(recording), 1)
	if err != nil {
		t.Fatalf("changeMachine: got error %v, want none", err)
	}
	two, err := changeMachine([]byte(recording), 258)
	if err != nil {
		t.Fatalf("changeMachine: got error %v, want none", err)
	}
	for _, want := range []string{"gpu-00001", "SN-00000001", "02:00:5e:01:00:01", "10.1.0.1", `"logical":224`} {
		if !strings.Contains(string(one), want) {
			t.Errorf("machine 1: got %s, want %q in it", one, want)
		}
	}
	if want := "10.1.1.2"; !strings.Contains(string(two), want) {
		t.Errorf("machine 258: got %s, want %q in it", two, want)
	}
	if _, err := changeMachine([]byte(`{"answers":[]}`), 1); err == nil {
		t.Error("a recording without facts: got no error, want one")
	}
}
