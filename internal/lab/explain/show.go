package explain

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/value"
)

const (
	sensitive = "(sensitive)"
	unknown   = "(unknown)"
	maxShown  = 60 // characters of one value
)

// show returns a value as a site writes it, in about 60 characters: of a larger collection its size. It is "" for
// cty.NilVal. Parts that a credential flowed into are "(sensitive)".
func (w *walker) show(v cty.Value) string {
	if v == cty.NilVal {
		return ""
	}
	text := value.Format(v, math.MaxInt, secret.Hide)
	if utf8.RuneCountInString(text) > maxShown {
		inside, _ := secret.Open(v)
		return w.abbreviate(inside)
	}

	return text
}

// abbreviate describes a value that is too long. Secrets that are not marked are redacted before a string is cut: a
// part of one would not be recognised.
func (w *walker) abbreviate(v cty.Value) string {
	if v.Type() == cty.String {
		s := v.AsString()
		if strings.Contains(strings.TrimSpace(s), "\n") {
			return "(a text of " + count(strings.Count(s, "\n"), "line") + ")"
		}
		return value.Quote(cut(w.e.Redact(s)))
	}

	isObject := v.Type().IsObjectType() || v.Type().IsMapType()
	if isObject {
		return "{" + count(v.LengthInt(), "key") + "}"
	}

	return "[" + count(v.LengthInt(), "element") + "]"
}

// showGo shows a value of a decoded document.
func (w *walker) showGo(v any) string {
	x, err := codec.FromGo(v)
	if err != nil {
		return unknown
	}

	return w.show(x)
}

// formatSource returns the source of an expression in one line, abbreviated.
func (w *walker) formatSource(x hclsyntax.Expression) string {
	return cut(w.e.Text(x.Range()))
}

func cut(s string) string {
	if r := []rune(s); len(r) > maxShown {
		return string(r[:maxShown-1]) + "…"
	}

	return s
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}

	return fmt.Sprintf("%d %s", n, noun)
}
