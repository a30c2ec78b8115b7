package kubelet

import (
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

func TestParseTaint(t *testing.T) {
	for text, want := range map[string]Taint{
		"a=b:NoSchedule":                            {"a", "b", "NoSchedule"},
		"a:NoExecute":                               {"a", "", "NoExecute"},
		"a=:PreferNoSchedule":                       {"a", "", "PreferNoSchedule"},
		"nvidia.com/gpu=true:NoSchedule":            {"nvidia.com/gpu", "true", "NoSchedule"},
		"node-role.kubernetes.io/master=:NoExecute": {"node-role.kubernetes.io/master", "", "NoExecute"},
	} {
		got, err := ParseTaint(text)
		if err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
		if again, err := ParseTaint(got.String()); err != nil || again != got {
			t.Errorf("%q printed as %q: got %v, %v; want the same taint", text, got, again, err)
		}
	}
	for text, says := range map[string]string{
		"":                 "no effect",
		"a":                "write a:NoSchedule",
		"a=b":              "no effect",
		"a=b:NoSchedul":    "did you mean NoSchedule?",
		"a=b:noschedule":   "did you mean NoSchedule?",
		"a=b:":             "want one of",
		"=b:NoSchedule":    "key is empty",
		"a=b=c:NoSchedule": "more than one =",
		"a:b:NoSchedule":   "more than one colon",
		"a=b c:NoSchedule": "invalid value",
		"a b=c:NoSchedule": "invalid key",
		"a:NoSchedule-":    "removes a taint",
		"a=" + strings.Repeat("b", 64) + ":NoSchedule": "63",
	} {
		if _, err := ParseTaint(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q in it", text, err, says)
		}
	}
}

func TestParseTaints(t *testing.T) {
	if _, err := ParseTaints("a=1:NoSchedule,a=2:NoSchedule"); err == nil ||
		!strings.Contains(err.Error(), "duplicated taints with the same key and effect") {
		t.Error(err)
	}
	taints, err := ParseTaints("a=1:NoSchedule,a=1:NoExecute, b:NoSchedule")
	if err != nil || len(taints) != 3 {
		t.Fatal(taints, err)
	}
	if got := FormatTaints(taints); got != "a=1:NoSchedule,a=1:NoExecute,b=:NoSchedule" {
		t.Error(got)
	}
	taints, err = ParseTaints("a:NoSchedule-,b-,c:NoSchedule")
	if got := FormatTaints(taints); got != "c=:NoSchedule" || err != nil {
		t.Errorf("removals: got %q, %v; want c=:NoSchedule alone, and no error", got, err)
	}
	for _, text := range []string{"a:NoSchedul-", "a b-", "-", "a:NoSchedule--"} {
		if _, err := ParseTaints(text); err == nil {
			t.Errorf("%q: got no error; want the kubelet's, which ends with it", text)
		}
	}
	if none, err := ParseTaints(""); none != nil || err != nil {
		t.Error(none, err)
	}
}

func TestMergeTaints(t *testing.T) {
	taint := func(text string) Taint {
		parsed, err := ParseTaint(text)
		must(t, err)
		return parsed
	}
	for _, c := range table.YAML[[]struct {
		Base   string
		Wanted []string
		Want   string
	}](t, `
- {base: 'b=1:NoSchedule,a:NoExecute', wanted: [a:NoExecute, b=1:NoSchedule], want: 'b=1:NoSchedule,a:NoExecute'}
- {base: 'b=1:NoSchedule,a:NoExecute', wanted: [a=:NoExecute, b=2:NoSchedule], want: 'b=2:NoSchedule,a:NoExecute'}
- base: b=1:NoSchedule
  wanted: [b=1:NoSchedule, z=:NoSchedule, c=:NoSchedule]
  want: b=1:NoSchedule,c=:NoSchedule,z=:NoSchedule
- {base: b=1:NoSchedule}
- {wanted: [b=1:NoSchedule], want: b=1:NoSchedule}
- {base: 'b=1:NoSchedule,a:NoExecute-', wanted: [b=1:NoSchedule], want: b=1:NoSchedule}
- {base: not taints, wanted: [b=1:NoSchedule], want: b=1:NoSchedule}
`) {
		var wanted []Taint
		for _, w := range c.Wanted {
			wanted = append(wanted, taint(w))
		}
		if got := MergeTaints(c.Base, wanted); got != c.Want {
			t.Errorf("%q with %q: %q, want %q", c.Base, c.Wanted, got, c.Want)
		}
	}
}

func TestMergeList(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Base   string
		Wanted map[string]string
		Want   string
	}](t, `
- {base: 'b=2,a=1', wanted: {a: '1', b: '2'}, want: 'b=2,a=1'}
- {base: ' b=2, a=1,', wanted: {a: '1', b: '2'}, want: ' b=2, a=1,'}
- {base: 'b=2,a', wanted: {a: '', b: '2'}, want: 'b=2,a'}
- {base: 'b=2,a=1', wanted: {a: '9', b: '2', z: '', c: '3'}, want: 'b=2,a=9,c=3,z='}
- {base: 'b=2,a=1', wanted: {a: '1'}, want: a=1}
- {base: 'b=2,b=3', wanted: {b: '3'}, want: b=3}
- {base: 'b=3,b=3', wanted: {b: '3'}, want: 'b=3,b=3'}
- {wanted: {b: '3', a: '1'}, want: 'a=1,b=3'}
- {}
`) {
		if got := MergeList(c.Base, LabelItems(c.Wanted)); got != c.Want {
			t.Errorf("%q with %v: %q, want %q", c.Base, c.Wanted, got, c.Want)
		}
	}
}

func TestParseLabels(t *testing.T) {
	labels, err := ParseLabels("b=ä, a=,c,b=2,,")
	if err != nil || !slices.Equal(labels, []Label{{"b", "2"}, {"a", ""}, {"c", ""}}) {
		t.Errorf("got %v, %v; want b=2, a, c and no error", labels, err)
	}
	for _, bad := range []string{"a=b c", "=x", "-a=1", "a/b/c=1", "a=" + strings.Repeat("x", 64), strings.Repeat("x", 64) + "=1", "A_B.com/x=1"} {
		if _, err := ParseLabels(bad); err == nil {
			t.Errorf("%q was parsed, want an error", bad)
		}
	}
}

func TestCheckNodeKey(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Key, Version string
		OK           bool
	}](t, `
- {key: accelerator, ok: true}
- {key: network.netease.com/sriov-type, ok: true}
- {key: notkubernetes.io/x, ok: true}
- {key: feature.node.kubernetes.io/cpu, ok: true}
- {key: node.kubernetes.io/anything, ok: true}
- {key: kubelet.kubernetes.io/x, ok: true}
- {key: a.kubelet.kubernetes.io/x, ok: true}
- {key: topology.kubernetes.io/zone, ok: true}
- {key: topology.kubernetes.io/rack}
- {key: kubernetes.io/hostname, ok: true}
- {key: kubernetes.io/x}
- {key: k8s.io/x}
- {key: a.k8s.io/x}
- {key: node-role.kubernetes.io/gpu}
- {key: node-role.kubernetes.io/gpu, version: v1.16.0}
- {key: node-role.kubernetes.io/gpu, version: v1.15.12, ok: true}
- {key: node-role.kubernetes.io/gpu, version: '1.11', ok: true}
- {key: node-role.kubernetes.io/gpu, version: nonsense}
- {key: x.node-restriction.kubernetes.io/y}
- {key: x.node-restriction.kubernetes.io/y, version: v1.15.0}
- {key: node-restriction.kubernetes.io/y}
- {key: evilnode.kubernetes.io/y}
`) {
		err := CheckNodeKey(c.Key, c.Version)
		if (err == nil) != c.OK {
			t.Errorf("%s on %q: got %v, want allowed: %t", c.Key, c.Version, err, c.OK)
		}
		if err != nil && !strings.Contains(err.Error(), "domain of your own") {
			t.Errorf("%s: got %v, want a next step in it", c.Key, err)
		}
	}
	if err := CheckLabel("a", "x y"); err == nil {
		t.Error("a value with a space passed")
	}
	for label, ok := range map[string]bool{"kubernetes.io/os=linux": true, "kubernetes.io/os=Linux": false, "kubernetes.io/arch=arm64": true, "kubernetes.io/arch=x86_64": false,
		"beta.kubernetes.io/os=x": true, "kubernetes.io/hostname=x": true, "os=x": true} {
		key, value, _ := strings.Cut(label, "=")
		if err := CheckOwnLabel(key, value); (err == nil) != ok ||
			err != nil && !strings.Contains(err.Error(), "own value") {
			t.Errorf("%s: got %v, want accepted: %t", label, err, ok)
		}
	}
	if !FollowsRestart("topology.kubernetes.io/zone") || FollowsRestart("accelerator") {
		t.Error("FollowsRestart")
	}
}
