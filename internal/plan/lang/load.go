package lang

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// LoadOptions are the options of Load and Parse.
type LoadOptions struct {
	Paths   []string       // files and directories in place of the default layers, the later wins (--config)
	Root    string         // the search directories are below it
	Pulled  string         // the folder of a layer after the image's, which was pulled; "": none
	Stages  []stages.Stage // the stage types
	Version string         // of prelet, for required_version; not checked if it is not a version

	// IsPast says that the files are those of a recording, or an earlier site to compare with: a secret in them is
	// hidden, and no error.
	IsPast bool

	// Verify returns an error unless one of the image's keys has signed text. nil: the image has none, so that an
	// unsigned site is evaluated.
	Verify func(text, signature []byte) error
}

// Load finds, reads and checks a site. The site is never nil, so that its Sources can be printed; it may be used only
// if the diagnostics have no error. The error for a site without files has the code no-site.
func Load(fsys Files, opts LoadOptions) (*Site, hcl.Diagnostics) {
	var files []tape.SiteFile
	layers, diags := find(fsys, opts)
	if !diags.HasErrors() {
		files, diags = read(fsys, listInEffect(layers))
	}

	if opts.Verify != nil && (!diags.HasErrors() || origin.Code(diags) == fault.NoSite) {
		if refused := checkSigned(fsys, opts, layers, files); refused != nil {
			diags = hcl.Diagnostics{refused}
		}
	}

	s := newSite()
	s.Files = files
	notes := describeLayers(fsys, layers, files)
	if !diags.HasErrors() {
		s, diags = Parse(files, opts)
	}
	s.Layers = layers

	return s, append(notes, diags...)
}

// Parse checks a site whose files were read before, in the order given. The type of a file depends on its name.
func Parse(files []tape.SiteFile, opts LoadOptions) (*Site, hcl.Diagnostics) {
	l := &loader{
		site:  newSite(),
		opts:  opts,
		types: map[string]stageType{},
		defs:  map[string]*definition{},
	}
	l.site.Files = files

	for _, s := range opts.Stages {
		spec := s.Spec()
		spec.Labels = schema.StageBlock.Labels
		l.types[spec.Type] = stageType{s, spec}
	}

	bodies := l.load(files)
	l.refuseSecrets(files, bodies)
	sortDiagnostics(files, l.Diags)

	return l.site, l.Diags
}

func newSite() *Site {
	return &Site{
		Sources:   map[string][]byte{},
		Variables: map[string]*Variable{},
		Locals:    map[string]*Local{},
		Detectors: map[string]*Detector{},
		Values:    map[string]hclsyntax.Expression{},
		Templates: map[string]hclsyntax.Expression{},
		Data:      map[string]cty.Value{},
		mentions:  &sync.Map{},
	}
}

type stageType struct {
	stage stages.Stage
	spec  stages.Spec
}

// loader builds a site step by step.
type loader struct {
	site  *Site
	opts  LoadOptions
	types map[string]stageType
	order []*definition          // in site order
	defs  map[string]*definition // by address
	overs []*hclsyntax.Block     // override blocks, in site order
	heads map[string]string      // stage "write" "kubelet", of one stage of each type
	origin.Collector

	copies map[[2]string]*copied // by two files that define the same
}

// load builds the site, and returns the bodies of its files.
func (l *loader) load(files []tape.SiteFile) []*hclsyntax.Body {
	if len(files) > maxFiles {
		l.Report(tooManyFiles(files[maxFiles].Name))
		return nil
	}

	bodies, vars := l.parseFiles(files)
	if l.Diags.HasErrors() {
		return bodies // a definition that was not parsed would be reported as missing
	}

	l.heads = headsOfStages(bodies)
	for _, b := range bodies {
		l.collect(b)
	}
	l.override()
	l.mergeSingletons()
	l.build()
	l.addValues(vars)
	l.noteBeaten()

	return bodies
}

// parseFiles returns the bodies of site files and of vars files, and keeps the templates and the data.
func (l *loader) parseFiles(files []tape.SiteFile) (bodies, vars []*hclsyntax.Body) {
	var unread []string // vars files

	for _, f := range files {
		src := []byte(f.Text)
		l.site.Sources[f.Name] = src

		if strings.HasSuffix(f.Name, TemplateSuffix) {
			l.addTemplate(f.Name, src)
			continue
		}
		if isData(f.Name) {
			l.addData(f.Name, src)
			continue
		}

		if strings.HasSuffix(f.Name, jsonSuffix) {
			l.Error(fault.FileRefused, fileRange(f.Name), "A site in JSON is not read",
				"Write %s: {\"locals\": {\"a\": \"${var.b}\"}} in JSON is locals { a = var.b }. A text without ${ or "+
					"%%{ in it is the same in both.", strings.TrimSuffix(path.Base(f.Name), ".json"))
			continue
		}

		parse := ParseBlocks
		if IsVarsFile(f.Name) {
			parse = parseNative // an expression is checked where its variable is known: it may be a secret
		}
		body, diags := parse(f.Name, src)
		l.Report(diags...)
		switch isVars := IsVarsFile(f.Name); {
		case body == nil && isVars:
			unread = append(unread, f.Name)
		case body == nil:
		case isVars:
			vars = append(vars, body)
		default:
			bodies = append(bodies, body)
		}
	}

	for _, name := range unread {
		l.site.Sources[name] = HideValues(l.site.Sources[name], declaredIn(bodies))
	}

	return bodies, vars
}

// parseNative parses native text within the limits.
func parseNative(name string, src []byte) (*hclsyntax.Body, hcl.Diagnostics) {
	f, diags := ParseFile(name, src)
	if diags.HasErrors() {
		return nil, diags
	}

	return f.Body.(*hclsyntax.Body), diags
}

// describeSyntax returns messages of HCL's parser with their code, and with a next step where HCL has none.
func describeSyntax(src []byte, diags hcl.Diagnostics) hcl.Diagnostics {
	diags = describeDirectives(src, dropFollowing(diags))
	for _, d := range diags {
		line := ""
		if d.Subject != nil {
			line = findLine(src, d.Subject.Start.Line)
		}

		isMissing := strings.HasPrefix(d.Summary, "Missing ") || strings.HasPrefix(d.Summary, "Invalid single-argument")
		if d.Subject != nil && (isMissing || d.Summary == "Invalid expression") && describeUnquoted(src, d) {
			return origin.WithCode(hcl.Diagnostics{d}, fault.Syntax)
		}
		if isAssignment(src, d.Subject) {
			d.Detail = "= gives an argument its value, once in a line. A comparison is written ==."
			continue
		}
		if strings.Contains(line, "${{") {
			d.Detail = "${ in a text begins a reference. To write ${ itself, as in another language: $${."
			continue
		}

		switch d.Summary {
		case "Missing expression":
			describeUnclosed(src, d)
		case "Invalid multi-line string":
			describeOpenQuote(src, d)
			return origin.WithCode(hcl.Diagnostics{d}, fault.Syntax)
		case "Missing item separator":
			describeMissingComma(src, d)
		case "Unterminated template string":
			describeHeredoc(src, d)
		case "Invalid argument name":
			d.Detail = "Only a key of a map is quoted, and a map is an argument: it has an equals sign before its " +
				"brace, as labels = { \"key\" = \"value\" }."
		case "Unclosed configuration block":
			d.Detail = "The brace that closes this block is missing." + findNextBlock(src, d.Subject)
		case "Argument or block definition required":
			d.Detail += describeForeign(line)
		case "Missing key/value separator":
			if isBlockLine(line) {
				d.Detail = "Here the next block begins, and the brace that closes the map before it is missing."
			}
		case "Argument definition required":
			describeNested(src, d)
		case "Invalid 'for' expression", "Invalid 'for' directive":
			d.Detail += " A list is [for x in LIST : VALUE], a map {for k, v in MAP : k => v}, a part of a text " +
				"%{ for x in LIST } … %{ endfor }."
		case "Invalid escape sequence":
			d.Detail = "In a text, a backslash is written twice: \"^gpu\\\\d+$\"."
		case "Invalid number literal":
			d.Detail = "A text that begins with a digit, such as an address or a version, is written in quotes."
		case "Invalid expression":
			d.Detail += describeWord(line)
		case "Missing false expression in conditional":
			d.Detail += " Write what holds otherwise: CONDITION ? VALUE : OTHER; null is not a value."
		case "Missing newline after argument", "Missing attribute separator":
			d.Detail += describeWord(line)
		case "Invalid single-argument block definition":
			d.Detail += cmp.Or(describeWord(line), " Write each argument of a block in a line of its own.")
		case "Invalid block definition":
			if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word == "import" || word == "include" {
				d.Detail = "A site has layers instead: name several folders with --config."
			} else if !strings.Contains(line, "{") {
				d.Detail = "An argument is written NAME = VALUE, and a block NAME { … }."
			}
		}
	}

	return origin.WithCode(diags, fault.Syntax)
}

// dropFollowing removes what follows from a character that is not valid, or from a block inside of a line: further ones
// of its line, and the errors of the parser there.
func dropFollowing(diags hcl.Diagnostics) (kept hcl.Diagnostics) {
	first := map[int]*hcl.Diagnostic{}
	for _, d := range diags {
		isFirst := d.Summary == "Invalid character" || d.Summary == "Argument definition required"
		if isFirst && d.Subject != nil && first[d.Subject.Start.Line] == nil {
			first[d.Subject.Start.Line] = d
		}
	}
	for _, d := range diags {
		if d.Subject == nil || first[d.Subject.Start.Line] == nil || first[d.Subject.Start.Line] == d {
			kept = append(kept, d)
		}
	}

	return kept
}

// describeUnclosed moves the message about the end of a file to the bracket that is still open there.
func describeUnclosed(src []byte, d *hcl.Diagnostic) {
	tokens, _ := hclsyntax.LexConfig(src, d.Subject.Filename, hcl.InitialPos)
	var open []hclsyntax.Token
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen:
			open = append(open, t)
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen:
			open = open[:max(0, len(open)-1)]
		}
	}
	if len(open) == 0 || !strings.HasSuffix(d.Detail, "the end of the file.") {
		return
	}
	last := open[len(open)-1]
	d.Subject = &last.Range
	d.Summary = "This is not closed"
	d.Detail = fmt.Sprintf("The file ends before the %s for this %s.",
		map[string]string{"{": "}", "[": "]", "(": ")"}[string(last.Bytes)], last.Bytes)
}

// describeNested explains that a block inside of another one is not written in the same line.
func describeNested(src []byte, d *hcl.Diagnostic) {
	if !strings.Contains(d.Detail, "single-line block") {
		return
	}

	from := 1 + bytes.LastIndexByte(src[:d.Subject.Start.Byte], '\n')
	outer := strings.TrimSpace(string(src[from:d.Subject.Start.Byte]))
	inner, _, _ := strings.Cut(string(src[d.Subject.Start.Byte:]), "{")
	if IsVarsFile(d.Subject.Filename) { // there may be a secret
		outer, inner = "NAME {", "NAME "
	}
	d.Summary = "A block inside of a block needs lines of its own"
	d.Detail = fmt.Sprintf("Write %s in one line, then %s{ … } from the next line on, and } in the last.", outer, inner)
}

// describeOpenQuote moves the message about the end of a line to the quote that begins a text there.
func describeOpenQuote(src []byte, d *hcl.Diagnostic) {
	tokens, _ := hclsyntax.LexConfig(src, d.Subject.Filename, hcl.InitialPos)
	for _, t := range tokens {
		if t.Type == hclsyntax.TokenOQuote && t.Range.Start.Line == d.Subject.Start.Line {
			d.Subject = t.Range.Ptr()
		}
	}
	d.Summary = "This quote is not closed"
	d.Detail = "A text ends in its line, with a quote. One of several lines is a heredoc: <<EOT."
	if rest := findLine(src, d.Subject.Start.Line); strings.Contains(rest, "%{") || strings.Contains(rest, "${") {
		d.Detail += " In a text, } ends what %{ and ${ begin. To write these themselves: %%{ and $${."
	}
}

// describeMissingComma moves the message about an item behind another one to the end of that one.
func describeMissingComma(src []byte, d *hcl.Diagnostic) {
	before := bytes.TrimRight(src[:d.Subject.Start.Byte], " \t\r\n")
	line := 1 + bytes.Count(before, []byte("\n"))
	if line == d.Subject.Start.Line {
		return
	}
	d.Subject = RangeOf(src, d.Subject.Filename, len(before), len(before)).Ptr()
	d.Detail = fmt.Sprintf("A comma is missing at the end of line %d.", line)
}

// isAssignment reports whether a place is an equals sign that is not the first one of its line, and so was meant as ==.
func isAssignment(src []byte, at *hcl.Range) bool {
	if at == nil || at.Start.Byte >= len(src) {
		return false
	}
	before := src[:at.Start.Byte]
	before = before[bytes.LastIndexByte(before, '\n')+1:]
	sign := src[at.Start.Byte:]
	isOther := bytes.HasPrefix(sign, []byte("==")) || bytes.HasPrefix(sign, []byte("=>"))
	isSign := bytes.HasPrefix(sign, []byte("=")) && !isOther

	return isSign && bytes.ContainsAny(before, "=?:(")
}

// describeHeredoc moves the message about a heredoc without an end from the end of the file to its begin. A line with
// its word and other text was probably meant as its end.
func describeHeredoc(src []byte, d *hcl.Diagnostic) {
	tokens, _ := hclsyntax.LexConfig(src, d.Subject.Filename, hcl.InitialPos)
	for _, t := range slices.Backward(tokens) {
		switch t.Type {
		case hclsyntax.TokenCHeredoc:
			return
		case hclsyntax.TokenOHeredoc:
			word := strings.TrimLeft(strings.TrimSpace(string(t.Bytes)), "<-")
			d.Subject = &t.Range
			d.Summary = "A heredoc without an end"
			shown := word
			if IsVarsFile(d.Subject.Filename) { // it may be a secret
				shown = "the word behind <<"
			}
			d.Detail = fmt.Sprintf("It ends at a line with only %s, and there is none behind this place.", shown)
			number := t.Range.Start.Line
			for line := range strings.Lines(string(src[t.Range.End.Byte:])) {
				number++
				if strings.HasPrefix(strings.TrimSpace(line), word) {
					d.Detail += fmt.Sprintf(
						" Line %d has other text in addition to it: put that into the next line.", number)
					return
				}
			}
			return
		}
	}
}

// describeForeign returns the correction of a line in another language's syntax, after a space; "" if it is unknown.
func describeForeign(line string) string {
	line = strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(line, "--"), strings.HasPrefix(line, ";"):
		return " A comment begins with # or //."
	case strings.HasPrefix(line, "- "):
		return " A list is written in brackets: [a, b]."
	case strings.HasPrefix(line, "var."):
		return " The name is written without var."
	case strings.Contains(line, ": {"), strings.Contains(line, ":") && !strings.Contains(line, "="):
		return " A site is not YAML: write NAME = VALUE, a list as [a, b], a map as { key = value }."
	}

	return ""
}

// describeWord returns the correction of a line with a word of another language in an expression, after a space; "" if
// it has none.
func describeWord(line string) string {
	words := strings.Fields(line)
	switch {
	case strings.Contains(strings.Join(words, " "), "= for "):
		return " A loop is in brackets: [for x in LIST : VALUE]; or in braces, for a map: {for k, v in MAP : k => v}."
	case slices.Contains(words, "if") && (slices.Contains(words, "else") || slices.Contains(words, "then")):
		return " A choice is written CONDITION ? VALUE : OTHER."
	case slices.Contains(words, "and"), slices.Contains(words, "or"), slices.Contains(words, "not"):
		return " The operators are && for and, || for or, ! for not."
	case strings.Contains(line, "??"):
		return " The first value that is not null is coalesce(A, B)."
	}

	return ""
}

// unquoted matches a path, an amount, a duration, a taint or the name of an image without quotes.
var unquoted = texts.LazyRegexp(
	`^(/[\w./-]+|[0-9][0-9.]*[A-Za-z%]\w*|[\w./-]+=[\w.-]*:[A-Za-z]+|[A-Za-z][\w.-]*[:/][\w./:-]+)$`,
)

// describeUnquoted moves a message to the text without quotes that it is about. It reports whether there is one.
func describeUnquoted(src []byte, d *hcl.Diagnostic) bool {
	isPart := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-/:=%@", r)
	}
	before, after := src[:d.Subject.Start.Byte], src[d.Subject.Start.Byte:]
	start := len(bytes.TrimRightFunc(before, isPart))
	end := len(src) - len(bytes.TrimLeftFunc(after, isPart))
	word := string(src[start:end])
	if !unquoted().MatchString(word) {
		return false
	}

	d.Subject = RangeOf(src, d.Subject.Filename, start, end).Ptr()
	d.Summary = "A text without quotes"
	d.Detail = "Write it in double quotes."
	if !IsVarsFile(d.Subject.Filename) { // there it may be a secret
		d.Detail = fmt.Sprintf("Write %q.", word)
	}

	return true
}

// isBlockLine reports whether a block of a site begins on a line.
func isBlockLine(line string) bool {
	word, _, _ := strings.Cut(line, " ")

	return slices.ContainsFunc(schema.TopLevel(), func(b schema.Block) bool { return b.Type == word })
}

// findLine returns a line of a text, which is counted from 1.
func findLine(src []byte, number int) string {
	lines := strings.SplitN(string(src), "\n", number+1)
	if number < 1 || number > len(lines) {
		return ""
	}

	return lines[number-1]
}

// findNextBlock returns the place of the first block that begins at the start of a line after an unclosed one, after a
// space; "" for none. Blocks of a site begin there, so the brace is missing before it.
func findNextBlock(src []byte, unclosed *hcl.Range) string {
	if unclosed == nil {
		return ""
	}
	number := 0
	for line := range strings.Lines(string(src)) {
		number++
		if number > unclosed.Start.Line && isBlockLine(line) {
			return fmt.Sprintf(" It belongs before line %d, where the next block begins.", number)
		}
	}

	return ""
}

// ParseExpression parses an expression that is not a part of the site, with the limits and rules of the site's own.
func ParseExpression(name string, text []byte) (hclsyntax.Expression, hcl.Diagnostics) {
	if diags := checkNative(name, text); diags.HasErrors() {
		return nil, diags
	}

	x, diags := hclsyntax.ParseExpression(text, name, hcl.InitialPos)
	diags = describeSyntax(text, diags)
	if !diags.HasErrors() {
		diags = append(diags, checkExpression(x)...)
	}
	if diags.HasErrors() {
		return nil, diags
	}

	return x, diags
}

// ParseFile parses a native file for an editor, whose text is mostly incomplete: the tree has what could be read, next
// to the diagnostics. It is nil for a text beyond the limits, which must not be parsed at all.
func ParseFile(name string, src []byte) (*hcl.File, hcl.Diagnostics) {
	if diags := checkNative(name, src); diags.HasErrors() {
		return nil, diags
	}

	f, diags := hclsyntax.ParseConfig(src, name, hcl.InitialPos)

	return f, describeSyntax(src, diags)
}

// ParseValue parses a literal from outside of the site: the value of a variable on the command line or in a credential.
// No error contains the text.
func ParseValue(name string, text []byte) (hclsyntax.Expression, error) {
	if checkNative(name, text).HasErrors() {
		return nil, errors.New("the value is too long, or is not UTF-8 text")
	}

	e, diags := hclsyntax.ParseExpression(text, name, hcl.InitialPos)
	if diags.HasErrors() || !isLiteral(e) || checkExpression(e).HasErrors() {
		return nil, errors.New("the value is not a literal; write one as in a vars file: " +
			"8, true, \"text\", [\"a\", \"b\"], { k = \"v\" }")
	}

	return e, nil
}

// hide removes a text that may be a secret from the sources that diagnostics show.
func (l *loader) hide(r hcl.Range) {
	src := slices.Clone(l.site.Sources[r.Filename])
	secret.Blank(src, r.Start.Byte, r.End.Byte)
	l.site.Sources[r.Filename] = src
}

// sortDiagnostics sorts by file and place. Those without a place come first.
func sortDiagnostics(files []tape.SiteFile, ds hcl.Diagnostics) {
	number := map[string]int{}
	for i, f := range files {
		number[f.Name] = i
	}

	position := func(d *hcl.Diagnostic) (file, offset int) {
		if d.Subject == nil {
			return -1, 0
		}

		return number[d.Subject.Filename], d.Subject.Start.Byte
	}

	slices.SortStableFunc(ds, func(x, y *hcl.Diagnostic) int {
		fileX, offsetX := position(x)
		fileY, offsetY := position(y)

		return cmp.Or(fileX-fileY, offsetX-offsetY, strings.Compare(x.Summary, y.Summary))
	})
}
