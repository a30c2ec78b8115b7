package functions

import (
	"fmt"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestUnknownLoops: what depends on an unknown value is unknown itself, and keeps the marks of its own parts only.
func TestUnknownLoops(t *testing.T) {
	nic := cty.Object(map[string]cty.Type{"name": cty.String, "mem": cty.Number})
	vars := map[string]cty.Value{
		"sec": secret.Credential("c"),
		"u":   cty.UnknownVal(cty.List(nic)),
	}
	for src, want := range table.YAML[map[string]string](t, `
'[for x in u : x.name]': '[] false'
'"%{ for x in u }a%{ endfor }"': '[] false'
'{ (u[0].name) = 1 }': '[] false'
'-u[0].mem': '[] false'
'[1, 2][u[0].mem]': '[] false'
'concat(["a"], u...)': '[] false'
'u[0].mem > 1 ? "a" : "b"': '[] false'
'length(u) > 0 ? {a = 1} : {a = 2}': '[] false'
'[for x in [sec] : x]': '[c] true'
'{ for x in ["a"] : x => sec }': '[c] true'
# the neighbour's mark is not its own
'[{a = sec, b = u[0].mem}][0].b': '[] false'
'"%{ for x in [sec, "a"] }${x}%{ endfor }"': '[c] true'
`) {
		plain, secrets := secret.Plain(must(t, src, vars))
		if got := fmt.Sprint(secrets, " ", plain.IsWhollyKnown()); got != want {
			t.Errorf("%s: got marks and whether it is known %s, want %s", src, got, want)
		}
	}
}
