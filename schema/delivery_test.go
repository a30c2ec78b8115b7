package schema

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

// A reference is checked where the site is loaded, before anything is asked.
func TestReferences(t *testing.T) {
	for _, c := range table.YAML[[]struct{ From, Says string }](t, `
- {from: 'registry.example.com/sites/gpu:stable oci://registry:5000/gpu:v1.2 oci-layout:/run/media/site oci-layout:/site:a'}
- {from: 'registry.example.com/sites/gpu@sha256:0000000000000000000000000000000000000000000000000000000000000000'}
- {from: '[2001:db8::1]:5000/gpu:stable'}
- {says: at least one reference}
- {from: registry.example.com/sites/gpu, says: invalid reference}
- {from: 'https://registry.example.com/sites/gpu:stable', says: invalid reference}
- {from: 'registry.example.com/sites/gpu@sha256:00', says: invalid reference}
- {from: 'oci-layout:media', says: invalid reference}
- {from: 'user:secret@registry.example.com/gpu:stable', says: invalid reference}
`) {
		err := DeliveryFrom.Check(strings.Fields(c.From))
		if (err == nil) != (c.Says == "") || err != nil && !strings.Contains(err.Error(), c.Says) {
			t.Errorf("%q: got %v, want %q", c.From, err, c.Says)
		}
	}
}
