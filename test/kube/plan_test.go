package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// plan is what `prelet plan -o json` says, as far as these tests look.
type plan struct {
	Complete bool
	Hash     string `json:"plan_hash"`
	Degraded []struct{ Code, Summary string }
	Node     struct {
		Labels map[string]struct {
			Value       string
			TakesEffect string `json:"takes_effect"`
		}
		Taints   []struct{ Key, Value, Effect string }
		Config   map[string]any `json:"kubelet_config"`
		Reserved *struct {
			Kube         map[string]string `json:"kube_reserved"`
			System       map[string]string `json:"system_reserved"`
			CPUs         string            `json:"reserved_cpus"`
			EvictionHard map[string]string `json:"eviction_hard"`
			Allocatable  map[string]string
			MaxPods      int64 `json:"max_pods"`
		}
	}
	Files []struct{ Path, Action, Purpose string }
}

func planOf(t testing.TB, n *Node) plan {
	t.Helper()
	var p plan
	must(t, json.Unmarshal([]byte(prelet(t, n, 0, "plan", "-o", "json").Out), &p))
	if !p.Complete {
		t.Fatal("the plan is not complete")
	}
	return p
}

// siteOf is an example's site with a layer of this cluster on it, as a site would override its image's.
func siteOf(t *testing.T, c *Cluster, example string, layer ...string) map[string]string {
	t.Helper()
	pin, err := c.Pin()
	must(t, err)
	files := map[string]string{}
	folder := filepath.Join("../../examples", example)
	entries, err := os.ReadDir(folder)
	must(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".hcl") {
			text, err := os.ReadFile(filepath.Join(folder, e.Name()))
			must(t, err)
			files[e.Name()] = string(text)
		}
	}
	files["90-cluster.hcl"] = `
override {
  cluster {
    ca_cert_hashes = ["` + pin + `"]
  }
}
override {
  stage "restart" "kubelet" {
    verify { settle = "1s" }
  }
}
` + strings.Join(layer, "\n")
	return files
}

// asPlanned compares a Node object with the plan that it joined by.
func asPlanned(t *testing.T, p plan, node *corev1.Node) {
	t.Helper()
	if len(p.Node.Labels) == 0 || p.Node.Reserved == nil || len(p.Node.Reserved.Allocatable) < 2 {
		t.Errorf(
			"the plan has nothing to compare: got %d labels, %d taints, reserved %+v; want some Node.Labels, "+
				"Node.Reserved other than nil and Node.Reserved.Allocatable at least 2",
			len(p.Node.Labels),
			len(p.Node.Taints),
			p.Node.Reserved,
		)
	}
	for key, want := range p.Node.Labels {
		if got, ok := node.Labels[key]; !ok || got != want.Value {
			t.Errorf("label %s is %q, planned %q", key, got, want.Value)
		}
	}
	var got, want []string
	for _, taint := range node.Spec.Taints {
		if !strings.HasPrefix(taint.Key, "node.kubernetes.io/") { // the cluster's own
			got = append(got, taint.ToString())
		}
	}
	for _, x := range p.Node.Taints {
		want = append(
			want,
			(&corev1.Taint{Key: x.Key, Value: x.Value, Effect: corev1.TaintEffect(x.Effect)}).ToString(),
		)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("taints %q, planned %q", got, want)
	}
	if p.Node.Reserved == nil {
		return
	}
	for name, text := range p.Node.Reserved.Allocatable {
		have := node.Status.Allocatable[corev1.ResourceName(name)]
		capacity := node.Status.Capacity[corev1.ResourceName(name)]
		if planned := resource.MustParse(text); have.Cmp(planned) != 0 {
			t.Errorf("allocatable %s is %s, planned %s (capacity %s); want Cmp 0",
				name, have.String(), text, capacity.String())
		}
	}
	if pods := node.Status.Allocatable[corev1.ResourcePods]; pods.Value() != p.Node.Reserved.MaxPods {
		t.Errorf("pods %s, planned %d; want Value %v", pods.String(), p.Node.Reserved.MaxPods, p.Node.Reserved.MaxPods)
	}
}

// disk is what a run that has nothing to do must not write to: path → mode, inode, times.
func (n *Node) disk() (map[string]string, error) {
	out := map[string]string{}
	for _, top := range []string{"/etc", "/var/lib/prelet"} {
		err := filepath.WalkDir(n.Root()+top, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			// What is known of the kubelet's binary is kept by whichever run could ask it in time, and its folder
			// changes with that. The event is another one after a first run in which a unit was to be restarted: these
			// nodes have the kubelet's unit only.
			isOther := slices.Contains([]string{"kubelet.json", "event"}, filepath.Base(p))
			if p == n.Root()+"/var/lib/prelet" || isOther {
				return nil
			}
			out[strings.TrimPrefix(p, n.Root())] = fmt.Sprintf("%s %d %s", info.Mode(), info.Size(), info.ModTime())
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
