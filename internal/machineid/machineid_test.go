package machineid

import (
	"strings"
	"testing"
)

// What a product uuid is compared by: byte order is the firmware's whim, and some boards have none.
func TestProductHash(t *testing.T) {
	one := productHash("4c4c4544-0042-3510-8054-b4c04f4d3332\n")
	if one == "" || one != productHash("44454C4C-4200-1035-8054-b4c04f4d3332") {
		t.Errorf("two spellings of one: %q, %q", one, productHash("44454C4C-4200-1035-8054-b4c04f4d3332"))
	}
	if one == productHash("4c4c4544-0042-3510-8054-b4c04f4d3333") || strings.Contains(one, "4c4c") {
		t.Errorf("another, or the uuid itself: %q", one)
	}
	for _, none := range []string{"", "Not Settable", "00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "03000200-0400-0500-0006-000700080009", "4c4c4544"} {
		if got := productHash(none); got != "" {
			t.Errorf("%q counts as an identity", none)
		}
	}
}
