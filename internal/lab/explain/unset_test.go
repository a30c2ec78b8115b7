package explain_test

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/lab/explain"
)

// What neither the base nor the site sets is the kubelet's own, and explain says so instead of not knowing the field.
func TestUnsetFields(t *testing.T) {
	for _, c := range []struct{ name, site, item, want string }{
		{"a default that is known", "", "config/maxPods", "so the kubelet's default holds: 110."},
		{"all of a map", "", "config/evictionHard", `"memory.available":"100Mi","nodefs.available":"10%"`},
		{"a key of it", "", "config/evictionHard.memory.available", `so the kubelet's default holds: "100Mi".`},
		{"a key without a default", "", "config/evictionHard.pid.available", "the kubelet has no such " +
			"threshold by itself"},
		{"a key next to others", "patch = { evictionHard = { \"pid.available\" = \"5%\" } }", "config/evictionHard.memory.available", "the thresholds in it and no others"},
		{"a key next to others, merged", "patch = { mergeDefaultEvictionSettings = true, evictionHard = { " +
			"\"pid.available\" = \"5%\" } }", "config/evictionHard.memory.available", `default holds: "100Mi"`},
		{"a default that is not known", "", "config/podPidsLimit", "so the kubelet's default holds."},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sitePlan(t, "override {\n stage \"write\" \"kubelet\" {\n kubelet_config {\n"+c.site+"\n}\n}\n}\n")
			if x := explained(t, p, c.item); x.Present || !strings.Contains(x.Summary, c.want) {
				t.Errorf("got present %t, %q; want absent, %q", x.Present, x.Summary, c.want)
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
