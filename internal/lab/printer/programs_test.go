package printer

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// The page documents each field of a plan's document.
func TestPlanFieldsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../../docs/operators/programs.md")
	must(t, err)
	var walk func(reflect.Type)
	seen := map[reflect.Type]bool{}
	walk = func(ty reflect.Type) {
		for ty.Kind() == reflect.Pointer || ty.Kind() == reflect.Slice || ty.Kind() == reflect.Map {
			ty = ty.Elem()
		}
		if ty.Kind() != reflect.Struct || seen[ty] {
			return
		}
		seen[ty] = true
		for f := range ty.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			if !strings.Contains(string(b), "`"+name+"`") && !strings.Contains(string(b), "`"+name+"[]`") {
				t.Errorf("%s.%s: the page has no `%s`", ty, f.Name, name)
			}
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[planDocument]())
	if len(seen) < 9 {
		t.Errorf("only %d kinds of object were looked at", len(seen))
	}
}

// The owner of a target is what it will have, as far as that is known before it is written.
func TestOwnerOfATarget(t *testing.T) {
	for _, c := range []struct {
		declared string
		old      tape.TargetAns
		want     string
	}{
		{"kube:kube", tape.TargetAns{Exists: true, Owner: "a:b"}, "kube:kube"},
		{"", tape.TargetAns{Exists: true, Owner: "a:b"}, "a:b"},
		{"", tape.TargetAns{Exists: true}, "root:root"},
		{"", tape.TargetAns{}, ""},
	} {
		if got := (evaluate.FileChange{File: desired.File{Owner: c.declared}, Old: c.old}).Owner(); got != c.want {
			t.Errorf("declared %q over %+v: %q, want %q", c.declared, c.old, got, c.want)
		}
	}
}
