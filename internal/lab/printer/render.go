package printer

import (
	"embed"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"text/template/parse"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/lab/fleet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
)

//go:embed views/*.tmpl
var views embed.FS

// Render writes a value as text by a template in a file, with more functions. Text that is not prelet's own needs cell
// or wrap, which clean and redact it.
func (s Style) Render(
	w io.Writer,
	files fs.FS,
	file string,
	value any,
	more template.FuncMap,
) error {
	funcs := template.FuncMap{
		"bold":      s.bold,
		"cell":      func(v any) string { return s.cell(fmt.Sprint(v)) },
		"count":     Count,
		"dim":       s.dim,
		"green":     s.green,
		"join":      func(list []string) string { return strings.Join(list, ", ") },
		"pairs":     pairs,
		"part":      part,
		"pad":       func(v any, width int) string { return pad(fmt.Sprint(v), width) },
		"printable": maskControls,
		"red":       s.red,
		"table":     func(indent string, rows [][]string) string { return s.indentTable(indent, rows, nil) },
		"wrap":      s.wrapBehind,
		"yellow":    s.yellow,
	}
	maps.Copy(funcs, more)
	t, err := template.New(path.Base(file)).Funcs(funcs).ParseFS(files, file)
	if err != nil {
		return err
	}

	return t.Execute(w, value)
}

// parts are the templates of views/parts.tmpl.
var parts = sync.OnceValue(func() *template.Template {
	funcs := template.FuncMap{
		"changes":      wouldChange,
		"count":        Count,
		"counted":      countedChanges,
		"errors":       listErrors,
		"files":        countChanges,
		"follows":      describeFollows,
		"hasErrors":    hcl.Diagnostics.HasErrors,
		"isHeld":       fleet.Group.IsHeld,
		"isUncompared": isUncompared,
		"join":         func(list []string) string { return strings.Join(list, ", ") },
		"kinds":        countKinds,
		"name":         nameMachine,
		"named":        nameTaint,
		"numbers":      countItems,
		"of":           ofCount,
		"secrets":      secret.Text.Secrets,
		"semicolons":   func(parts ...string) string { return joinParts("; ", parts...) },
		"sign":         func(action string) string { return signs[action] },
		"units":        describeUnits,
		"upper":        origin.Capitalize,
	}

	return template.Must(template.New("parts").Funcs(funcs).ParseFS(views, "views/parts.tmpl"))
})

// part returns a part of a sentence about a value, by its template in views/parts.tmpl.
func part(name string, value any) (string, error) {
	var b strings.Builder
	err := parts().ExecuteTemplate(&b, name, value)

	return b.String(), err
}

// passActions makes each action of a template that prints a value, not a constant, pass it through a function.
func passActions(list *parse.ListNode, function string) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			isConstant := n.Pipe.Cmds[0].Args[0].Type() == parse.NodeString
			if len(n.Pipe.Decl) == 0 && !isConstant {
				call := &parse.CommandNode{NodeType: parse.NodeCommand}
				call.Args = []parse.Node{parse.NewIdentifier(function)}
				n.Pipe.Cmds = append(n.Pipe.Cmds, call)
			}
		case *parse.IfNode:
			passActions(n.List, function)
			passActions(n.ElseList, function)
		case *parse.RangeNode:
			passActions(n.List, function)
			passActions(n.ElseList, function)
		case *parse.WithNode:
			passActions(n.List, function)
			passActions(n.ElseList, function)
		}
	}
}

// render is Render for a template of this package.
func (s Style) render(w io.Writer, name string, value any, more template.FuncMap) error {
	return s.Render(w, views, "views/"+name+".tmpl", value, more)
}

// wrapBehind returns lines that are wrapped within the width behind two indents, of which the second is not shorter.
func (s Style) wrapBehind(first, next, text string) string {
	return joinLines(first, next, s.wrap(text, s.Width-columns(next)))
}

// pairs returns rows of two cells, without those whose second cell is empty.
func pairs(cells ...string) (rows [][]string) {
	for row := range slices.Chunk(cells, 2) {
		if row[1] != "" {
			rows = append(rows, []string{row[0], maskControls(row[1])})
		}
	}

	return rows
}

// indentTable returns rows in columns behind an indent. paint is for the last cells, nil for none.
func (s Style) indentTable(
	indent string,
	rows [][]string,
	paint func(string) string,
) string {
	return joinLines(indent, indent, s.table(rows, s.Width-columns(indent), paint))
}

// joinLines returns lines with an indent, and another one before the first.
func joinLines(first, next string, lines []string) (text string) {
	for _, l := range lines {
		text += first + l + "\n"
		first = next
	}

	return text
}
