package printer

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
)

// htmlFiles are the parts of the pages. A page has its style and its script inside, and loads nothing.
//
//go:embed html/*
var htmlFiles embed.FS

// htmlStyle returns the style of pages, which only redacts.
func htmlStyle(r *secret.Redactor) Style {
	return Style{Width: 200, screen: &Screen{redactor: r}}
}

// writePage writes the page of a template in html/. Each value of the page is redacted, before it is escaped for HTML.
func (s Style) writePage(
	w io.Writer,
	name, title, version string,
	body any,
	more template.FuncMap,
) error {
	css, err := htmlFiles.ReadFile("html/page.css")
	if err != nil {
		return err
	}
	js, err := htmlFiles.ReadFile("html/page.js")
	if err != nil {
		return err
	}
	t, err := template.New("page.gohtml").Funcs(s.pageFuncs()).Funcs(more).
		ParseFS(htmlFiles, "html/page.gohtml", "html/"+name)
	if err != nil {
		return err
	}
	for _, part := range t.Templates() {
		passActions(part.Tree.Root, "redacted")
	}

	return t.Execute(&pageWriter{to: w}, map[string]any{
		"Title":   title,
		"Version": version,
		"CSS":     template.CSS(css), // a file of this package
		"JS":      template.JS(js),   // a file of this package
		// Only the page's own style and script, and no request.
		"Policy": "default-src 'none'; style-src " + hashSource(css) + "; script-src " + hashSource(js) +
			"; img-src data:; base-uri 'none'; form-action 'none'",
		"Body": body,
	})
}

func (s Style) pageFuncs() template.FuncMap {
	return template.FuncMap{
		"count":    Count,
		"join":     func(list []string) string { return strings.Join(list, ", ") },
		"lines":    func(text string) []string { return splitLines(s.clean(text)) },
		"odd":      func(i int) bool { return i%2 == 1 },
		"part":     part,
		"redacted": s.redacted,
		"text":     textOf,
		"ticks":    func(text string) []string { return strings.Split(text, "`") },
		"upper":    origin.Capitalize,
	}
}

// redacted returns a value of a page without secrets, and with escapes for invisible characters, such as those that
// change the direction of a text. Style and script of a page are its own.
func (s Style) redacted(v any) any {
	switch v.(type) {
	case template.CSS, template.JS, int:
		return v
	}

	return s.clean(fmt.Sprint(v))
}

// pageWriter writes a page. It may be on standard output, so a workflow command of a GitHub runner is escaped as for a
// screen, but for HTML.
type pageWriter struct {
	to   io.Writer
	line lineHead
}

// Write implements io.Writer.
func (p *pageWriter) Write(b []byte) (int, error) {
	if _, err := io.WriteString(p.to, p.line.disarm(string(b), "&#%d;")); err != nil {
		return 0, err
	}

	return len(b), nil
}

// hashSource returns the source expression of a Content-Security-Policy that allows a text inside of the page.
func hashSource(text []byte) string {
	sum := sha256.Sum256(text)

	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
