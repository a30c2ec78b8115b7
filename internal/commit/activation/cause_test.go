package activation

import (
	"testing"

	"github.com/prelet/prelet/internal/kubelet/failure"
)

// The item of a cause is the first one in the plan, otherwise a label that the cluster's message is about.
func TestLocated(t *testing.T) {
	p := Spec{
		Labels: map[string]string{"example.com/a": "", "example.com/ab": "", "z": ""},
		Sources: map[string]string{
			"label/example.com/a":  "site.hcl:1:1",
			"label/example.com/ab": "site.hcl:2:2",
			"label/z":              "site.hcl:4:4",
			"flag/x":               "site.hcl:3:3, write.kubelet",
		},
	}
	for _, c := range []struct {
		found    failure.Cause
		item, at string
	}{
		{failure.Cause{Items: []string{"config/x", "flag/x"}}, "flag/x", "site.hcl:3:3, write.kubelet"},
		{failure.Cause{Items: []string{"config/x"}, Words: "example.com/ab"}, "config/x", ""},
		{
			failure.Cause{Words: `nodes "n" is forbidden: policy 'lazy' denied request: example.com/ab is not allowed`},
			"label/example.com/ab", "site.hcl:2:2",
		},
		{failure.Cause{Words: "no more"}, "", ""},
	} {
		if got := p.withItem(c.found); got.Item != c.item || got.At != c.at {
			t.Errorf("%+v: %+v, want %s at %s", c.found, got, c.item, c.at)
		}
	}
}
