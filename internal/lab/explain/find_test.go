package explain_test

import (
	"fmt"
	"testing"

	"github.com/prelet/prelet/internal/lab/explain"
	"github.com/prelet/prelet/internal/testing/table"
)

func TestParse(t *testing.T) {
	for word, want := range map[string]explain.Item{
		"label/topology.kubernetes.io/zone": {Kind: explain.Label, Name: "topology.kubernetes.io/zone"},
		"taint/nvidia.com/gpu:NoSchedule":   {Kind: explain.Taint, Name: "nvidia.com/gpu:NoSchedule"},
		"flag/--node-ip":                    {Kind: explain.Flag, Name: "node-ip"},
		"config/evictionHard":               {Kind: explain.Config, Name: "evictionHard"},
		"file/etc/x":                        {Kind: explain.File, Name: "/etc/x"},
		"file//etc/x":                       {Kind: explain.File, Name: "/etc/x"},
		"code/null-fact":                    {Kind: explain.Code, Name: "null-fact"},
	} {
		if got, ok := explain.Parse(word); !ok || got != want {
			t.Errorf("%s: got %v, %t; want %v", word, got, ok, want)
		}
	}
	for _, word := range []string{"", "accelerator", "label/", "/etc/x", "pod/x", "topology.kubernetes.io/zone"} {
		if i, ok := explain.Parse(word); ok {
			t.Errorf("%q: got the item %v, want none", word, i)
		}
	}
}

func TestMatch(t *testing.T) {
	p := sitePlan(
		t,
		`stage "label" "x" { labels = { "a.example.com/zone" = "1", accelerator = "2", "b.example.com/pool" = "3" } }
stage "taint" "x" { taints = ["accelerator=x:NoSchedule", "zone.example.com/x=y:NoSchedule"] }`,
	)
	for word, want := range table.YAML[map[string]string](t, `
# Its last part.
zone: '[label/a.example.com/zone]'
# Two of one name.
accelerator: '[label/accelerator taint/accelerator]'
# Whole.
a.example.com/zone: '[label/a.example.com/zone]'
# Within.
example: '[label/a.example.com/zone label/b.example.com/pool taint/zone.example.com/x]'
clusterDNS: '[config/clusterDNS]'
/var/lib/kubelet/config.yaml: '[file/var/lib/kubelet/config.yaml]'
config.yaml: '[file/var/lib/kubelet/config.yaml]'
xyzzy: '[]'
`) {
		if got := fmt.Sprint(explain.Match(p, word)); got != want {
			t.Errorf("%s fits %s, want %s", word, got, want)
		}
	}
}

// TestDottedKeys finds fields below keys that hold dots themselves.
func TestDottedKeys(t *testing.T) {
	p := sitePlan(t, `override {
  stage "write" "kubelet" {
    kubelet_config { patch = { evictionHard = { "memory.available" = "1Gi" }, featureGates = { A = true } } }
  }
}`)
	for word, want := range map[string]any{"config/evictionHard.memory.available": "1Gi", "config/featureGates.A": true} {
		if x := explained(t, p, word); x.Whole != want {
			t.Errorf("%s: got %v, want %v", word, x.Whole, want)
		} else if len(x.Chain) == 0 || x.Range.Filename == "" {
			t.Errorf("%s: got\n%s\nwant a chain and a place", word, text(t, x))
		}
	}
}
