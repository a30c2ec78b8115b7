package reference

import (
	"cmp"
	_ "embed"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/schema"
)

// Page is one reference page.
type Page struct {
	Name string // a file's name: stage-label.md
	Text string // Markdown
}

// Generated is the first line of every generated page.
const Generated = "<!-- Made by make generate, do not edit -->\n\n"

//go:embed pages.md.tmpl
var pagesText string

// Pages gives the reference pages, the index first.
func (d Document) Pages() []Page {
	pages := template.Must(template.New("pages").Funcs(template.FuncMap{
		"argumentDoc":   argumentDoc,
		"cell":          cell,
		"code":          code,
		"default":       defaultInWords,
		"factDoc":       factDoc,
		"firstSentence": firstSentence,
		"head":          head,
		"mayReferTo":    mayReferTo,
		"part":          part,
		"rows":          Facts.Rows,
		"spec":          schema.Field.Spec,
		"stagePage":     stagePage,
		"takes":         StageType.Takes,
		"topOf":         topOf,
		"type":          typeInWords,
		"usage":         usageOfStage,
	}).Parse(pagesText))

	var out []Page
	add := func(name, kind string, data any) {
		var b strings.Builder
		if err := pages.ExecuteTemplate(&b, kind, data); err != nil {
			panic(err) // the template is part of the program
		}
		out = append(out, Page{name, Generated + b.String()})
	}

	add("README.md", "index", d.Language)
	add("blocks.md", "blocks", d.Language)
	for _, s := range d.Language.Stages {
		add(stagePage(s), "stage", s)
	}
	add("functions.md", "functions", d.Language)
	add("facts.md", "facts", d.Language)

	return out
}

// Markdown gives all pages as one text, for a terminal.
func (d Document) Markdown() string {
	var parts []string
	for _, p := range d.Pages()[1:] {
		parts = append(parts, strings.TrimPrefix(p.Text, Generated))
	}
	return strings.Join(parts, "\n")
}

// FindBlock gives the part of the pages about a block of the language or a stage type; for a block inside of these, the
// part about the outer block. If there is none, the error lists the names.
func (d Document) FindBlock(name string) (string, error) {
	pages := map[string]string{}
	for _, p := range d.Pages() {
		pages[p.Name] = strings.TrimPrefix(p.Text, Generated)
	}

	var names []string
	parts := map[string]string{}
	add := func(b schema.Block, text string) {
		names = append(names, b.Type)
		parts[b.Type] = text
		for _, inner := range b.Blocks {
			parts[inner.Type] = cmp.Or(parts[inner.Type], text)
		}
	}
	for _, s := range d.Language.Stages {
		add(s.Block, pages[stagePage(s)])
	}
	for _, b := range d.Language.Blocks {
		_, text, _ := strings.Cut(pages["blocks.md"], "\n## "+b.Type+"\n")
		text, _, _ = strings.Cut(text, "\n## ")
		add(b.Block, "# "+b.Type+"\n"+text)
	}

	text, isKnown := parts[name]
	if !isKnown {
		return "", fault.Usage.Errorf("no block %q. %s", name, schema.Suggest(name, names))
	}

	return text, nil
}

func stagePage(s StageType) string {
	return "stage-" + s.Block.Type + ".md"
}

// usageOfStage is a stage's block as its page shows it.
func usageOfStage(s StageType) schema.Block {
	count := "A site may have several."
	if s.Singleton {
		count = "A site has at most one."
	}
	if len(s.Adds) > 0 {
		count += " Further ones, as in another layer, have only `" + strings.Join(s.Adds, "` and `") +
			"` blocks, which are added to it."
	}

	b := s.Block
	b.Type = `stage "` + b.Type + `"`
	b.Labels = []string{"name"}
	b.Doc += "\n\nPhase: **" + s.Phase.String() + "**. Its expressions may refer to " + mayReferTo(
		s.Phase,
	) + ". " + count

	return b
}

// Takes reports whether the type takes an argument of the language.
func (s StageType) Takes(name string) bool {
	for _, f := range s.Meta {
		if f.Spec().Name == name {
			return true
		}
	}
	return false
}

// blockPart is a block under a heading of a page.
type blockPart struct {
	schema.Block
	Heading string // "##"
}

func part(b schema.Block, heading string) blockPart {
	return blockPart{b, heading}
}

// head is a block's Usage, where labels that a type has fixed are written already.
func head(b schema.Block) string {
	if strings.Contains(b.Type, " ") {
		return b.Type + " \"NAME\" { … }"
	}
	return b.Usage()
}

func argumentDoc(s schema.Spec) string {
	doc := s.Doc
	if s.Const {
		doc += " A literal."
	}
	if p := mayReferTo(s.Phase); p != "" {
		doc += " May refer to " + p + " only."
	}
	return doc
}

func defaultInWords(s schema.Spec) string {
	switch {
	case s.Required:
		return "**required**"
	case s.DefaultText != "":
		return s.DefaultText
	case s.Default.IsNull():
		return "null"
	}

	text, err := ctyjson.Marshal(s.Default, s.Type)
	if err != nil {
		panic(err) // a declaration, which is a part of the program
	}

	return "`" + string(text) + "`"
}

// mayReferTo lists the references that an expression evaluated in a phase can have.
func mayReferTo(p schema.Phase) string {
	switch p {
	case schema.Static:
		return "variables, `file()` and `credential()`"
	case schema.Gather:
		return "variables and the outputs of gather stages"
	case schema.Decide:
		return "variables and the outputs of gather and decide stages"
	case schema.Render:
		return "variables, the outputs of stages, and `node`"
	}
	return ""
}

// topOf is the first name of a fact's path.
func topOf(path string) string {
	plain := strings.NewReplacer("[]", "", "{}", "").Replace(path)
	top, _, _ := strings.Cut(plain, ".")

	return top
}

func factDoc(r FactRow) string {
	doc := r.Doc
	if r.Like != "" {
		doc += " The same attributes as `" + r.Like + "`."
	}
	return strings.TrimSpace(doc)
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
	return schema.TypeName(t)
}

// cell makes text fit for a table's cell.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}

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
