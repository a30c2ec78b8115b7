package value

import (
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// maxLabel is the longest value of a label that Kubernetes takes.
const maxLabel = 63

// Slug makes text fit for the value of a label: lower case; a run of what a label's value cannot hold becomes one
// "-", which also takes in hyphens that touch the run; nothing but letters and digits at the ends; at most 63
// characters. A slug's slug is itself. The vectors are in testdata/slug.json.
func Slug(s string) string {
	var b strings.Builder
	run := false // something was left out since the last character written
	for _, r := range strings.ToLower(s) {
		if b.Len() > maxLabel {
			break
		}
		switch plain := r == '.' || r == '_'; {
		case alphanumeric(r) || plain && b.Len() > 0:
			if run && b.Len() > 0 && !strings.HasSuffix(b.String(), "-") {
				b.WriteByte('-')
			}
			run = false
			b.WriteRune(r)
		case r == '-' && !run && b.Len() > 0:
			b.WriteByte('-')
		case r != '-' && !plain:
			run = true
		}
	}
	out := b.String()
	if len(out) > maxLabel {
		out = out[:maxLabel]
	}
	return strings.TrimRight(out, "-._")
}

func alphanumeric(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }

func slugFunc() function.Function {
	return function.New(&function.Spec{
		Description: "Makes text fit for a label's value: lower case, one hyphen for each run of other characters, at most 63. Null stays null.",
		Params:      []function.Parameter{{Name: "string", Type: cty.String, AllowNull: true}},
		Type:        function.StaticReturnType(cty.String),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			if a[0].IsNull() {
				return cty.NullVal(cty.String), nil
			}
			return cty.StringVal(Slug(a[0].AsString())), nil
		},
	})
}
