package value

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// Secret marks a value that a credential flowed into. It names the credential and never holds it.
type Secret struct{ Name string }

// Unread marks an unknown that stands for the answer to a question that a recording was never asked.
type Unread struct{ Question string }

// Credential is the value of the credential of that name: its placeholder, marked. The name comes from the site's
// text, where the placeholder's delimiters are refused; a name with one is our own fault, and panics.
func Credential(name string) cty.Value {
	if HasPlaceholder(name) {
		panic("value: the name of a credential holds a placeholder's delimiter")
	}
	return cty.StringVal(placeholder(opCred, name)).Mark(Secret{Name: name})
}

// UnreadVal is an unknown of type t that says which question has no answer.
func UnreadVal(t cty.Type, question string) cty.Value {
	return cty.UnknownVal(t).Mark(Unread{Question: question})
}

// Because makes what is unknown in v say which questions have no answer, so that whoever uses it can name them too.
// Without questions v stays as it is.
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

// Questions are those without an answer that v depends on, at any depth, sorted.
func Questions(v cty.Value) []string {
	if v == cty.NilVal || !v.ContainsMarked() {
		return nil
	}

	_, _, unread := Plain(v)

	return unread
}

// Plain is the one way out of marks: the value without any, and the names of the credentials and the questions that
// were marked anywhere in it, sorted and unique.
func Plain(v cty.Value) (plain cty.Value, secrets, unread []string) {
	plain, marks := v.UnmarkDeep()
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
	return plain, slices.Compact(secrets), slices.Compact(unread)
}

// Open looks into a value without losing its marks: the value without those that are on itself (its elements keep their
// own), and what puts them on a part that is taken out of it.
func Open(v cty.Value) (inside cty.Value, marked func(part cty.Value) cty.Value) {
	inside, marks := v.Unmark()
	return inside, func(part cty.Value) cty.Value { return part.WithMarks(marks) }
}

// Secrets names the credentials that flowed into v, at any depth, sorted.
func Secrets(v cty.Value) []string {
	if !v.ContainsMarked() {
		return nil
	}
	_, secrets, _ := Plain(v)
	return secrets
}

// deepMarks are all marks in v.
func deepMarks(v cty.Value) cty.ValueMarks {
	if v == cty.NilVal || !v.ContainsMarked() {
		return nil
	}
	_, m := v.UnmarkDeep()
	return m
}

// uncovered is nil when each placeholder in s is well formed and names a covered credential.
func uncovered(s string, covered []string) error {
	tree, err := parsePlaceholders(s)
	if err != nil {
		return err
	}
	for _, n := range tree.names() {
		if !slices.Contains(covered, n) {
			return errUnmarked
		}
	}
	return nil
}

var errUnmarked = errors.New("a placeholder of a credential (characters U+E000 and U+E001) that credential() did not make")

// quoteNames lists names for a message.
func quoteNames(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(q, ", ")
}
