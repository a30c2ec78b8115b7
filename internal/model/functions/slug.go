package functions

import (
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// maxLabel is the length of the longest label value that Kubernetes accepts.
const maxLabel = 63

// Slug turns text into a valid label value: lower case; a run of invalid characters, with the hyphens next to it,
// becomes one "-"; letters or digits at both ends; at most 63 characters. The slug of a slug is itself. The vectors
// are in testdata/slug.json.
func Slug(s string) string {
	var b strings.Builder
	run := false // characters were left out since the last one written
	for _, r := range strings.ToLower(s) {
		if b.Len() > maxLabel {
			break
		}
		switch plain := r == '.' || r == '_'; {
		case isLowerAlphanumeric(r) || plain && b.Len() > 0:
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

func isLowerAlphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
}

func slugFunc() function.Function {
	str := text("string")
	str.AllowNull = true

	return newFunction(
		"Makes text fit for a label's value: lower case, one hyphen for each run of other characters, at most 63. "+
			"Null stays null.",
		cty.String,
		func(args []cty.Value) (cty.Value, error) {
			if args[0].IsNull() {
				return args[0], nil
			}
			return cty.StringVal(Slug(args[0].AsString())), nil
		},
		str,
	)
}
