package functions

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/model/value"
)

// Bounds on the result of one call. Evaluation has no others.
const (
	maxText    = 8 << 20 // bytes of a text
	maxWidth   = 1000    // columns that format and indent fill
	maxListLen = 10_000  // elements that setproduct makes
	maxParts   = 100_000 // parts that a text is split into; each costs some 300 bytes
)

var errTooLong = fmt.Errorf("the result would be larger than %d MiB", maxText>>20)

func text(name string) function.Parameter {
	return parameter(name, cty.String)
}

func textFunc(doc string, f func(string) string) function.Function {
	return newFunction(doc, cty.String, func(args []cty.Value) (cty.Value, error) {
		return cty.StringVal(f(args[0].AsString())), nil
	}, text("string"))
}

func testFunc(doc string, test func(s, part string) bool, part string) function.Function {
	return newFunction(doc, cty.Bool, func(args []cty.Value) (cty.Value, error) {
		s, part := args[0].AsString(), args[1].AsString()

		return cty.BoolVal(test(s, part)), nil
	}, text("string"), text(part))
}

// replaceFunc is Terraform's: a search text between slashes is a regular expression.
func replaceFunc() function.Function {
	return newFunction(
		"Replaces each occurrence of a string, or of a regular expression between slashes, by another string.",
		cty.String,
		func(args []cty.Value) (cty.Value, error) {
			s := args[0].AsString()
			search := args[1].AsString()
			with := args[2].AsString()
			if len(search) < 2 || !strings.HasPrefix(search, "/") ||
				!strings.HasSuffix(search, "/") {
				if isTooLong(len(s), strings.Count(s, search), len(with)) {
					return cty.NilVal, errTooLong
				}
				return cty.StringVal(strings.ReplaceAll(s, search, with)), nil
			}

			pattern, err := regexp.Compile(search[1 : len(search)-1])
			if err != nil {
				return cty.NilVal, &PatternError{err}
			}
			matches := len(pattern.FindAllStringIndex(s, -1))
			longest := len(with) + strings.Count(with, "$")*len(s) // "$1" may be the whole text
			if isTooLong(len(s), matches, longest) {
				return cty.NilVal, errTooLong
			}
			return cty.StringVal(pattern.ReplaceAllString(s, with)), nil
		},
		text("string"),
		text("search"),
		text("replace"),
	)
}

// isTooLong reports whether a text of a length that grows some times by some bytes may become larger than maxText.
func isTooLong(length, times, by int) bool {
	return by > 0 && times > (maxText-min(length, maxText))/by
}

func indentFunc() function.Function {
	return checkArguments(stdlib.IndentFunc, func(args []cty.Value) error {
		n := args[0]
		if n.IsKnown() && !n.IsNull() && n.Type() == cty.Number &&
			n.GreaterThan(cty.NumberIntVal(maxWidth)).True() {
			return function.NewArgErrorf(0, "at most %d spaces", maxWidth)
		}
		return nil
	})
}

// boundedParts is a function that splits a text, the last of its arguments, into at most maxParts parts.
func boundedParts(
	f function.Function,
	parts string,
	count func(args []string) int,
) function.Function {
	return checkArguments(f, func(args []cty.Value) error {
		var texts []string
		for _, v := range args {
			if !value.IsText(v) {
				return nil // the function reports it
			}
			texts = append(texts, v.AsString())
		}
		if count(texts) > maxParts {
			return function.NewArgErrorf(len(args)-1, "more than %d %s", maxParts, parts)
		}
		return nil
	})
}

// PatternError is the error of a function for a broken regular expression. try and can do not catch it: no text
// matches it on any machine.
type PatternError struct{ err error }

func (e *PatternError) Error() string { return "the regular expression is not valid: " + e.err.Error() }

// IsUncaught implements Uncaught.
func (e *PatternError) IsUncaught() bool { return true }

// checkPattern is a function whose first argument is a regular expression.
func checkPattern(f function.Function) function.Function {
	return checkArguments(f, func(args []cty.Value) error {
		if !value.IsText(args[0]) {
			return nil // the function reports it
		}
		if _, err := regexp.Compile(args[0].AsString()); err != nil {
			return &PatternError{err}
		}

		return nil
	})
}

func countMatches(args []string) int {
	pattern, err := regexp.Compile(args[0])
	if err != nil {
		return 0 // the function reports it
	}
	groups := pattern.NumSubexp() + 1

	return groups * len(pattern.FindAllStringIndex(args[1], maxParts/groups+1))
}

func countParts(args []string) int {
	return strings.Count(args[1], args[0]) + 1
}

func countCells(args []string) int {
	return strings.Count(args[0], "\n") + strings.Count(args[0], ",") + 1
}

// checkArguments is f with a check of its arguments, which have no marks.
func checkArguments(f function.Function, check func(args []cty.Value) error) function.Function {
	return function.New(&function.Spec{
		Description: f.Description(),
		Params:      f.Params(),
		VarParam:    f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			plain := make([]cty.Value, len(args))
			for i := range args {
				plain[i], _ = args[i].UnmarkDeep()
			}
			if err := check(plain); err != nil {
				return cty.NilType, err
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return f.Call(args)
		},
	})
}

// finite is a function of numbers that refuses an infinite result.
func finite(f function.Function) function.Function {
	return newFunction(f.Description(), cty.Number, func(args []cty.Value) (cty.Value, error) {
		v, err := f.Call(args)
		if err == nil && v.AsBigFloat().IsInf() {
			return cty.NilVal, errors.New("the result is infinite")
		}
		return v, err
	}, f.Params()...)
}

// widthPattern finds a width or a precision of four digits or more in a format string.
var widthPattern = texts.LazyRegexp(`%[-+# .\[\]0-9]*?([0-9]{4,})`)

func boundedFormat(f function.Function) function.Function {
	return checkArguments(f, func(args []cty.Value) error {
		if !value.IsText(args[0]) {
			return nil // the function reports it
		}
		for _, m := range widthPattern().FindAllStringSubmatch(args[0].AsString(), -1) {
			if n, err := strconv.Atoi(m[1]); err != nil || n > maxWidth {
				return function.NewArgErrorf(
					0,
					"invalid width: at most %d columns are allowed",
					maxWidth,
				)
			}
		}
		return nil
	})
}
