package value

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

// tryFunc is try of our own: HCL's drops marks and evaluates its arms in Type and again in Impl, so that nested ones
// take 2^depth. Here each arm is evaluated once, and the refusal to look into a secret is no failure that a later
// arm may hide.
func tryFunc(opts Options) function.Function {
	return function.New(&function.Spec{
		Description: "The value of the first expression that has no error.",
		VarParam:    &function.Parameter{Name: "expressions", Type: customdecode.ExpressionClosureType},
		Type:        function.StaticReturnType(cty.DynamicPseudoType),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if len(args) == 0 {
				return cty.NilVal, errors.New("at least one expression is needed")
			}
			var failed hcl.Diagnostics
			for i := range args {
				v, diags, err := opts.arm(args[i])
				switch {
				case err != nil:
					return cty.NilVal, err
				case diags.HasErrors():
					failed = append(failed, diags...)
				case v.IsWhollyKnown():
					return v, nil
				default:
					return opts.unknownArms(v, args[i+1:])
				}
			}
			return cty.NilVal, noArm(failed)
		},
	})
}

// canFunc is can of our own. That an expression works says that a credential exists, which is no secret; so the
// answer has no secret's mark. What would look into one is refused, and not answered.
func canFunc(opts Options) function.Function {
	return function.New(&function.Spec{
		Description: "Whether an expression has no error.",
		Params:      []function.Parameter{{Name: "expression", Type: customdecode.ExpressionClosureType}},
		Type:        function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, diags, err := opts.arm(args[0])
			switch {
			case err != nil:
				return cty.NilVal, err
			case diags.HasErrors():
				return cty.False, nil
			case v.IsWhollyKnown():
				return cty.True, nil
			}
			_, _, unread := Plain(v)
			u := cty.UnknownVal(cty.Bool).RefineNotNull()
			for _, q := range unread {
				u = u.Mark(Unread{Question: q})
			}
			return u, nil
		},
	})
}

// Uncaught is an error of a function that try and can may pass on: what the function looked for is there and cannot be used,
// so that neither "there is one" nor "there is none" would be true.
type Uncaught interface {
	error
	IsUncaught() bool
}

// arm evaluates one expression; err is what nobody may catch.
func (o Options) arm(closure cty.Value) (cty.Value, hcl.Diagnostics, error) {
	v, diags := customdecode.ExpressionClosureFromVal(closure).Value()
	if SensitiveError(diags) {
		return cty.NilVal, nil, sensitive(diags)
	}
	for _, d := range diags {
		var broken Uncaught
		if errors.As(callError(d), &broken) && broken.IsUncaught() {
			return cty.NilVal, nil, broken
		}
	}
	if o.OnUnsupported != nil {
		for _, d := range diags {
			if d.Severity == hcl.DiagError && d.Summary == "Unsupported attribute" {
				o.OnUnsupported(d)
			}
		}
	}
	return v, diags, nil
}

// sensitive is the refusal in diags, as an error for the call around it.
func sensitive(diags hcl.Diagnostics) error {
	for _, d := range diags {
		if SensitiveError(hcl.Diagnostics{d}) {
			var inner *secretError
			if errors.As(callError(d), &inner) {
				return inner
			}
			return &secretError{fmt.Sprintf("%s: %s", d.Summary, strings.TrimSuffix(d.Detail, "."))}
		}
	}
	return errors.New("a secret would be looked into")
}

// unknownArms is the value of a try whose first arm without an error is not wholly known yet. Once known it may fail,
// and a later arm be taken: so the type is what all of them have in common, and the marks are those of all.
func (o Options) unknownArms(first cty.Value, rest []cty.Value) (cty.Value, error) {
	t, marks := first.Type(), []cty.Value{first}
	for i := range rest {
		v, diags, err := o.arm(rest[i])
		if err != nil {
			return cty.NilVal, err
		}
		if diags.HasErrors() {
			continue
		}
		marks = append(marks, v)
		if untypedNull := v.IsKnown() && v.IsNull() && v.Type() == cty.DynamicPseudoType; !untypedNull {
			u, _ := convert.Unify([]cty.Type{t, v.Type()})
			if u == cty.NilType {
				u = cty.DynamicPseudoType
			}
			t = u
		}
		if v.IsWhollyKnown() {
			break // this one is never passed over
		}
	}
	return withDeepMarks(cty.UnknownVal(t), marks), nil
}

func noArm(failed hcl.Diagnostics) error {
	var b strings.Builder
	b.WriteString("none of the expressions works:")
	for _, d := range failed {
		if d.Severity != hcl.DiagError {
			continue
		}
		b.WriteString("\n- ")
		if d.Subject != nil {
			fmt.Fprintf(&b, "%s:%d,%d: ", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column)
		}
		b.WriteString(strings.TrimSuffix(d.Summary+"; "+d.Detail, "."))
	}
	return &armsError{msg: b.String(), diags: failed}
}
