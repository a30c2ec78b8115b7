package planning

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
)

// TestCheckVariable answers a question about a variable from the site alone, and names the nearest one that is declared.
func TestCheckVariable(t *testing.T) {
	site := &lang.Site{Variables: map[string]*lang.Variable{"region": {}, "zone": {}}}
	for word, want := range map[string]string{
		"var.region":       "var.region is a value of the site, and not an item of the plan: prelet eval var.region prints it",
		"var.zone.name":    "prelet eval var.zone.name prints it",
		"var.regoin":       "var.regoin is not declared in this site; did you mean var.region?",
		"var.rack":         "var.rack is not declared in this site, which declares region, zone",
		"label/var.region": "",
		"topology":         "",
		"var.io/rack":      "", // the key of a label
	} {
		err := checkVariable(site, word)
		if want == "" && err != nil {
			t.Errorf("%s: got %v, want no error", word, err)
		}
		if want != "" && (fault.CodeOf(err) != fault.Usage || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", word, err, want)
		}
	}
	if err := checkVariable(&lang.Site{}, "var.x"); err == nil || !strings.Contains(err.Error(), "has no variable") {
		t.Errorf("a site without variables: got %v, want that there is none", err)
	}
}
