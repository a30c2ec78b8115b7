package explain

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lang/value"
)

const (
	sensitive = "(sensitive)"
	unread    = "(not in this recording)"
	unknown   = "(unknown)"
	maxShown  = 60 // characters of one value
)

// show writes a value as a site would, in at most about 60 characters. What a credential flowed into is
// "(sensitive)". A secret that came another way is hidden before the text is cut: a part of it would not be recognised.
func (w *walker) show(v cty.Value) string {
	if v == cty.NilVal {
		return unknown
	}
	u, secrets, asked := value.Plain(v)
	switch {
	case len(secrets) > 0:
		return sensitive
	case len(asked) > 0:
		return unread
	}
	if full := literal(u); utf8.RuneCountInString(full) <= maxShown {
		return full
	}
	if u.Type() == cty.String {
		u = cty.StringVal(w.e.Redact(u.AsString()))
	}
	return brief(u)
}

// literal is the value whole.
func literal(v cty.Value) string {
	switch t := v.Type(); {
	case !v.IsKnown():
		return unknown
	case v.IsNull():
		return "null"
	case t == cty.String:
		return quote(v.AsString())
	case t == cty.Number:
		return v.AsBigFloat().Text('f', -1)
	case t == cty.Bool:
		return strconv.FormatBool(v.True())
	case t.IsObjectType() || t.IsMapType():
		var parts []string
		for it := v.ElementIterator(); it.Next(); {
			k, x := it.Element()
			key := k.AsString()
			if !identifier(key) {
				key = quote(key)
			}
			parts = append(parts, key+" = "+literal(x))
		}
		if len(parts) == 0 {
			return "{}"
		}
		return "{ " + strings.Join(parts, ", ") + " }"
	case t.IsListType() || t.IsTupleType() || t.IsSetType():
		var parts []string
		for it := v.ElementIterator(); it.Next(); {
			_, x := it.Element()
			parts = append(parts, literal(x))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return unknown
}

// brief says what a value that is too long is like.
func brief(v cty.Value) string {
	t := v.Type()
	switch {
	case t == cty.String:
		s := v.AsString()
		if n := strings.Count(strings.TrimSuffix(s, "\n"), "\n"); n > 0 {
			return fmt.Sprintf("(a text of %d lines)", n+1)
		}
		return quote(cut(s, maxShown-3)) + "…"
	case t.IsObjectType() || t.IsMapType():
		return counted(v.LengthInt(), "{%d key}", "{%d keys}")
	}
	of := "element"
	if v.LengthInt() > 0 {
		it := v.ElementIterator()
		it.Next()
		if _, x := it.Element(); x.IsKnown() && !x.IsNull() && (x.Type().IsObjectType() || x.Type().IsMapType()) {
			of = "object"
		}
	}
	return counted(v.LengthInt(), "[%d "+of+"]", "[%d "+of+"s]")
}

func counted(n int, one, many string) string {
	if n == 1 {
		return fmt.Sprintf(one, n)
	}
	return fmt.Sprintf(many, n)
}

// quote writes a string as JSON does, without its HTML escapes.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string is always JSON
	return strings.TrimSuffix(b.String(), "\n")
}

func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n])
}

// showGo writes a value of a decoded document.
func (w *walker) showGo(v any) string {
	if v == nil {
		return "null"
	}
	x, err := value.FromGo(v)
	if err != nil {
		return unknown
	}
	return w.show(x)
}

// oneLine is a piece of the site in one line, abbreviated in the middle of nowhere.
func oneLine(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > n {
		return cut(s, n-1) + "…"
	}
	return s
}
