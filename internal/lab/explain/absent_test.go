package explain_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/lab/explain"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// sitePlan plans a site that a test wrote, on the DGX, with facts changed.
func sitePlan(t *testing.T, text string, changes ...func(map[string]any)) *evaluate.Plan {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "site.hcl"), base+text)
	b, err := os.ReadFile(factsDir + "dgx-h100.json")
	must(t, err)
	for _, change := range changes {
		var facts map[string]any
		must(t, json.Unmarshal(b, &facts))
		change(facts)
		b, err = json.Marshal(facts)
		must(t, err)
	}
	root := t.TempDir()
	write(t, filepath.Join(root, "etc/x"), "text of the file\n")
	return plan(t, []string{dir}, root, b, nil)
}

const base = `
cluster {
  servers        = ["https://10.0.0.11:6443"]
  ca_cert_hashes = ["sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270"]
  token          = credential("bootstrap-token")
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "detect-hw" "node" {}
stage "write" "kubelet" {}
locals { hw = stage.detect-hw.node }
`

func gpu(f map[string]any, n int) map[string]any {
	return f["accelerators"].([]any)[n].(map[string]any)
}

// TestNotThere is the question that is asked most: why is it not there?
func TestNotThere(t *testing.T) {
	same := func(map[string]any) {}
	noModel := func(f map[string]any) { gpu(f, 0)["model"] = nil }
	for _, c := range []struct {
		name, site, item string
		facts            func(map[string]any)
		want             []string // in the text, in this order
	}{
		{"a condition that is false", `stage "label" "x" {
  when   = length(local.hw.gpus) > 8
  labels = { gpus = "many" }
}`, "label/gpus", same, []string{"is not in the plan", "its condition is not true: length(local.hw.gpus) > 8", "stage.label.x", "when length(local.hw.gpus) > 8 is false", "stage.detect-hw.node.gpus = [8 elements]"}},
		{"a condition of a taint", `stage "taint" "x" {
  when   = local.hw.product.vendor == "Dell"
  taints = ["vendor=dell:NoSchedule"]
}`, "taint/vendor", same, []string{"is not in the plan", "its condition is not true", `stage.detect-hw.node.product.vendor = "NVIDIA"`}},
		{"a value that is null", `stage "label" "x" { labels = { memory = local.hw.gpus[0].memory_gib } }`, "label/memory", same,
			[]string{"sets it to null", "stage.detect-hw.node.gpus[0].memory_gib = null", "unknown: only the vendor"}},
		{"a branch that gives null", `stage "label" "x" { labels = { m = local.hw.gpus[0].model == "H100 80GB HBM3" ? null : "other" } }`, "label/m", same,
			[]string{"sets it to null", `local.hw.gpus[0].model == "H100 80GB HBM3" is true`, `so it is null, not "other"`}},
		{"an item left out for a null fact", `stage "label" "x" { labels = {
  m     = upper(local.hw.gpus[0].model)
  other = "stays"
} }`, "label/m", noModel, []string{"left it out", "upper(local.hw.gpus[0].model) = (error)", "stage.detect-hw.node.gpus[0].model = null"}},
		{"a taint for a null fact", `stage "taint" "x" { taints = ["gpu=${slug(upper(local.hw.gpus[0].model))}:NoSchedule"] }`, "taint/gpu", noModel,
			[]string{"stage.taint.x failed", "stage.detect-hw.node.gpus[0].model = null"}},
		{"no element of for_each", `stage "label" "x" {
  for_each = { for n in local.hw.nics : n.interface => n if n.speed_gbps == 100 }
  labels   = { "net.example.com/${each.key}" = "fast" }
}`, "label/net.example.com/eth7", same, []string{"on this machine it sets others", "for_each = ", "stage.detect-hw.node.nics = [8 elements]"}},
		{"another element of for_each", `stage "label" "x" {
  for_each = toset(["a", "b"])
  labels   = { "set.example.com/${each.value}" = "in" }
}`, "label/set.example.com/c", same, []string{"on this machine it sets others", `for_each = toset(["a", "b"])`}},
		{"a detector that is absent", `detector "nvidia" {}
stage "label" "x" { from_detectors = ["nvidia.com/*"] }`, "label/nvidia.com/gpu.count", same, []string{"No detector recommends it", "detector nvidia", "absent"}},
		{"keys from data", `locals { mine = { for k in split(",", "a,b") : k => "1" } }
stage "label" "x" { labels = local.mine }`, "label/c", same, []string{"on this machine it sets others", "local.mine = "}},
		{"an override", `stage "label" "x" { labels = { a = "1" } }
override {
  stage "label" "x" { when = false }
}`, "label/a", same, []string{"its condition is not true: false", "stage.label.x when", "added by an override"}},
		{"a flag that is null", `override {
  stage "write" "kubelet" {
    kubelet_flags { flags = { provider-id = local.hw.gpus[0].memory_gib } }
  }
}`, "flag/provider-id", same, []string{"sets it to null", "stage.detect-hw.node.gpus[0].memory_gib = null"}},
		{"a stage of recommendations that is left out", `detector "nvidia" {}
stage "label" "x" {
  when           = local.hw.virtualization == "kvm"
  from_detectors = ["nvidia.com/*"]
}`, "label/nvidia.com/gpu.count", same, []string{"its condition is not true", `local.hw.virtualization == "kvm" is false`}},
		{"an item of a stage that is left out", `stage "label" "x" {
  when     = local.hw.virtualization == "kvm"
  for_each = toset([for n in local.hw.nics : n.interface])
  labels   = { "net.example.com/${each.key}" = "fast" }
}`, "label/net.example.com/eth7", same, []string{"its condition is not true", `local.hw.virtualization == "kvm" is false`}},
		{"a file whose path was not evaluated", `override {
  stage "write" "kubelet" {
    file "x" {
      when    = local.hw.virtualization == "kvm"
      path    = "/etc/${local.hw.product.vendor}"
      content = "x"
    }
  }
}`, "file/etc/x", same, []string{`file "x", whose path "/etc/${local.hw.product.vendor}" was not evaluated, is left out`,
			`local.hw.virtualization == "kvm" is false`}},
		{"a file whose condition is false", `override {
  stage "write" "kubelet" {
    file "x" {
      when    = local.hw.virtualization == "kvm"
      path    = "/etc/x"
      content = "x"
    }
  }
}`, "file/etc/x", same, []string{"its condition is not true", `local.hw.virtualization == "kvm" is false`, `stage.detect-hw.node.virtualization = "none"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := explained(t, sitePlan(t, c.site, c.facts), c.item)
			if x.Present || x.Whole != nil {
				t.Fatalf("got the value %v; want an absent item", x.Whole)
			}
			checkOrder(t, x, c.want)
		})
	}
}

// TestStageFailed explains a run that ended early: the label's stage is right, and yet the label is missing.
func TestStageFailed(t *testing.T) {
	p := sitePlan(t, `stage "label" "x" { labels = { a = "1" } }
stage "label" "y" { labels = { a = "2" } }`)
	if !p.Diagnostics.HasErrors() {
		t.Fatal("got no error of two stages that disagree; want one")
	}
	if x, _ := explain.Explain(p, explain.Item{Kind: explain.Label, Name: "b"}); x.Present {
		t.Error("got a label that no stage sets; want it absent")
	}
	q := sitePlan(t, `stage "fetch-config" "x" { config_map = "kube-system/missing" }
stage "label" "x" { labels = { a = stage.fetch-config.x.data["k"] } }`)
	x := explained(t, q, "label/a")
	if x.Present || !strings.Contains(x.Summary, "stage.label.x") && !strings.Contains(x.Summary, "run ended") {
		t.Errorf("summary of a stage whose input failed: got %q; want the stage or the end of the run", x.Summary)
	}
}

// TestRunEnded expects the reason why the run ended, not the explanation of a site without facts.
func TestRunEnded(t *testing.T) {
	p := sitePlan(t, `variable "zone" {}
stage "label" "x" {
  when   = length(local.hw.gpus) > 0
  labels = { a = var.zone }
}
stage "taint" "x" { taints = ["a=${var.zone}:NoSchedule"] }`)
	for _, item := range []string{"label/a", "taint/a"} {
		if x := explained(t, p, item); !strings.Contains(x.Summary, `Variable "zone" has no value`) {
			t.Errorf("%s: got %q; want the variable without a value in\n%s", item, x.Summary, text(t, x))
		}
	}
}

// TestUnread has a recording without facts: values that depend on them cannot be explained.
func TestUnread(t *testing.T) {
	p := sitePlan(t, `stage "label" "x" {
  when   = length(local.hw.gpus) > 0
  labels = { a = "1" }
}
stage "label" "y" { labels = { b = local.hw.product.vendor } }`)
	q := replay(p, slices.DeleteFunc(p.Tape.Entries(), func(e tape.Entry) bool { return e.Kind == tape.KindHardware }))
	for _, item := range []string{"label/a", "label/b"} {
		if x := explained(t, q, item); x.Present || !strings.Contains(x.Summary, "Not in this recording") {
			t.Errorf("%s: got\n%s\nwant that the recording lacks the facts", item, text(t, x))
		}
	}
}

// TestStale is of answers that the last good generation gave: the chain says so.
func TestStale(t *testing.T) {
	p := sitePlan(t, `stage "label" "x" { labels = { a = stage.fetch-config.kubelet.resource_version } }`)
	entries := p.Tape.Entries()
	for n := range entries {
		if entries[n].Kind == tape.KindObject {
			entries[n].Answer.Stale, entries[n].Answer.Because = 7, "no server answered."
		}
	}
	x := explained(t, replay(p, entries), "label/a")
	checkOrder(t, x, []string{"stale: from generation 7, because no server answered"})
	for _, s := range x.Chain {
		if s.Answer != nil && s.Answer.Kind == tape.KindObject && s.Answer.Stale != 7 {
			t.Errorf("step %q: got generation %d, want 7", s.Text, s.Answer.Stale)
		}
	}
}

// TestNothingCouldSetIt leaves it to the caller to suggest something.
func TestNothingCouldSetIt(t *testing.T) {
	p := sitePlan(t, `stage "label" "x" { labels = { accelerator = "h100" } }`)
	i := explain.Item{Kind: explain.Label, Name: "acelerator"}
	if _, known := explain.Explain(p, i); known {
		t.Error("a misspelt label: got a known item, want an unknown one")
	}
	if near := explain.Near(p, i); len(near) != 1 || near[0].Name != "accelerator" {
		t.Errorf("similar items: got %v, want accelerator", near)
	}
	for _, i := range []explain.Item{{Kind: explain.Taint, Name: "x"}, {Kind: explain.Flag, Name: "no-such"}, {Kind: explain.Config, Name: "noSuch.field"}, {Kind: explain.File, Name: "/no/such"}, {Kind: "pod", Name: "x"}} {
		if x, known := explain.Explain(p, i); known {
			t.Errorf("%s: got %+v, want an unknown item", i, x)
		}
	}
}

// TestReplacedOfBase checks that the base's value comes from the item of a note, whatever the note's text is.
func TestReplacedOfBase(t *testing.T) {
	p := sitePlan(t, `
override {
  stage "write" "kubelet" {
    kubelet_config { patch = { clusterDomain = "other.example" } }
  }
}`)
	found := false
	for _, d := range p.Diagnostics {
		if origin.IsReplaced(d, "config/clusterDomain") {
			found = true
			d.Summary, d.Detail = "In other words", "The base has another domain."
		}
	}
	if !found {
		t.Fatalf("got %v; want a note of the field", p.Diagnostics)
	}

	if got := text(t, explained(t, p, "config/clusterDomain")); !strings.Contains(got, "The base has another domain") {
		t.Errorf("got\n%s\nwant what the base had", got)
	}
}
