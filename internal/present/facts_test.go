package present

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/world"
)

// A machine without DMI has no product to show; one that tells half of it shows that half.
func TestFactsWithoutDMI(t *testing.T) {
	print := func(f world.Facts) string {
		var b bytes.Buffer
		if err := FactsText(&b, f, Style{Width: 80}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if out := print(world.Facts{}); strings.Contains(out, "machine") || strings.Contains(out, "?") {
		t.Errorf("nothing is known of the product:\n%s", out)
	}
	name := "PowerEdge"
	if out := print(world.Facts{Product: world.Product{Name: &name}}); !strings.HasPrefix(out, "machine  PowerEdge\n") {
		t.Errorf("its name is known:\n%s", out)
	}
}
