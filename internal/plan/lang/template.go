package lang

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/functions"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/texts"
)

// addTemplate adds a template of templatefile() by its name without the directory.
func (l *loader) addTemplate(name string, src []byte) {
	if diags := checkText(name, src); diags.HasErrors() {
		l.Report(diags...)
		return
	}
	tokens, _ := hclsyntax.LexTemplate(src, name, hcl.InitialPos)
	if diags := checkTokens(tokens); diags.HasErrors() {
		l.Report(diags...)
		return
	}

	x, diags := hclsyntax.ParseTemplate(src, name, hcl.InitialPos)
	diags = describeSyntax(src, diags)

	if !diags.HasErrors() {
		diags = append(checkExpression(x), checkTemplate(x)...)
	}

	l.Report(diags...)

	if !diags.HasErrors() {
		l.site.Templates[path.Base(name)] = x
	}
}

// directive is a word of a template's directive, or of another language, with which a reference or a directive begins.
var directive = texts.LazyRegexp(`^[$%]\{~?\s*(if|for|else|endif|endfor)\b`)

// describeDirectives returns messages of HCL's parser with a next step for directives. One whose keyword is not known
// is reported alone: the end that belongs to it is correct.
func describeDirectives(src []byte, diags hcl.Diagnostics) (kept hcl.Diagnostics) {
	const unknown = "Invalid template control keyword"
	isUnknown := slices.ContainsFunc(diags, func(d *hcl.Diagnostic) bool {
		return d.Summary == unknown || d.Summary == "Invalid 'for' directive"
	})

	for _, d := range diags {
		name, isEnd := strings.CutPrefix(strings.TrimSuffix(d.Summary, " directive"), "Unexpected ")
		isEnd = isEnd && strings.HasSuffix(d.Summary, " directive")
		switch {
		case isUnknown && (isEnd || d.Summary == "Unexpected end of template"):
			continue
		case isEnd:
			begin := map[string]string{"endfor": "%{ for x in LIST }"}[name]
			d.Detail = fmt.Sprintf("No directive is open here that it can follow. It belongs behind %s.",
				cmp.Or(begin, "%{ if CONDITION }"))
		case d.Summary == unknown:
			d.Detail = suggestDirective(string(d.Subject.SliceBytes(src))) +
				"%{ in a text begins a directive: if, for, else, endif, endfor. To write %{ itself: %%{."
		case d.Summary == "Unexpected end of template":
			describeOpenDirective(src, d)
		case d.Summary == "Extra characters after interpolation expression", d.Summary == "Invalid character":
			describeInterpolation(src, d)
		}
		kept = append(kept, d)
	}

	return kept
}

// suggestDirective returns the correction of a directive's keyword from another language, with a space at its end.
func suggestDirective(word string) string {
	switch word {
	case "elif", "elsif", "elseif":
		return "Write %{ else }%{ if CONDITION } … %{ endif }%{ endif }. "
	case "foreach", "each", "range", "loop":
		return "Write %{ for x in LIST } … %{ endfor }. "
	case "end", "fi", "done":
		return "The end of if is %{ endif }, that of for %{ endfor }. "
	}

	return ""
}

// describeOpenDirective moves the message about the end of a template to the directive that is still open there, whose
// place is in HCL's text only.
func describeOpenDirective(src []byte, d *hcl.Diagnostic) {
	for _, name := range []string{"if", "for"} {
		if !strings.Contains(d.Detail, "corresponding end"+name) {
			continue
		}
		for at := d.Subject.Start.Byte - 1; at >= 0; at-- {
			found := directive().FindSubmatch(src[at:d.Subject.Start.Byte])
			if found == nil || src[at] != '%' || string(found[1]) != name {
				continue
			}
			end := at + 1 + bytes.IndexByte(src[at:], '}')
			if place := RangeOf(src, d.Subject.Filename, at, end); strings.Contains(d.Detail, place.String()) {
				d.Subject = &place
				break
			}
		}
		d.Summary = "This directive has no end"
		d.Detail = fmt.Sprintf("Write %%{ end%s } where it ends.", name)
	}
}

// describeInterpolation explains a directive that begins as a reference, or shortens HCL's text about other ones.
func describeInterpolation(src []byte, d *hcl.Diagnostic) {
	begin := bytes.LastIndex(src[:d.Subject.Start.Byte], []byte("${"))
	if begin < 0 {
		return
	}

	d.Detail = "${ in a text begins a reference, and } ends it. To write ${ itself, as for another language: $${."
	if found := directive().FindSubmatch(src[begin:]); found != nil {
		d.Subject = RangeOf(src, d.Subject.Filename, begin, begin+len(found[0])).Ptr()
		d.Summary = fmt.Sprintf("A directive begins with %%{: %s", found[1])
		d.Detail = "Write %{ if CONDITION } … %{ else } … %{ endif }, or %{ for x in LIST } … %{ endfor }."
	}
}

// RangeOf returns the place of a part of a text.
func RangeOf(src []byte, file string, start, end int) hcl.Range {
	position := func(offset int) hcl.Pos {
		before := src[:offset]
		line := before[1+bytes.LastIndexByte(before, '\n'):]

		return hcl.Pos{Line: 1 + bytes.Count(before, []byte("\n")), Column: 1 + utf8.RuneCount(line), Byte: offset}
	}

	return hcl.Range{Filename: file, Start: position(start), End: position(end)}
}

// checkTemplate refuses functions that read: a template gets all its values by its variables, as in Terraform.
func checkTemplate(x hclsyntax.Expression) hcl.Diagnostics {
	return hclsyntax.VisitAll(x, func(n hclsyntax.Node) hcl.Diagnostics {
		call, ok := n.(*hclsyntax.FunctionCallExpr)
		if ok && (functions.ReadsMachine(call.Name) || call.Name == "templatefile" || call.Name == "sitedata") {
			return hcl.Diagnostics{
				origin.Error(
					fault.Reference,
					call.NameRange,
					fmt.Sprintf("A template cannot call %s()", call.Name),
					"Call it in the site, and give its value to the template among the variables of templatefile().",
				),
			}
		}

		return nil
	})
}
