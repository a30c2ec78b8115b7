package value

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// yamlEncode writes a known, unmarked value as block YAML that YAML 1.1 and 1.2 read alike: keys and texts in double quotes, texts of
// several lines as they are where they can be. A library for it is 150 KB of parser besides.
func yamlEncode() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowNull: true, AllowDynamicType: true}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			var b strings.Builder
			err := writeYAML(&b, a[0], 0, false)
			return cty.StringVal(b.String()), err
		},
	})
}

// writeYAML writes what stands after "key:" or "-", or a document, up to the end of its last line. Indent is that of the lines that
// belong to it; within says that a line has begun.
func writeYAML(b *strings.Builder, v cty.Value, indent int, within bool) error {
	t := v.Type()
	switch {
	case v.IsNull() || t.IsPrimitiveType():
		if within {
			b.WriteByte(' ')
		}
		return writeYAMLScalar(b, v, indent)
	case t.IsCapsuleType():
		return fmt.Errorf("%s has no form in YAML", t.FriendlyName())
	case v.LengthInt() == 0:
		b.WriteString(map[bool]string{true: " "}[within] + map[bool]string{true: "{}\n", false: "[]\n"}[t.IsObjectType() || t.IsMapType()])
		return nil
	}
	return writeYAMLBlock(b, v, indent, within)
}

// writeYAMLBlock writes a list or a map with something in it. After "-" its first line goes on in that line, after "key:" it begins in
// the next.
func writeYAMLBlock(b *strings.Builder, v cty.Value, indent int, within bool) error {
	named := v.Type().IsObjectType() || v.Type().IsMapType()
	goOn := within && strings.HasSuffix(b.String(), "-")
	switch {
	case goOn:
		b.WriteByte(' ')
	case within:
		b.WriteByte('\n')
		if !named && indent > 0 {
			indent -= 2 // a list stands below its name, not further in
		}
	}
	for it := v.ElementIterator(); it.Next(); goOn = false {
		k, e := it.Element()
		if !goOn {
			b.WriteString(strings.Repeat(" ", indent))
		}
		if named {
			b.WriteString(quoteYAML(k.AsString()) + ":")
		} else {
			b.WriteByte('-')
		}
		if err := writeYAML(b, e, indent+2, true); err != nil {
			return err
		}
	}
	return nil
}

func writeYAMLScalar(b *strings.Builder, v cty.Value, indent int) error {
	switch {
	case v.IsNull():
		b.WriteString("null\n")
	case v.Type() == cty.Bool:
		fmt.Fprintf(b, "%t\n", v.True())
	case v.Type() == cty.Number:
		b.WriteString(v.AsBigFloat().Text('f', -1) + "\n")
	default:
		s := v.AsString()
		if !standsAsLines(s) {
			b.WriteString(quoteYAML(s) + "\n")
			return nil
		}
		body := strings.TrimRight(s, "\n")
		b.WriteString("|" + map[int]string{0: "-", 1: ""}[min(len(s)-len(body), 2)] + map[bool]string{true: "+"}[len(s)-len(body) > 1] + "\n")
		for line := range strings.Lines(body) {
			if line != "\n" {
				b.WriteString(strings.Repeat(" ", max(indent, 2)))
			}
			b.WriteString(line)
		}
		b.WriteString(strings.Repeat("\n", max(len(s)-len(body), 1)))
	}
	return nil
}

// standsAsLines says whether a text of several lines reads the same as a literal block: nothing in it is invisible, and no space is
// where it would count as indentation or be lost.
func standsAsLines(s string) bool {
	if !strings.Contains(strings.TrimRight(s, "\n"), "\n") && !strings.HasSuffix(s, "\n") || s[0] == ' ' || s[0] == '\n' {
		return false
	}
	for line := range strings.Lines(s) {
		if strings.HasSuffix(strings.TrimSuffix(line, "\n"), " ") || strings.HasPrefix(line, "\t") {
			return false
		}
		for _, r := range strings.TrimSuffix(line, "\n") {
			if r == utf8.RuneError || r != ' ' && !unicode.IsGraphic(r) || unicode.IsSpace(r) && r != ' ' {
				return false
			}
		}
	}
	return true
}

// quoteYAML is a text in double quotes, as JSON writes it, but for what YAML would read as a break of lines or not at all.
func quoteYAML(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // of a string never fails
	quoted := strings.TrimSuffix(b.String(), "\n")
	b.Reset()
	for _, r := range quoted {
		switch {
		case r == ' ' || unicode.IsGraphic(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
