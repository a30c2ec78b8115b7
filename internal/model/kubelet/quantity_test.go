package kubelet

import (
	"testing"

	"github.com/prelet/prelet/internal/testing/growth"
	"github.com/prelet/prelet/internal/testing/table"
)

func TestParseQuantity(t *testing.T) {
	for text, isValid := range table.YAML[map[string]bool](t, `
100Mi: true
'1e3': true
1E: true
'1e-3': true
'1e0000009': true
1E9999: true
'1E-9999': true
1E50000001: false
'1e-50000001': false
22E+22222222222229: false
1e0010000: false
E50000001: false
'': false
x: false
`) {
		got, err := ParseQuantity(text)
		if (err == nil) != isValid {
			t.Errorf("ParseQuantity(%q): got %s, %v; want valid %t", text, got.String(), err, isValid)
		}
		// A number with as many digits as an exponent says has megabytes.
		if bytes := growth.Allocated(func() { _, _ = ParseQuantity(text) }); bytes > 1<<20 {
			t.Errorf("ParseQuantity(%q): got %d bytes of memory, want at most a MiB", text, bytes)
		}
	}
}
