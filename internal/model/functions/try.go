package functions

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/customdecode"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
)

// tryFunc is try of our own: HCL's evaluates its arms in Type and again in Impl, so that nested ones take 2^depth.
// Here each arm is evaluated once, and an Uncaught error is not hidden by a later arm.
func tryFunc(opts Checking) function.Function {
	return function.New(&function.Spec{
		Description: "The value of the first expression that has no error.",
		VarParam: &function.Parameter{
			Name: "expressions",
			Type: customdecode.ExpressionClosureType,
		},
		Type: function.StaticReturnType(cty.DynamicPseudoType),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if len(args) == 0 {
				return cty.NilVal, errors.New("at least one expression is needed")
			}

			var failed hcl.Diagnostics
			for i := range args {
				v, diags, err := opts.evaluateArm(args[i])
				switch {
				case err != nil:
					return cty.NilVal, err
				case diags.HasErrors():
					failed = append(failed, diags...)
				case v.IsWhollyKnown():
					return v, nil
				default:
					return opts.unknownResult(v.Type(), args[i+1:])
				}
			}

			return cty.NilVal, noArmWorks(failed)
		},
	})
}

// canFunc is can of our own. That an expression works shows that a credential exists, which is not a secret, so the
// result has no marks.
func canFunc(opts Checking) function.Function {
	return function.New(&function.Spec{
		Description: "Whether an expression has no error.",
		Params: []function.Parameter{
			{Name: "expression", Type: customdecode.ExpressionClosureType},
		},
		Type: function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, diags, err := opts.evaluateArm(args[0])
			switch {
			case err != nil:
				return cty.NilVal, err
			case diags.HasErrors():
				return cty.False, nil
			case !v.IsWhollyKnown():
				return unknownOf(cty.Bool), nil
			}
			return cty.True, nil
		},
	})
}

// Uncaught is an error of a function that try and can may pass on, because neither "it works" nor "it does not work"
// would be true: a secret is refused, or a credential exists and cannot be used.
type Uncaught interface {
	error
	IsUncaught() bool
}

// evaluateArm evaluates one expression. The error is an [Uncaught].
func (o Checking) evaluateArm(closure cty.Value) (cty.Value, hcl.Diagnostics, error) {
	v, diags := customdecode.ExpressionClosureFromVal(closure).Value()
	for _, d := range diags {
		var uncaught Uncaught
		if errors.As(callError(d), &uncaught) && uncaught.IsUncaught() {
			return cty.NilVal, nil, uncaught
		}
		if o.OnUnsupported != nil && d.Severity == hcl.DiagError &&
			d.Summary == "Unsupported attribute" {
			o.OnUnsupported(d)
		}
	}

	return v, diags, nil
}

// unknownResult is the value of a try whose first arm without an error is not wholly known. Once known it may fail,
// and a later arm be taken, so the type is what all of them have in common.
func (o Checking) unknownResult(t cty.Type, rest []cty.Value) (cty.Value, error) {
	for i := range rest {
		v, diags, err := o.evaluateArm(rest[i])
		if err != nil {
			return cty.NilVal, err
		}
		if diags.HasErrors() {
			continue
		}

		isUntypedNull := v.IsKnown() && v.IsNull() && v.Type() == cty.DynamicPseudoType
		if !isUntypedNull {
			t = commonType(t, v.Type())
		}
		if v.IsWhollyKnown() {
			break // this arm works on every machine, so no later one is taken
		}
	}

	return cty.UnknownVal(t), nil
}

func commonType(a, b cty.Type) cty.Type {
	if t, _ := convert.Unify([]cty.Type{a, b}); t != cty.NilType {
		return t
	}
	return cty.DynamicPseudoType
}

func noArmWorks(failed hcl.Diagnostics) error {
	var b strings.Builder
	b.WriteString("none of the expressions works:")
	for _, d := range failed {
		if d.Severity != hcl.DiagError {
			continue
		}
		b.WriteString("\n- ")
		if d.Subject != nil {
			fmt.Fprintf(
				&b,
				"%s:%d,%d: ",
				d.Subject.Filename,
				d.Subject.Start.Line,
				d.Subject.Start.Column,
			)
		}
		b.WriteString(strings.TrimSuffix(d.Summary+"; "+d.Detail, "."))
	}

	return errors.New(b.String())
}
