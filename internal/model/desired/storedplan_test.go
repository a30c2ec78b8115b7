package desired

import (
	"maps"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

func TestParseStoredPlan(t *testing.T) {
	for text, want := range table.YAML[map[string]map[string]string](t, `
'': {}
'{': {}
'{"files":null}': {}
'{"machine":"x"}': {}
'{"files":[{"path":"/a","purpose":"state","mode":1},{"path":"/b"}],"x":1}': {/a: state, /b: ''}
`) {
		got := map[string]string{}
		p, _ := ParseStoredPlan([]byte(text)) // zero with an error
		for _, f := range p.Files {
			got[f.Path] = p.File(f.Path).Purpose
		}
		if !maps.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
