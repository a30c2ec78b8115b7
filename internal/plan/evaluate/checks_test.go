package evaluate

import (
	"reflect"
	"testing"

	"github.com/prelet/prelet/internal/plan/detectors"
	"github.com/prelet/prelet/plugins/contract"
)

// A check of an earlier run counts only where the site and the detectors are the same: the next machine may have
// another version of a detector, or none.
func TestChecksAreOfOneSiteAndItsDetectors(t *testing.T) {
	const text = "detector \"gaudi\" {\n  required = false\n" + grants + "}\n" +
		"locals {\n  ports = stage.detect-hw.node.detectors.gaudi.facts.ports\n}\n" + afterDetectors
	site, other := mustParse(t, text), mustParse(t, text)
	older := describeGaudi()
	older.Facts = older.Facts[:1] // without ports

	var shared Checks
	for _, c := range []struct {
		name      string
		detectors []contract.Description
		isRefused bool
	}{
		{"the detector", []contract.Description{describeGaudi()}, false},
		{"an older one", []contract.Description{older}, true},
		{"the first again", []contract.Description{describeGaudi()}, false},
		{"none", nil, false},
	} {
		locks := detectors.ReadLocks(t.Context(), site, detectorWorld(t, makeBareVM(), nil, c.detectors...))
		want, wantFound := check(site, locks)
		got, found := shared.check(site, locks)
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(found, wantFound) {
			t.Errorf("%s: got %v, %v; want %v, %v", c.name, got.types, found.Diags, want.types, wantFound.Diags)
		}
		if found.Diags.HasErrors() != c.isRefused {
			t.Errorf("%s: got %v, want an error: %v", c.name, found.Diags, c.isRefused)
		}
		again, _ := shared.check(site, locks)
		isKept := reflect.ValueOf(again.types).Pointer() == reflect.ValueOf(got.types).Pointer()
		if isKept == c.isRefused {
			t.Errorf("%s, once more: got the same check: %v, want %v", c.name, isKept, !c.isRefused)
		}
		if got, _ := shared.check(other, locks); got.site != other {
			t.Errorf("%s: the check of another site is that of the first one", c.name)
		}
	}
}
