package printer

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/lang/eval"
)

// GraphText prints each declaration with its place, and below it what it refers to.
func GraphText(w io.Writer, g eval.Graph) error {
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, n := range g.Nodes {
		fmt.Fprintf(table, "%s\t%s\t%s\n", n.Kind, n.Name, formatPlace(n.Range))
		for _, e := range g.Edges {
			if e.From == n.Name {
				fmt.Fprintf(table, "\t  %s\t%s\n", e.To, describeDefault(e))
			}
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}

	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}

	return nil
}

func formatPlace(at hcl.Range) string {
	return fmt.Sprintf("%s:%d", at.Filename, at.Start.Line)
}

// describeDefault returns the second column of a reference; "" for one that is written.
func describeDefault(e eval.GraphEdge) string {
	if e.Default == "" {
		return ""
	}
	return "default of " + e.Default
}

// graphShapes are the shapes of DOT and the brackets of Mermaid for each kind of declaration; others are boxes.
var graphShapes = map[string]struct{ dot, opening, closing string }{
	"variable": {"ellipse", "([", "])"},
	"local":    {"ellipse", "([", "])"},
	"detector": {"component", "[[", "]]"},
	"block":    {"note", "[/", "/]"},
}

// GraphDOT prints a graph for Graphviz. Arrows point from what is used to what uses it, as data flows.
func GraphDOT(w io.Writer, g eval.Graph) error {
	var b bytes.Buffer
	b.WriteString("digraph site {\n\trankdir = LR\n\tnode [shape = box]\n")
	for _, n := range g.Nodes {
		fmt.Fprintf(&b, "\t%s", quoteDOT(n.Name))
		if shape, ok := graphShapes[n.Kind]; ok {
			fmt.Fprintf(&b, " [shape = %s]", shape.dot)
		}
		b.WriteString("\n")
	}
	for _, e := range g.Edges {
		fmt.Fprintf(&b, "\t%s -> %s", quoteDOT(e.To), quoteDOT(e.From))
		if e.Default != "" {
			fmt.Fprintf(&b, " [style = dashed, label = %s]", quoteDOT(e.Default))
		}
		b.WriteString("\n")
	}
	b.WriteString("}\n")

	_, err := w.Write(b.Bytes())
	return err
}

func quoteDOT(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// GraphMermaid prints a graph for Mermaid, with the arrows of GraphDOT.
func GraphMermaid(w io.Writer, g eval.Graph) error {
	var b bytes.Buffer
	b.WriteString("flowchart LR\n")
	ids := map[string]string{}
	for i, n := range g.Nodes {
		ids[n.Name] = fmt.Sprintf("n%d", i)
		opening, closing := "[", "]"
		if shape, ok := graphShapes[n.Kind]; ok {
			opening, closing = shape.opening, shape.closing
		}
		fmt.Fprintf(&b, "    %s%s\"%s\"%s\n", ids[n.Name], opening, n.Name, closing)
	}
	for _, e := range g.Edges {
		arrow := "-->"
		if e.Default != "" {
			arrow = fmt.Sprintf("-. \"%s\" .->", e.Default)
		}
		fmt.Fprintf(&b, "    %s %s %s\n", ids[e.To], arrow, ids[e.From])
	}

	_, err := w.Write(b.Bytes())
	return err
}
