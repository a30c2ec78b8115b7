package value

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Secret marks a value that a credential flowed into. It names the credential and never holds it.
type Secret struct{ Name string }

// Unread marks an unknown value: the answer to a question that is not in the recording.
type Unread struct{ Question string }

// Credential returns the value of a credential: its placeholder, marked. The name comes from the site's text, where the
// delimiters of placeholders are refused, so a name with one is a bug and panics.
func Credential(name string) cty.Value {
	if HasPlaceholder(name) {
		panic("value: the name of a credential holds a placeholder's delimiter")
	}
	return cty.StringVal(makePlaceholder(opCredential, name)).Mark(Secret{Name: name})
}

// UnreadVal returns an unknown value of type t that is marked with a question that is not in the recording.
func UnreadVal(t cty.Type, question string) cty.Value {
	return cty.UnknownVal(t).Mark(Unread{Question: question})
}

// Because marks the unknown parts of v with questions that are not in the recording. Without questions it returns v.
func Because(v cty.Value, questions []string) cty.Value {
	if len(questions) == 0 {
		return v
	}

	marks := cty.ValueMarks{}
	for _, q := range questions {
		marks[Unread{Question: q}] = struct{}{}
	}

	out, err := cty.Transform(v, func(_ cty.Path, x cty.Value) (cty.Value, error) {
		if !x.IsKnown() {
			return x.WithMarks(marks), nil
		}

		return x, nil
	})
	if err != nil { // the callback returns none
		return cty.UnknownVal(v.Type()).WithMarks(marks)
	}

	return out
}

// KeepQuestions marks the unknown parts of v, the value of e, with the questions of all values that e refers to. HCL
// loses marks where a part of an expression is unknown.
func KeepQuestions(v cty.Value, e hcl.Expression, ctx *hcl.EvalContext) cty.Value {
	_, isReference := e.(*hclsyntax.ScopeTraversalExpr)
	if isReference && v.IsKnown() { // a part of another value, with the marks that it has there
		return v
	}
	if v.IsWhollyKnown() {
		return v
	}
	for _, reference := range e.Variables() {
		source, _ := reference.TraverseAbs(ctx) // evaluation has reported its errors
		v = Because(v, Questions(source))
	}

	return v
}

// Questions returns the questions that are not in the recording and that v depends on, at any depth, sorted.
func Questions(v cty.Value) []string {
	if v == cty.NilVal || !containsMarks(v) {
		return nil
	}

	_, _, unread := Plain(v)

	return unread
}

// containsMarks reports whether v, or anything in it, is marked. It is cty's ContainsMarked without a path for each of
// the thousands of values in the facts of a machine.
func containsMarks(v cty.Value) bool {
	if v.IsMarked() {
		return true
	}
	t := v.Type()
	if t.IsPrimitiveType() || v.IsNull() || !v.IsKnown() {
		return false
	}
	if t.IsObjectType() {
		for name := range t.AttributeTypes() {
			if containsMarks(v.GetAttr(name)) {
				return true
			}
		}
		return false
	}
	if v.CanIterateElements() {
		for it := v.ElementIterator(); it.Next(); {
			if _, element := it.Element(); containsMarks(element) {
				return true
			}
		}
	}

	return false
}

// Plain returns v without marks, and the names of the credentials and the questions that were marked anywhere in it,
// sorted and unique. Nothing else may remove marks.
func Plain(v cty.Value) (plain cty.Value, secrets, unread []string) {
	plain, marks := v.UnmarkDeep()
	secrets, unread = namesOf(marks)

	return plain, secrets, unread
}

// OwnMarks returns the names of the credentials and the questions that v itself is marked with, sorted. Marks of its
// elements do not count.
func OwnMarks(v cty.Value) (secrets, unread []string) {
	_, marks := v.Unmark()

	return namesOf(marks)
}

// namesOf returns the names of the credentials and the questions among marks, sorted and unique.
func namesOf(marks cty.ValueMarks) (secrets, unread []string) {
	for m := range marks {
		switch m := m.(type) {
		case Secret:
			secrets = append(secrets, m.Name)
		case Unread:
			unread = append(unread, m.Question)
		}
	}
	slices.Sort(secrets)
	slices.Sort(unread)

	return slices.Compact(secrets), slices.Compact(unread)
}

// Open returns v without its own marks (elements keep theirs), and a function that adds these marks to another value.
func Open(v cty.Value) (inside cty.Value, addMarks func(cty.Value) cty.Value) {
	inside, marks := v.Unmark()

	return inside, func(other cty.Value) cty.Value {
		return other.WithMarks(marks)
	}
}

// quoteNames returns a quoted list for a message.
func quoteNames(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(q, ", ")
}
