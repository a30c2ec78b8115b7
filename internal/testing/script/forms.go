package script

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// formTable has the nodes, the form, and its effect, a line for each.
//
//go:embed forms.txt
var formTable string

// Form is one of the forms of a command that has several, or other ones in other nodes.
type Form struct {
	In   string // the nodes that have it, or all
	Name string
	Args string // those in lower case are meant as they are
	Does string
}

// Forms returns the forms of commands, in the order of the language's page. A node refuses a line that is none of them.
// The table is read once, because tests make thousands of players.
var Forms = sync.OnceValue(func() (forms []Form) {
	for line := range strings.Lines(formTable) {
		cells := strings.SplitN(strings.TrimSuffix(line, "\n"), " | ", 3)
		name, args, _ := strings.Cut(cells[1], " ")
		forms = append(forms, Form{cells[0], name, args, cells[2]})
	}

	return forms
})

// includes reports whether a node is one of these.
func includes(nodes, node string) bool {
	for name := range strings.FieldsSeq(nodes) {
		if name == node || name == "all" {
			return true
		}
	}

	return false
}

// findForms returns the forms of each command that a node has: its only one, where the table of forms has none.
func findForms(node string) map[string][]Form {
	forms := map[string][]Form{}
	for _, f := range Forms() {
		if includes(f.In, node) {
			forms[f.Name] = append(forms[f.Name], f)
		}
	}
	for _, w := range Commands() {
		if includes(w.In, node) && forms[w.Name] == nil {
			forms[w.Name] = []Form{{w.In, w.Name, w.Args, w.Does}}
		}
	}

	return forms
}

// argument is one of a form.
type argument struct {
	words      []string // of which it is one; nil: any
	isOptional bool
	isMany     bool
}

var isWord = regexp.MustCompile(`^[a-z][a-z-]*(\|[a-z][a-z-]*)*$`)

// arguments returns those of a form, such as `PATH read-only [OPTION…]`.
func (f Form) arguments() (all []argument) {
	isOptional := false
	for _, text := range strings.Fields(f.Args) {
		isOptional = isOptional || text[0] == '['
		isEnd := strings.HasSuffix(text, "]")
		text = strings.Trim(text, "[]")
		a := argument{isOptional: isOptional, isMany: strings.HasSuffix(text, "…")}
		if isWord.MatchString(text) {
			a.words = strings.Split(text, "|")
		}
		all = append(all, a)
		isOptional = isOptional && !isEnd
	}

	return all
}

// compare returns how many of the words are those that the form has, or -1 if one is another, and whether there are as
// many as it needs. A word for which isOpen holds may be any.
func (f Form) compare(words []string, isOpen func(string) bool) (same int, fits bool) {
	least, most := 0, 0
	for i, a := range f.arguments() {
		if most++; !a.isOptional {
			least++
		}
		if a.isMany {
			most += len(words)
		}
		switch {
		case i >= len(words) || a.words == nil:
		case slices.Contains(a.words, words[i]) || isOpen(words[i]):
			same++
		default:
			return -1, false
		}
	}

	return same, least <= len(words) && len(words) <= most
}

// String returns the form as the page has it.
func (f Form) String() string { return "`" + strings.TrimSpace(f.Name+" "+f.Args) + "`" }

// choose returns those of the forms that have the most words of a line, and one of them that it has, if any.
func choose(forms []Form, words []string, isOpen func(string) bool) (nearest []Form, found *Form) {
	most := -1
	for _, f := range forms {
		same, fits := f.compare(words, isOpen)
		if same > most {
			most, nearest, found = same, nil, nil
		}
		if same == most {
			nearest = append(nearest, f)
		}
		if same == most && fits {
			found = &f
		}
	}

	return nearest, found
}

// refuse returns which forms a line should have had, or "" if it has one.
func refuse(forms []Form, words []string, isOpen func(string) bool) string {
	nearest, found := choose(forms, words, isOpen)
	if found != nil {
		return ""
	}
	var wanted []string
	for _, f := range nearest {
		wanted = append(wanted, f.String())
	}

	return strings.Join(wanted, " or ")
}

// Unknown returns the error of a node for an argument that it does not know.
func Unknown(what, name string) error {
	return fmt.Errorf("got the %s %q, want one that this node has", what, name)
}
