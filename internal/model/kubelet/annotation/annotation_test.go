package annotation

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

func TestParse(t *testing.T) {
	reports := []Content{
		{Generation: 7, Plan: "sha256:ab", Revision: "v1.2", Degraded: []Reason{{"stale", `a "b" <c>`}}},
		{Generation: 1, Plan: "sha256:cd"},
	}
	for _, want := range reports {
		got, ok, err := Parse(want.Values())
		if err != nil || !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("what Values returned: got %+v, %t, %v; want %+v", got, ok, err, want)
		}
	}

	if _, ok, err := Parse(map[string]string{Degraded: "[]", "x": "y"}); ok || err != nil {
		t.Errorf("no generation: got %t, %v; want no report", ok, err)
	}
	for _, broken := range table.YAML[[]map[string]string](t, `
- {prelet.github.io/generation: seven}
- {prelet.github.io/generation: '-7'}
- {prelet.github.io/generation: '7', prelet.github.io/degraded: stale}
- {prelet.github.io/generation: '7', prelet.github.io/degraded: '[null]'}
- {prelet.github.io/generation: '7', prelet.github.io/degraded: '[{"code":"a; b","summary":"x"}]'}
`) {
		if _, _, err := Parse(broken); err == nil {
			t.Errorf("%v: got no error, want one", broken)
		}
	}
}

func TestValuesAreShort(t *testing.T) {
	many := slices.Repeat([]Reason{{"stale", strings.Repeat("é", 5000)}}, 1000)
	values := Content{Degraded: many}.Values()
	if n := len(values[Degraded]); n > 16<<10 {
		t.Errorf("1000 long reasons: got %d bytes, want at most 16 KiB", n)
	}
	r, _, err := Parse(values)
	if err != nil || len(r.Degraded) != maxReasons || !strings.HasSuffix(r.Degraded[0].Summary, "é…") {
		t.Errorf("1000 long reasons: got %d, %v; want %d shortened ones", len(r.Degraded), err, maxReasons)
	}
}

func TestChanges(t *testing.T) {
	have := map[string]string{Generation: "1", Plan: "a", Degraded: "[]", "example.com/x": "y"}
	got := Changes(have, map[string]string{Generation: "2", Plan: "a", Revision: "r"})
	keys := slices.Sorted(maps.Keys(got))
	if !slices.Equal(keys, []string{Degraded, Generation, Revision}) || got[Degraded] != nil ||
		*got[Generation] != "2" || *got[Revision] != "r" {
		t.Errorf("got changes of %q, want generation 2, revision r, and degraded removed", keys)
	}
}
