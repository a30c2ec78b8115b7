package schema

import (
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// Page is one reference page.
type Page struct {
	Name string // a file's name: stage-label.md
	Text string // Markdown
}

// Generated heads every page that is made from code, so that nobody mends the copy.
const Generated = "<!-- Made from the code by `make generate`. Change the declaration, not this page. -->\n\n"

// Pages gives the reference pages, the index first.
func (d Document) Pages() []Page {
	pages := []Page{{"README.md", d.index()}, {"blocks.md", d.blocks()}}
	for _, s := range d.language.Stages {
		pages = append(pages, Page{stagePage(s), s.page()})
	}
	return append(pages, Page{"functions.md", d.functions()}, Page{"facts.md", d.facts()})
}

// Markdown gives all pages as one text, for a terminal.
func (d Document) Markdown() string {
	var parts []string
	for _, p := range d.Pages()[1:] {
		parts = append(parts, strings.TrimPrefix(p.Text, Generated))
	}
	return strings.Join(parts, "\n")
}

func stagePage(s StageType) string { return "stage-" + s.Block.Type + ".md" }

func (d Document) index() string {
	var b strings.Builder
	b.WriteString(Generated + "# Reference\n\nThe language of a site, and what prelet answers.\n\n")
	b.WriteString("| page | holds |\n|---|---|\n")
	var names []string
	for _, t := range d.language.Blocks {
		names = append(names, "`"+t.Block.Type+"`")
	}
	fmt.Fprintf(&b, "| [Blocks](blocks.md) | %s |\n", strings.Join(names, ", "))
	fmt.Fprintf(&b, "| [Functions](functions.md) | %d functions |\n", len(d.language.Functions))
	b.WriteString("| [Facts](facts.md) | what is known about a machine |\n")
	b.WriteString("| [Exit statuses](exit-codes.md) | what each means, who mends it, whether it is tried again |\n")
	b.WriteString("| [Rules of the kubelet](kubelet-rules.md) | what it refuses, and what it swallows without a word, by version |\n")
	b.WriteString("| [Codes of messages](../codes/README.md) | a page for each: why, and what to do |\n\n")
	b.WriteString("## Stage types\n\n| type | phase | |\n|---|---|---|\n")
	for _, s := range d.language.Stages {
		fmt.Fprintf(&b, "| [`%s`](%s) | %s | %s |\n", s.Block.Type, stagePage(s), s.Phase, cell(firstSentence(s.Doc)))
	}
	b.WriteString("\nA stage of the phase *gather* reads; of *decide*, adds to the node; of *render*, makes files of it. Each may refer to\n" +
		"its own phase and earlier ones. `prelet schema -o json` prints all of this for programs.\n")
	return b.String()
}

func (d Document) blocks() string {
	var b strings.Builder
	b.WriteString(Generated + "# Blocks\n\nWhat a file of a site may hold.\n\n")
	for _, t := range d.language.Blocks {
		fmt.Fprintf(&b, "- [`%s`](#%s)\n", t.Block.Type, t.Block.Type)
	}
	for _, t := range d.language.Blocks {
		fmt.Fprintf(&b, "\n## %s\n\n", t.Block.Type)
		t.write(&b, "##")
		if p := mayReferTo(t.Phase); p != "" {
			fmt.Fprintf(&b, "\nIts expressions may refer to %s.\n", p)
		}
	}
	return b.String()
}

func (s StageType) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s# Stage type %s\n\n", Generated, s.Block.Type)
	usage := s.Block
	usage.Type, usage.Labels = "stage \""+s.Block.Type+"\"", []string{"name"}
	count := "A site may have several."
	if s.Singleton {
		count = "A site has at most one."
	}
	usage.Doc += fmt.Sprintf("\n\nPhase: **%s**. Its expressions may refer to %s. %s", s.Phase, mayReferTo(s.Phase), count)
	usage.write(&b, "#")
	b.WriteString("\n## Arguments that the language adds\n\n")
	writeArguments(&b, s.Meta)
	fmt.Fprintf(&b, "\n## Outputs\n\nReferred to as `stage.%s.NAME.OUTPUT`", s.Block.Type)
	if s.Takes(ForEach.Name) {
		fmt.Fprintf(&b, ", with `for_each` as `stage.%s.NAME[KEY].OUTPUT`", s.Block.Type)
	}
	b.WriteString(". Of a stage that was skipped or has failed, collections are empty and\nall else is null.\n\n| output | type | |\n|---|---|---|\n")
	for _, o := range s.Outputs {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", o.Name, typeInWords(o.Type), cell(o.Doc))
	}
	return b.String()
}

// Takes says whether the type takes an argument of the language.
func (s StageType) Takes(name string) bool {
	for _, f := range s.Meta {
		if f.Spec().Name == name {
			return true
		}
	}
	return false
}

// write puts a block's own part of a page: its doc, how it is written, its arguments, its blocks. Heading is that of
// the part; those of nested blocks are one deeper.
func (b Block) write(w *strings.Builder, heading string) {
	fmt.Fprintf(w, "%s\n\n```hcl\n%s\n```\n", b.Doc, b.head())
	switch {
	case b.Max == 1:
		w.WriteString("\nAt most one.\n")
	case b.Max > 1:
		fmt.Fprintf(w, "\nAt most %d.\n", b.Max)
	}
	if b.Always {
		w.WriteString("\nIt is there, with its defaults, also when it is not written.\n")
	}
	if b.Free {
		w.WriteString("\nIt takes any argument.\n")
	}
	if b.ForEach {
		w.WriteString("\nIt takes `when` and `for_each` as stages do.\n")
	}
	if len(b.Fields) > 0 {
		w.WriteString("\n")
		writeArguments(w, b.Fields)
	}
	for _, n := range b.Blocks {
		fmt.Fprintf(w, "\n%s# %s\n\n", heading, n.Type)
		n.write(w, heading+"#")
	}
}

// head is Usage where labels that a type has fixed are written already.
func (b Block) head() string {
	if strings.Contains(b.Type, " ") {
		return b.Type + " \"NAME\" { … }"
	}
	return b.Usage()
}

func writeArguments(w *strings.Builder, fields []Field) {
	w.WriteString("| argument | type | default | |\n|---|---|---|---|\n")
	for _, f := range fields {
		s := f.Spec()
		doc := s.Doc
		if s.Const {
			doc += " A literal: no references, no functions."
		}
		if p := mayReferTo(s.Phase); p != "" {
			doc += " May refer to " + p + " only."
		}
		fmt.Fprintf(w, "| `%s` | %s | %s | %s |\n", s.Name, typeInWords(s.Type), cell(s.defaultInWords()), cell(doc))
	}
}

func (s Spec) defaultInWords() string {
	switch {
	case s.Required:
		return "**required**"
	case s.DefaultText != "":
		return s.DefaultText
	case s.Default.IsNull():
		return "null"
	}
	return "`" + string(must(ctyjson.Marshal(s.Default, s.Type))) + "`"
}

// mayReferTo is what an expression evaluated in a phase can know.
func mayReferTo(p Phase) string {
	switch p {
	case Static:
		return "variables, `file()` and `credential()`"
	case Gather:
		return "variables and the outputs of gather stages"
	case Decide:
		return "variables and the outputs of gather and decide stages"
	case Render:
		return "variables, the outputs of stages, and `node`"
	}
	return ""
}

func (d Document) functions() string {
	var b strings.Builder
	b.WriteString(Generated + "# Functions\n\nFunctions that Terraform has too do the same here under the same name. None reads a clock, randomness or the\n" +
		"network: the same answers give the same plan.\n\n## Ours, and those that do more here or matter most\n")
	for _, f := range d.language.Functions {
		if !f.Own {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n`%s`\n\n%s\n", f.Name, f.Usage, f.Doc)
		if len(f.Examples) > 0 {
			b.WriteString("\n| expression | value | |\n|---|---|---|\n")
			for _, e := range f.Examples {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", code(e.Call), code(e.Result), cell(e.Why))
			}
		}
	}
	b.WriteString("\n## As in Terraform\n\n| function | |\n|---|---|\n")
	for _, f := range d.language.Functions {
		if !f.Own {
			fmt.Fprintf(&b, "| %s | %s |\n", code(f.Usage), cell(f.Doc))
		}
	}
	return b.String()
}

func (d Document) facts() string {
	var b strings.Builder
	b.WriteString(Generated + "# Facts\n\nWhat [`detect-hw`](stage-detect-hw.md) finds: `stage.detect-hw.NAME.FACT`. `[]` stands for each element of a list, `{}`\n" +
		"for each element of a map. What cannot be known is null and has a reason in `unknown`; lists, maps and objects are\n" +
		"never null. Lists are sorted by PCI address, then name.\n")
	top := ""
	for _, r := range d.language.Facts.Rows() {
		if h, _, _ := strings.Cut(strings.NewReplacer("[]", "", "{}", "").Replace(r.Path), "."); h != top {
			top = h
			fmt.Fprintf(&b, "\n## %s\n\n| fact | type | |\n|---|---|---|\n", top)
		}
		doc := r.Doc
		if r.Like != "" {
			doc += " The same attributes as `" + r.Like + "`."
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Path, typeInWords(r.Type), cell(strings.TrimSpace(doc)))
	}
	return b.String()
}

// typeInWords is TypeName, with objects by their attributes' names only: those have rows of their own.
func typeInWords(t cty.Type) string {
	switch {
	case t.IsObjectType():
		return "object"
	case t.IsListType() && t.ElementType().IsObjectType():
		return "list of objects"
	case t.IsMapType() && t.ElementType().IsObjectType():
		return "map of objects"
	}
	return TypeName(t)
}

// cell makes text fit for a table's cell.
func cell(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s) }

// code is text as it is, also with backticks and in a cell of a table.
func code(s string) string {
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	pad := ""
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		pad = " "
	}
	return fence + pad + cell(s) + pad + fence
}

func firstSentence(s string) string {
	if i := strings.Index(s, ". "); i >= 0 {
		return s[:i+1]
	}
	return s
}
