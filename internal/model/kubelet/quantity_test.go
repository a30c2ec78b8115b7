package kubelet

import (
	"testing"
	"time"

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
		began := time.Now()
		got, err := ParseQuantity(text)
		if (err == nil) != isValid {
			t.Errorf("ParseQuantity(%q): got %s, %v; want valid %t", text, got.String(), err, isValid)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("ParseQuantity(%q): got an answer after %s, want it at once", text, took)
		}
	}
}
