package fault

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
)

// Page explains a code to operators.
type Page struct {
	Title string `json:"title"` // what went wrong, in one line
	// Text is Markdown that is readable on a terminal: the reason, an example that triggers it (indented), and
	// what to do. At most 80 columns, no newline at the end.
	Text string `json:"text"`
	// Warning is set when the code never ends a command by itself: it is a warning or a note. Note is set, too, if it
	// is never a warning.
	Warning bool `json:"-"`
	Note    bool `json:"-"`
}

// Page returns the page of the code; false if it has none.
func (c Code) Page() (Page, bool) {
	p, ok := pages()[c]
	return p, ok
}

// Codes returns every code that has a page, sorted.
func Codes() []Code {
	var out []Code
	for c := range pages() {
		out = append(out, c)
	}

	slices.Sort(out)

	return out
}

//go:embed pages/*.txt
var texts embed.FS

// pages reads the embedded texts at the first call.
var pages = sync.OnceValue(func() map[Code]Page {
	out := map[Code]Page{}

	names, err := texts.ReadDir("pages")
	if err != nil {
		panic(err) // cannot happen: the files are embedded
	}

	for _, n := range names {
		b, err := texts.ReadFile(path.Join("pages", n.Name()))
		if err != nil {
			panic(err)
		}

		for c, p := range parsePages(string(b)) {
			if _, dup := out[c]; dup {
				panic(fmt.Sprintf("fault: %s has two pages", c))
			}

			out[c] = p
		}
	}

	return out
})

// parsePages reads a file of pages: a line "== CODE", with "(warning)" or "(note)", the title, an
// empty line, the text.
func parsePages(text string) map[Code]Page {
	out := map[Code]Page{}

	for _, part := range strings.Split("\n"+text, "\n== ")[1:] {
		head, body, _ := strings.Cut(part, "\n")
		title, body, _ := strings.Cut(body, "\n")
		name, mark, _ := strings.Cut(head, " ")
		out[Code(name)] = Page{
			Title:   title,
			Text:    strings.Trim(body, "\n"),
			Warning: mark == "(warning)" || mark == "(note)",
			Note:    mark == "(note)",
		}
	}

	return out
}
