package explain_test

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/lab/explain"
	"github.com/prelet/prelet/internal/testing/table"
)

// What neither the base nor the site sets is the kubelet's own, and explain says so instead of not knowing the field.
func TestUnsetFields(t *testing.T) {
	for _, c := range table.YAML[[]struct{ Name, Site, Item, Want string }](t, `
- {name: a default that is known, item: config/maxPods, want: 'so the kubelet''s default holds: 110.'}
- {name: all of a map, item: config/evictionHard, want: '"memory.available":"100Mi","nodefs.available":"10%"'}
- {name: a key of it, item: config/evictionHard.memory.available, want: 'so the kubelet''s default holds: "100Mi".'}
- name: a key without a default
  item: config/evictionHard.pid.available
  want: the kubelet has no such threshold by itself
- name: a key next to others
  site: patch = { evictionHard = { "pid.available" = "5%" } }
  item: config/evictionHard.memory.available
  want: the thresholds in it and no others
- name: a key next to others, merged
  site: patch = { mergeDefaultEvictionSettings = true, evictionHard = { "pid.available" = "5%" } }
  item: config/evictionHard.memory.available
  want: 'default holds: "100Mi"'
- {name: a default that is not known, item: config/podPidsLimit, want: so the kubelet's default holds.}
`) {
		t.Run(c.Name, func(t *testing.T) {
			p := sitePlan(t, "override {\n stage \"write\" \"kubelet\" {\n kubelet_config {\n"+c.Site+"\n}\n}\n}\n")
			if x := explained(t, p, c.Item); x.Present || !strings.Contains(x.Summary, c.Want) {
				t.Errorf("got present %t, %q; want absent, %q", x.Present, x.Summary, c.Want)
			}
		})
	}
}

// Where a flag says it, no default holds.
func TestUnsetFieldWithFlag(t *testing.T) {
	p := sitePlan(t, `override {
  stage "write" "kubelet" {
    kubelet_flags { flags = { max-pods = 64 } }
  }
}`)
	if x := explained(
		t,
		p,
		"config/maxPods",
	); x.Present || !strings.Contains(x.Summary, "the kubelet's flag --max-pods is what counts") || len(x.Chain) == 0 ||
		x.Chain[0].Ref != "flag/max-pods" {
		t.Errorf("got %+v; want an absent field with the flag --max-pods", x)
	}
}

// In a plan that is not complete, it is unknown which settings the configuration lacks.
func TestUnsetFieldOfHalfAPlan(t *testing.T) {
	p := sitePlan(t, "")
	p.Complete = false
	if _, known := explain.Explain(p, explain.Item{Kind: explain.Config, Name: "maxPods"}); known {
		t.Error("a field of an incomplete plan: got a known item, want an unknown one")
	}
}
