package lang

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/testing/table"
)

func TestForDepth(t *testing.T) {
	for src, want := range table.YAML[map[string]int](t, `
'1': 0
'a[*].b': 0
'[for x in l : x]': 1
'[for x in [for y in l : y] : x]': 1
'[for x in l : [for y in x : y]]': 2
'{ for x in l : x => [for y in l : y if length([for z in l : z]) > 1] }': 3
'"%{ for x in l }%{ for y in l }a%{ endfor }%{ endfor }"': 2
'f([for x in l : (true ? [for y in l : -y] : [])])': 2
'{ "k${[for x in l : x][0]}" = [for x in l : x], (b[[for x in l : x][0]]) = 1 }': 1
'[for x in l : x if [for y in l : y] == [] ]': 2
`) {
		e, diags := hclsyntax.ParseExpression([]byte(src), "site.hcl", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatalf("%s: got %s, want no error", src, diags)
		}
		if got := forNesting(e); got != want {
			t.Errorf("%s: got depth %d, want %d", src, got, want)
		}
	}
}
