package fleet

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// names replaces the values that belong to one machine by their names, the longest value first.
type names []ownValue

type ownValue struct {
	value, name string
}

// newNames returns the own values of the machine of a recording, and the node name of its plan.
func newNames(p *evaluate.Plan, r *tape.Recording) names {
	values := r.Identities(p.Facts)
	if name := p.NodeName(); name != "" {
		values[name] = "node name"
	}

	var out names
	for value, name := range values {
		out = append(out, ownValue{value, "{" + name + "}"})
	}
	slices.SortStableFunc(out, func(a, b ownValue) int {
		return cmp.Or(
			len(b.value)-len(a.value),
			cmp.Compare(a.value, b.value),
		)
	})

	return out
}

// replace returns a text with names in place of values. A value counts only as a whole word: 10.0.0.1 is not in
// 10.0.0.17.
func (n names) replace(text string) string {
	if text == "" {
		return ""
	}
	for _, own := range n {
		if strings.Contains(text, own.value) {
			text = replaceWord(text, own.value, own.name)
		}
	}

	return text
}

func replaceWord(text, value, name string) string {
	var out strings.Builder
	rest := text
	before := byte(' ')
	for {
		i := strings.Index(rest, value)
		if i < 0 {
			out.WriteString(rest)
			return out.String()
		}

		end := i + len(value)
		if i > 0 {
			before = rest[i-1]
		}
		isWord := !isWordByte(before) && (end == len(rest) || !continuesWord(rest[end:]))
		out.WriteString(rest[:i])
		if isWord {
			out.WriteString(name)
		} else {
			out.WriteString(value)
		}
		before = value[len(value)-1]
		rest = rest[end:]
	}
}

func isWordByte(c byte) bool {
	switch {
	case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		return true
	}

	return c == '.' || c == '_'
}

// continuesWord reports whether a word goes on at the start of a text: with a letter or a digit, or with a dot and one
// of these. A full stop ends a word.
func continuesWord(rest string) bool {
	if rest[0] == '.' {
		return len(rest) > 1 && rest[1] != '.' && isWordByte(rest[1])
	}

	return isWordByte(rest[0])
}
