package rules

import (
	"fmt"
	"slices"
	"testing"
)

// TestDeclarations compares what nodes of several versions declare, as far as that is known.
func TestDeclarations(t *testing.T) {
	beta := []string{
		"ExtendWebSocketsToKubelet", "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers",
		"RestartAllContainersOnContainerExits",
	}
	for _, c := range []struct {
		version, config string
		want            []string
		isKnown         bool
	}{
		{"1.34.4", "maxPods: 1", nil, true},
		{"1.35.4", "maxPods: 1", nil, true},
		{"1.35.4", "featureGates: {NodeDeclaredFeatures: true}", nil, false},
		{"1.36.3", "maxPods: 1", beta, true},
		{"1.36.3", "featureGates: {NodeDeclaredFeatures: false}", nil, true},
		{"1.37.1", "maxPods: 1", beta, true},
		{"1.37.1", "featureGates: {VolumeBindMountOptions: true}", append(slices.Clone(beta), "VolumeBindMountOptions"), true},
		{"1.38.0", "maxPods: 1", nil, false},
		{"", "maxPods: 1", nil, false},
	} {
		list, isKnown := Declarations(Subject{Version: c.version, Config: config(t, c.config)})
		var got []string
		for _, f := range list {
			if f.Declared {
				got = append(got, f.Name)
			}
		}
		if isKnown != c.isKnown || !slices.Equal(got, c.want) {
			t.Errorf("%s with %s: got %q, %t; want %q, %t", c.version, c.config, got, isKnown, c.want, c.isKnown)
		}
	}
}

// TestDeclaredCause compares the gate that a note is about: one that is not set to its default.
func TestDeclaredCause(t *testing.T) {
	for _, c := range []struct{ version, gates, want string }{
		{"1.37.1", "{NodeDeclaredFeatures: true, InPlacePodVerticalScalingMemoryBackedVolumes: true}",
			"[/featureGates/InPlacePodVerticalScalingMemoryBackedVolumes]"},
		{"1.36.3", "{NodeDeclaredFeatures: true, AllAlpha: true}", "[/featureGates/AllAlpha]"},
		{"1.36.3", "{AllBeta: true, NodeDeclaredFeatures: true, UserNamespacesHostNetworkSupport: true}",
			"[/featureGates/UserNamespacesHostNetworkSupport]"},
		{"1.36.3", "{NodeDeclaredFeatures: false}", "[/featureGates/NodeDeclaredFeatures]"},
		{"1.37.1", "{ExtendWebSocketsToKubelet: true}", "[]"},
	} {
		places := []string{}
		for _, f := range Check(Subject{Version: c.version, Config: config(t, "featureGates: "+c.gates)}) {
			if f.Rule == "gate-declares" {
				places = append(places, f.Pointer)
			}
		}
		if got := fmt.Sprint(places); got != c.want {
			t.Errorf("%s with %s: got notes at %s, want %s", c.version, c.gates, got, c.want)
		}
	}
}
