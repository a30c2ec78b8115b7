package value

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// Bounds on what one call may make out of little: evaluation has no other.
const (
	maxText    = 8 << 20 // bytes of a text
	maxWidth   = 1000    // columns that format and indent fill up
	maxListLen = 10_000  // elements that range and setproduct make
)

func text(name string) function.Parameter { return function.Parameter{Name: name, Type: cty.String} }

// textFunc makes a text of a text.
func textFunc(desc string, f func(string) string) function.Function {
	return function.New(&function.Spec{
		Description: desc,
		Params:      []function.Parameter{text("string")},
		Type:        function.StaticReturnType(cty.String),
		Impl:        func(a []cty.Value, _ cty.Type) (cty.Value, error) { return cty.StringVal(f(a[0].AsString())), nil },
	})
}

func prefixFunc() function.Function {
	return testText("Whether a string starts with another.", strings.HasPrefix, "prefix")
}

func suffixFunc() function.Function {
	return testText("Whether a string ends with another.", strings.HasSuffix, "suffix")
}

func testText(desc string, test func(s, part string) bool, part string) function.Function {
	return function.New(&function.Spec{
		Description: desc,
		Params:      []function.Parameter{text("string"), text(part)},
		Type:        function.StaticReturnType(cty.Bool),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(test(a[0].AsString(), a[1].AsString())), nil
		},
	})
}

// replaceFunc is Terraform's: a search text between slashes is a regular expression.
func replaceFunc() function.Function {
	return function.New(&function.Spec{
		Description: "Replaces each occurrence of a string, or of a regular expression between slashes, by another string.",
		Params:      []function.Parameter{text("string"), text("search"), text("replace")},
		Type:        function.StaticReturnType(cty.String),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			s, search, with := a[0].AsString(), a[1].AsString(), a[2].AsString()
			if len(search) > 1 && strings.HasPrefix(search, "/") && strings.HasSuffix(search, "/") {
				re, err := regexp.Compile(search[1 : len(search)-1])
				if err != nil {
					return cty.NilVal, function.NewArgErrorf(1, "not a regular expression: %s", err)
				}
				n := len(re.FindAllStringIndex(s, -1))
				// A group can put the whole text in at each "$1".
				if grown(len(s), n, len(with)+strings.Count(with, "$")*len(s)) {
					return cty.NilVal, errTooLong
				}
				return cty.StringVal(re.ReplaceAllString(s, with)), nil
			}
			if grown(len(s), strings.Count(s, search), len(with)) {
				return cty.NilVal, errTooLong
			}
			return cty.StringVal(strings.ReplaceAll(s, search, with)), nil
		},
	})
}

func grown(length, times, by int) bool {
	return by > 0 && times > (maxText-min(length, maxText))/by
}

var errTooLong = fmt.Errorf("the result would be larger than %d MiB", maxText>>20)

func indentFunc() function.Function {
	return bounded(stdlib.IndentFunc, func(a []cty.Value) error {
		if a[0].IsKnown() && !a[0].IsNull() && a[0].Type() == cty.Number && a[0].GreaterThan(cty.NumberIntVal(maxWidth)).True() {
			return function.NewArgErrorf(0, "at most %d spaces", maxWidth)
		}
		return nil
	})
}

// maxParts is how many parts a text may be taken apart into: each costs some 300 bytes.
const maxParts = 100_000

// regexAllFunc is cty's, for at most maxParts matches and groups: a pattern that matches nothing matches at each byte.
func regexAllFunc() function.Function {
	return bounded(stdlib.RegexAllFunc, func(a []cty.Value) error {
		pattern, text, ok := twoTexts(a)
		if !ok {
			return nil
		}
		re, err := regexp.Compile(pattern)
		if err != nil {
			return nil // which the function says better
		}
		most := maxParts / (re.NumSubexp() + 1)
		if len(re.FindAllStringIndex(text, most+1)) > most {
			return function.NewArgErrorf(0, "more than %d matches and groups", maxParts)
		}
		return nil
	})
}

// splitFunc is cty's, for at most maxParts parts.
func splitFunc() function.Function {
	return bounded(stdlib.SplitFunc, func(a []cty.Value) error {
		if separator, text, ok := twoTexts(a); ok && strings.Count(text, separator) >= maxParts {
			return function.NewArgErrorf(1, "more than %d parts", maxParts)
		}
		return nil
	})
}

// csvDecodeFunc is cty's, for at most maxParts cells.
func csvDecodeFunc() function.Function {
	return bounded(stdlib.CSVDecodeFunc, func(a []cty.Value) error {
		if v := a[0]; v.IsKnown() && !v.IsNull() && v.Type() == cty.String && strings.Count(v.AsString(), "\n")+strings.Count(v.AsString(), ",") >= maxParts {
			return function.NewArgErrorf(0, "more than %d cells", maxParts)
		}
		return nil
	})
}

// twoTexts are the first two arguments, if both are known texts.
func twoTexts(a []cty.Value) (first, second string, ok bool) {
	for _, v := range a[:2] {
		if !v.IsKnown() || v.IsNull() || v.Type() != cty.String {
			return "", "", false
		}
	}
	return a[0].AsString(), a[1].AsString(), true
}

// bounded is f with a check of its arguments, without marks, before.
func bounded(f function.Function, check func(plain []cty.Value) error) function.Function {
	spec := &function.Spec{Description: f.Description(), Params: f.Params(), VarParam: f.VarParam()}
	spec.Type = func(a []cty.Value) (cty.Type, error) {
		plain := make([]cty.Value, len(a))
		for i := range a {
			plain[i], _ = a[i].UnmarkDeep()
		}
		if err := check(plain); err != nil {
			return cty.NilType, err
		}
		return f.ReturnTypeForValues(a)
	}
	spec.Impl = func(a []cty.Value, _ cty.Type) (cty.Value, error) { return f.Call(a) }
	return function.New(spec)
}

// finite is a function of numbers that refuses infinity as its result, which is no amount of anything.
func finite(f function.Function) function.Function {
	spec := &function.Spec{Description: f.Description(), Params: f.Params(), Type: function.StaticReturnType(cty.Number)}
	spec.Impl = func(a []cty.Value, _ cty.Type) (cty.Value, error) {
		v, err := f.Call(a)
		if plain, _ := v.Unmark(); err == nil && plain.IsKnown() && plain.AsBigFloat().IsInf() {
			return cty.NilVal, errors.New("the result is infinite")
		}

		return v, err
	}

	return function.New(spec)
}

// divide is / or % that refuses zero as the divisor: cty's results are infinity, and the number itself.
func divide(f function.Function) *hclsyntax.Operation {
	impl := bounded(f, func(a []cty.Value) error {
		if n := a[1]; n.IsKnown() && !n.IsNull() && n.Type() == cty.Number && n.AsBigFloat().Sign() == 0 {
			return errors.New("this is a division by zero")
		}

		return nil
	})

	return &hclsyntax.Operation{Impl: impl, Type: cty.Number}
}

// verb is one %-sequence of a format string: its argument, and whether it puts the argument in as it is.
type verb struct {
	arg   int // from 0
	plain bool
	mode  byte
}

// verbs reads a format string as cty does. Widths and precisions above the bound are an error.
func verbs(format string) ([]verb, error) {
	var out []verb
	next := 0
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		if i++; i < len(format) && format[i] == '%' {
			continue
		}
		start := i
		for i < len(format) && strings.IndexByte("+-# 0123456789.[]", format[i]) >= 0 {
			i++
		}
		if i == len(format) {
			return out, nil // unfinished: cty says so
		}
		mods := format[start:i]
		v := verb{arg: next, mode: format[i]}
		if open, shut := strings.IndexByte(mods, '['), strings.IndexByte(mods, ']'); open >= 0 && shut > open {
			n, err := strconv.Atoi(mods[open+1 : shut])
			if err != nil {
				return nil, errors.New("the index of an argument is no number")
			}
			v.arg = n - 1
			mods = mods[:open] + mods[shut+1:]
		}
		for _, n := range strings.FieldsFunc(mods, func(r rune) bool { return r < '0' || r > '9' }) {
			if w, err := strconv.Atoi(n); err != nil || w > maxWidth {
				return nil, fmt.Errorf("at most %d columns can be asked for", maxWidth)
			}
		}
		v.plain = mods == "" && (v.mode == 's' || v.mode == 'v')
		next = v.arg + 1
		out = append(out, v)
	}
	return out, nil
}

func boundedFormat(f function.Function) function.Function {
	return bounded(f, func(a []cty.Value) error {
		if !a[0].IsKnown() || a[0].IsNull() || a[0].Type() != cty.String {
			return nil
		}
		if _, err := verbs(a[0].AsString()); err != nil {
			return function.NewArgError(0, err)
		}
		return nil
	})
}

// carriesPlainVerbs is for format: a secret goes in where %s or %v, without width or precision, puts a string in as
// it is. Widths depend on its length, %q and %#v would encode its placeholder.
func carriesPlainVerbs(args []cty.Value, i int) string {
	if i == 0 {
		return "the format must not be one"
	}
	if t := args[i].Type(); t != cty.String && t != cty.DynamicPseudoType {
		return "only a string can be put in"
	}
	f, _ := args[0].Unmark()
	if !f.IsKnown() || f.IsNull() || f.Type() != cty.String {
		return "" // nothing is formatted yet
	}
	vs, err := verbs(f.AsString())
	if err != nil {
		return ""
	}
	for _, v := range vs {
		if v.arg == i-1 && !v.plain {
			return fmt.Sprintf("only %%s and %%v without width or precision carry one, not %%%c here", v.mode)
		}
	}
	return ""
}
