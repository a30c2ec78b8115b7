package script

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// Merge returns one map of many, of which later ones win.
func Merge[V any](many ...map[string]V) map[string]V {
	all := map[string]V{}
	for _, m := range many {
		maps.Copy(all, m)
	}

	return all
}

// Examples plays the examples of the words that a node is to show, each on a node of its own.
func Examples(t *testing.T, node string, play func(t *testing.T, lines []Line)) {
	t.Helper()
	for _, w := range append(Commands(), Facts()...) {
		if w.On != node {
			continue
		}
		for _, s := range (section{w.Name, 0, w.Example}).parse(t, "example of "+w.Name, nil) {
			t.Run(s.Name, func(t *testing.T) { play(t, s.Lines) })
		}
	}
}

// page returns the tables of the language's page, with a line of a script for each form.
func page(example func(Form) string) string {
	var b strings.Builder
	row := func(cells ...string) {
		for i := range cells {
			cells[i] = strings.ReplaceAll(cells[i], "|", "\\|")
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	for _, table := range []struct {
		head  string
		words []Word
	}{{"command", Commands()}, {"fact", Facts()}} {
		fmt.Fprintf(&b, "| %s | of | nodes | | example |\n|---|---|---|---|---|\n", table.head)
		for _, w := range table.words {
			name := strings.TrimSpace(w.Name + " " + w.Args)
			example := strings.ReplaceAll(w.Example, "\n", "`<br>`")
			if example != "" {
				example = "`" + example + "`"
			}
			row("`"+name+"`", w.Noun, w.In, w.Does, example)
		}
		b.WriteString("\n")
	}

	b.WriteString("| form | nodes | | a line of a script |\n|---|---|---|---|\n")
	for _, f := range Forms() {
		row(f.String(), f.In, f.Does, "`"+example(f)+"`")
	}

	return b.String()
}
