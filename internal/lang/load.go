package site

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Options say what to load.
type Options struct {
	Paths   []string       // files and folders that replace the search (--config)
	Root    string         // the search folders are looked for below it
	Stages  []stages.Stage // the types that there are
	Version string         // of prelet, for required_version; "" or one that is no version: not checked
}

// Load finds, reads and checks a site. The site is never nil, so that Sources is there for printing; it may be used
// only if the diagnostics have no error. No file at all is the code no-site.
func Load(fsys Files, opts Options) (*Site, hcl.Diagnostics) {
	names, diags := find(fsys, opts)
	if diags.HasErrors() {
		return empty(), diags
	}
	files, diags := read(fsys, names)
	if diags.HasErrors() {
		s := empty()
		s.Files = files
		return s, diags
	}
	return Parse(files, opts)
}

// Parse checks a site whose files were read already (those of a recording), in the order given. Names decide by
// their endings what a file is.
func Parse(files []world.SiteFile, opts Options) (*Site, hcl.Diagnostics) {
	l := &loader{site: empty(), opts: opts, types: map[string]stageType{}, defs: map[string]*definition{}}
	l.site.Files = files
	for _, s := range opts.Stages {
		spec := s.Spec()
		spec.Labels = schema.StageBlock.Labels
		l.types[spec.Type] = stageType{s, spec}
	}
	l.load(files)
	sortDiagnostics(files, l.diags)
	return l.site, l.diags
}

func empty() *Site {
	return &Site{Sources: map[string][]byte{}, Variables: map[string]*Variable{}, Locals: map[string]*Local{},
		Detectors: map[string]*Detector{}, Values: map[string]FileValue{},
		Templates: map[string]hclsyntax.Expression{}}
}

type stageType struct {
	stage stages.Stage
	spec  stages.Spec
}

// loader carries a site through its passes.
type loader struct {
	site  *Site
	opts  Options
	types map[string]stageType
	order []*definition          // in site order
	defs  map[string]*definition // by address
	overs []*hclsyntax.Block     // override blocks, in site order
	diags hcl.Diagnostics
}

func (l *loader) add(ds ...*hcl.Diagnostic) { l.diags = append(l.diags, ds...) }

func (l *loader) errorf(c fault.Code, at hcl.Range, summary, detail string, args ...any) {
	l.add(origin.Error(c, at, summary, detail, args...))
}

func (l *loader) load(files []world.SiteFile) {
	if len(files) > maxFiles {
		l.add(tooMany(files[maxFiles].Name))
		return
	}
	var bodies, vars []*hclsyntax.Body
	for _, f := range files {
		src := []byte(f.Text)
		l.site.Sources[f.Name] = src
		if hasSuffix(f.Name, templateSuffix) {
			l.template(f.Name, src)
			continue
		}
		body, diags := l.parse(f.Name, src)
		l.add(diags...)
		if diags.HasErrors() {
			continue
		}
		l.add(checkExpressions(body)...)
		if hasSuffix(f.Name, varsSuffix) {
			vars = append(vars, body)
		} else {
			bodies = append(bodies, body)
		}
	}
	if l.diags.HasErrors() {
		return // what follows would be about definitions that only seem to be missing
	}
	for _, b := range bodies {
		l.collect(b)
	}
	l.override()
	l.build()
	l.values(vars)
	if !l.diags.HasErrors() {
		l.prepare()
	}
}

func (l *loader) parse(name string, src []byte) (*hclsyntax.Body, hcl.Diagnostics) {
	if hasSuffix(name, jsonSuffix) {
		return l.parseJSON(name, src)
	}
	return parseNative(name, src)
}

// parseNative parses native text, if it is inside of the limits.
func parseNative(name string, src []byte) (*hclsyntax.Body, hcl.Diagnostics) {
	if diags := bounded(name, src); diags.HasErrors() {
		return nil, diags
	}
	f, diags := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	for _, d := range diags {
		if strings.HasPrefix(d.Detail, "A single-line block definition can contain only a single argument.") {
			d.Detail = "A block in one line takes one argument, and no block. Give each block inside of another one lines of its own: its name and {, what is in it, }."
		}
		if d.Summary == "Invalid template control keyword" {
			d.Detail = "%{ in a text begins a directive: if, for, else, endif, endfor. To write %{ itself: %%{."
		}
	}
	diags = origin.WithCode(diags, fault.Syntax)
	if diags.HasErrors() {
		return nil, diags
	}
	return f.Body.(*hclsyntax.Body), diags
}

// ParseValue parses a literal that comes from outside of files: a variable's text from the command line or a
// credential. What it says about errors never repeats the text.
func ParseValue(name string, text []byte) (hclsyntax.Expression, error) {
	if len(bounded(name, text)) > 0 {
		return nil, fmt.Errorf("it is too long, or is not UTF-8 text")
	}
	e, diags := hclsyntax.ParseExpression(text, name, hcl.InitialPos)
	if diags.HasErrors() || !literal(e) || checkExpression(e).HasErrors() {
		return nil, fmt.Errorf("it is no literal; write one as in a vars file: 8, true, \"text\", [\"a\", \"b\"], { k = \"v\" }")
	}
	return e, nil
}

func hasSuffix(name, suffix string) bool { return strings.HasSuffix(name, suffix) }

// hide takes text that is a secret, or was meant as one, out of what diagnostics show of a file.
func (l *loader) hide(r hcl.Range) {
	src := slices.Clone(l.site.Sources[r.Filename])
	for i := r.Start.Byte; i < min(r.End.Byte, len(src)); i++ {
		if src[i] != '\n' {
			src[i] = '*'
		}
	}
	l.site.Sources[r.Filename] = src
}

// place is a range as messages write it.
func place(r hcl.Range) string {
	return fmt.Sprintf("%s:%d:%d", r.Filename, r.Start.Line, r.Start.Column)
}

// sortDiagnostics orders by file and place, since maps of attributes have no order.
func sortDiagnostics(files []world.SiteFile, ds hcl.Diagnostics) {
	number := map[string]int{}
	for i, f := range files {
		number[f.Name] = i
	}
	slices.SortStableFunc(ds, func(x, y *hcl.Diagnostic) int {
		a, b := x.Subject, y.Subject
		switch {
		case a == nil && b == nil:
			return 0
		case a == nil:
			return -1
		case b == nil:
			return 1
		}

		return cmp.Or(
			number[a.Filename]-number[b.Filename], a.Start.Byte-b.Start.Byte, strings.Compare(x.Summary, y.Summary))
	})
}
