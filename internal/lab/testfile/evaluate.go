package testfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/functions"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
)

// fileFunctions returns the functions of a test file that read files next to it.
func fileFunctions(read ReadFunc) map[string]function.Function {
	onePath := func(t cty.Type, f func(name string) (cty.Value, error)) function.Function {
		return function.New(&function.Spec{
			Params: []function.Parameter{{Name: "path", Type: cty.String}},
			Type:   function.StaticReturnType(t),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				name := args[0].AsString()
				if path.IsAbs(name) {
					return cty.NilVal, fmt.Errorf("write a path relative to the test file, not %s", name)
				}
				return f(name)
			},
		})
	}

	return map[string]function.Function{
		"file": onePath(cty.String, func(name string) (cty.Value, error) {
			text, err := read(name)
			switch {
			case err != nil:
				return cty.NilVal, fmt.Errorf("%s, relative to the test file: %w", name, reason(err))
			case !utf8.Valid(text) || secret.HasPlaceholder(string(text)):
				return cty.NilVal, fmt.Errorf("%s is not UTF-8 text, or has a character that prelet reserves", name)
			}
			return cty.StringVal(string(text)), nil
		}),
		"fileexists": onePath(cty.Bool, func(name string) (cty.Value, error) {
			_, err := read(name)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return cty.NilVal, fmt.Errorf("%s, relative to the test file: %w", name, reason(err))
			}
			return cty.BoolVal(err == nil), nil
		}),
	}
}

// reason returns an error of a file without the name of the file.
func reason(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return failed.Err
	}

	return err
}

// evaluator evaluates the arguments of a test file, which see functions and no references. Conditions and their
// messages stay unknown: they are evaluated with a plan. It implements schema.Evaluator.
type evaluator struct {
	eval.Scope
}

func newEvaluator(f *Suite) evaluator {
	all := functions.All()
	maps.Copy(all, f.functions)
	e := eval.New(context.Background(), &lang.Site{}, nil)

	return evaluator{e.WithFunctions(all).Scope("")}
}

// Value implements schema.Evaluator.
func (ev evaluator) Value(s schema.Spec, x hclsyntax.Expression) (cty.Value, hcl.Diagnostics) {
	if s.Name == conditionAttr.Name || s.Name == messageAttr.Name {
		return cty.DynamicVal, nil
	}
	if all := x.Variables(); len(all) > 0 {
		return cty.DynamicVal, hcl.Diagnostics{origin.Error(
			fault.Reference, all[0].SourceRange(), "Only a condition can refer to the plan",
			"%s is an input of the run, so it is known before the run. Write a literal, or file(PATH). "+
				"condition and error_message may refer to var, local, stage, node and plan.", s.Name,
		)}
	}

	v, diags := ev.Scope.Value(s, x)
	switch {
	case s.Name == expectAttr.Name && v.Type() == cty.String: // one code
		return cty.TupleVal([]cty.Value{v}), diags
	case s.Name == kubeletAttr.Name && v.Type() == cty.Number:
		return cty.DynamicVal, hcl.Diagnostics{origin.Error(
			fault.WrongType, x.Range(), "Wrong type for "+s.Name,
			"Write the version in quotes, %s = \"1.30\": without them it is a number, and 1.30 is 1.3.", s.Name,
		)}
	}

	return v, diags
}

// Expand implements schema.Evaluator.
func (ev evaluator) Expand(*hclsyntax.Body) ([]schema.Copy, hcl.Diagnostics) {
	return []schema.Copy{{Eval: ev}}, nil
}
