package printer

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"io"

	"github.com/prelet/prelet/internal/lang/value"
)

// htmlFiles are the parts of the pages. A page has its style and its script inside, and loads nothing.
//
//go:embed html/*
var htmlFiles embed.FS

// safe is a text of a page: without secrets, and with escapes for invisible characters, such as those that change the
// direction of a text. Only Style.safe makes one of a text that is not a constant. html/template escapes it for HTML.
type safe string

// safe returns a text for a page.
func (s Style) safe(text string) safe { return safe(s.clean(text)) }

// safeAll returns texts for a page.
func (s Style) safeAll(texts []string) (out []safe) {
	for _, t := range texts {
		out = append(out, s.safe(t))
	}

	return out
}

// htmlStyle returns the style of pages, which only redacts.
func htmlStyle(r *value.Redactor) Style {
	return Style{Width: 200, screen: &Screen{redactor: r}}
}

// htmlPage is what every page has.
type htmlPage struct {
	Title   safe
	Version safe
	Policy  string // Content-Security-Policy: only the page's own style and script, and no request
	CSS     template.CSS
	JS      template.JS
	Body    any
}

// writeHTML writes the page of a template in html/.
func writeHTML(w io.Writer, name string, p htmlPage) error {
	css, err := htmlFiles.ReadFile("html/page.css")
	if err != nil {
		return err
	}
	js, err := htmlFiles.ReadFile("html/page.js")
	if err != nil {
		return err
	}
	t, err := template.ParseFS(htmlFiles, "html/page.gohtml", "html/"+name)
	if err != nil {
		return err
	}

	p.CSS = template.CSS(css) //nolint:gosec // a file of this package
	p.JS = template.JS(js)    //nolint:gosec // a file of this package
	p.Policy = "default-src 'none'; style-src " + hashSource(css) + "; script-src " + hashSource(js) +
		"; img-src data:; base-uri 'none'; form-action 'none'"

	return t.ExecuteTemplate(&pageWriter{to: w}, "page.gohtml", p)
}

// pageWriter writes a page. It may be on standard output, so what a runner of GitHub takes as a command of a workflow
// is escaped as for a screen, but for HTML.
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
