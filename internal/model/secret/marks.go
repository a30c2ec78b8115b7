package secret

import (
	"slices"

	"github.com/zclconf/go-cty/cty"
)

// Mark marks a value that a credential flowed into. It names the credential and never holds it.
type Mark struct{ Name string }

// Credential returns the value of a credential: its placeholder, marked. The name comes from the site's text, where the
// delimiters of placeholders are refused, so a name with one is a bug and panics.
func Credential(name string) cty.Value {
	if HasPlaceholder(name) {
		panic("secret: the name of a credential holds a placeholder's delimiter")
	}
	return cty.StringVal(makePlaceholder(opCredential, name)).Mark(Mark{Name: name})
}

// Plain returns v without marks, and the names of the credentials that were marked anywhere in it, sorted and unique.
// Nothing else may remove marks.
func Plain(v cty.Value) (plain cty.Value, secrets []string) {
	plain, marks := v.UnmarkDeep()

	return plain, namesOf(marks)
}

// OwnNames returns the names of the credentials that v itself is marked with, sorted: the names and the number of its
// elements may depend on them. Marks of its elements do not count.
func OwnNames(v cty.Value) []string {
	_, marks := v.Unmark()

	return namesOf(marks)
}

// namesOf returns the names of the credentials among marks, sorted and unique.
func namesOf(marks cty.ValueMarks) (secrets []string) {
	for m := range marks {
		if secret, ok := m.(Mark); ok {
			secrets = append(secrets, secret.Name)
		}
	}
	slices.Sort(secrets)

	return slices.Compact(secrets)
}

// Open returns v without its own marks (elements keep theirs), and a function that adds these marks to another value.
func Open(v cty.Value) (inside cty.Value, addMarks func(cty.Value) cty.Value) {
	inside, marks := v.Unmark()

	return inside, func(other cty.Value) cty.Value {
		return other.WithMarks(marks)
	}
}

// quoteNames returns a quoted list for a message.

// Names returns the names of the credentials that flowed into v, at any depth, sorted.
func Names(v cty.Value) []string {
	if v == cty.NilVal || !v.ContainsMarked() {
		return nil
	}
	_, secrets := Plain(v)
	return secrets
}

// Hide returns the text in place of a part with a secret or without an answer; "" for any other part.
func Hide(part cty.Value, _ cty.Path) string {
	switch {
	case len(OwnNames(part)) > 0:
		return sensitiveText
	case !part.IsKnown():
		return "(unknown)"
	}

	return ""
}
