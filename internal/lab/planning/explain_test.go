package planning

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/plan/lang"
)

// TestFindVariable answers a question about a variable from the site alone, and names the nearest one that is declared.
func TestFindVariable(t *testing.T) {
	site := &lang.Site{Variables: map[string]*lang.Variable{"region": {}, "zone": {}}}
	for word, want := range map[string]string{
		"var.region":       "var/region",
		"label/var.region": "label/var.region",
		"topology":         "topology",
		"var.io/rack":      "var.io/rack", // the key of a label
	} {
		if got, err := findVariable(site, word); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", word, got, err, want)
		}
	}
	for word, want := range map[string]string{
		"var.zone.name": "prelet eval var.zone.name prints it",
		"var.regoin":    "var.regoin is not declared in this site; did you mean var.region?",
		"var.rack":      "var.rack is not declared in this site, which declares region, zone",
	} {
		_, err := findVariable(site, word)
		if fault.CodeOf(err) != fault.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", word, err, want)
		}
	}
	if _, err := findVariable(&lang.Site{}, "var.x"); err == nil || !strings.Contains(err.Error(), "has no variable") {
		t.Errorf("a site without variables: got %v, want that there is none", err)
	}
}
