package printer

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/plan/eval"
)

// GraphText prints each declaration with its place, and below it its references.
func GraphText(w io.Writer, g eval.Graph) error {
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	err := renderGraph(table, "graph", g)
	if err = cmp.Or(err, table.Flush()); err != nil {
		return err
	}

	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}

	return nil
}

// GraphDOT prints a graph for Graphviz. Arrows point from an item to its users, as data flows.
func GraphDOT(w io.Writer, g eval.Graph) error { return renderGraph(w, "graph.dot", g) }

// GraphMermaid prints a graph for Mermaid, with the arrows of GraphDOT.
func GraphMermaid(w io.Writer, g eval.Graph) error { return renderGraph(w, "graph.mermaid", g) }

func renderGraph(w io.Writer, name string, g eval.Graph) error {
	return Style{}.render(w, name, g, template.FuncMap{
		"id": func(name string) string {
			return fmt.Sprint("n", slices.IndexFunc(g.Nodes, func(n eval.GraphNode) bool { return n.Name == name }))
		},
		"place": func(at hcl.Range) string { return fmt.Sprintf("%s:%d", at.Filename, at.Start.Line) },
		"quote": func(text string) string {
			return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
		},
	})
}
