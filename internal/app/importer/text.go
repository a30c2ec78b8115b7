package importer

import (
	_ "embed"
	"strings"
	"text/template"

	"github.com/prelet/prelet/internal/lang"
)

//go:embed site.hcl.tmpl
var siteTemplate string

// text returns the site before it is formatted.
func (p page) text() (string, error) {
	t, err := template.New(FileName).
		Funcs(template.FuncMap{"quote": site.Quote, "list": list, "comment": comment}).
		Parse(siteTemplate)
	if err != nil {
		return "", err
	}

	var b strings.Builder
	err = t.Execute(&b, p)

	return b.String(), err
}
