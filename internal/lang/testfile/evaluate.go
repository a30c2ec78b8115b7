package testfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/schema"
)

// functions returns the functions of a test file that read files next to it.
func functions(read ReadFunc) map[string]function.Function {
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
			case !utf8.Valid(text) || value.HasPlaceholder(string(text)):
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
	ctx *hcl.EvalContext
}

func newEvaluator(f *File) evaluator {
	all := value.Functions()
	for name, one := range f.functions {
		all[name] = one
	}

	return evaluator{&hcl.EvalContext{Functions: all}}
}

// Value implements schema.Evaluator. A panic of a library is an error.
func (ev evaluator) Value(
	s schema.Spec, x hclsyntax.Expression,
) (v cty.Value, diags hcl.Diagnostics) {
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

	defer func() {
		if r := recover(); r != nil {
			v = cty.DynamicVal
			diags = hcl.Diagnostics{origin.Error(
				fault.Internal, x.Range(), "This expression cannot be evaluated",
				"Its evaluation failed unexpectedly (%v). Please report this.", r,
			)}
		}
	}()
	v, diags = x.Value(ev.ctx)
	if s.Name == kubeletAttr.Name && v.Type() == cty.Number {
		return cty.DynamicVal, hcl.Diagnostics{origin.Error(
			fault.WrongType, x.Range(), "Wrong type for "+s.Name,
			"Write the version in quotes, %s = \"1.30\": without them it is a number, and 1.30 is 1.3.", s.Name,
		)}
	}

	return v, origin.WithCode(diags, fault.Evaluation)
}

// Item implements schema.Evaluator.
func (ev evaluator) Item(x hclsyntax.Expression, key string) hclsyntax.Expression {
	object, ok := value.Unwrap(x).(*hclsyntax.ObjectConsExpr)
	if !ok {
		return nil
	}
	for _, item := range object.Items {
		k, diags := item.KeyExpr.Value(ev.ctx)
		if !diags.HasErrors() && value.IsText(k) && k.AsString() == key {
			return item.ValueExpr
		}
	}

	return nil
}

// Origins implements schema.Evaluator. A test file is not a part of a plan.
func (evaluator) Origins(hclsyntax.Expression) []origin.Origin { return nil }

// Default implements schema.Evaluator.
func (evaluator) Default(s schema.Spec, _ hcl.Range) (cty.Value, []origin.Origin, hcl.Diagnostics) {
	return s.Default, nil, nil
}

// Expand implements schema.Evaluator.
func (ev evaluator) Expand(*hclsyntax.Body) ([]schema.Copy, hcl.Diagnostics) {
	return []schema.Copy{{Eval: ev}}, nil
}
