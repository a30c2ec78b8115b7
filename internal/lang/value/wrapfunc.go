package value

import (
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// secretError is a function's refusal to look into a secret. It is its own type because try must not catch it.
type secretError struct{ msg string }

func (e *secretError) Error() string { return e.msg }

// nullError is an error of a call that would have gone through without the nulls inside of its arguments.
type nullError struct{ err error }

func (e *nullError) Error() string { return e.err.Error() }

// armsError is a try none of whose expressions worked.
type armsError struct {
	msg   string
	diags hcl.Diagnostics
}

func (e *armsError) Error() string { return e.msg }

// carries says why argument i must not be a secret; empty when it may be one.
type carries func(args []cty.Value, i int) string

func carriesNothing(_ []cty.Value, _ int) string { return "its result would depend on the content" }
func carriesAll(_ []cty.Value, _ int) string     { return "" }

// carriesElements is for join: the separator says nothing about where it came from, so it stays the site's text.
func carriesElements(_ []cty.Value, i int) string {
	if i == 0 {
		return "the separator must not be one"
	}
	return ""
}

// careful is f that refuses secrets where rule says so.
//
// HCL converts arguments to the parameters' types before it calls a function, and a failed conversion of a secret
// would be an ordinary error: try would catch it, and so answer a question about the secret. So the parameters of
// the careful function take everything, and the conversion is done here, after the refusal. Marks are left to f.
func careful(name string, f function.Function, rule carries) function.Function {
	params, varParam := f.Params(), f.VarParam()
	of := func(i int) function.Parameter {
		if i < len(params) {
			return params[i]
		}
		return *varParam
	}
	refuse := func(args []cty.Value) error {
		for i, a := range args {
			if s := Secrets(a); len(s) > 0 {
				if why := rule(args, i); why != "" {
					return &secretError{fmt.Sprintf("%s does not take a secret as %q: %s (credential %s)", name, of(i).Name, why, quoteNames(s))}
				}
			}
		}
		return nil
	}
	spec := &function.Spec{Description: f.Description()}
	for _, p := range params {
		spec.Params = append(spec.Params, takesAll(p))
	}
	if varParam != nil {
		p := takesAll(*varParam)
		spec.VarParam = &p
	}
	spec.Type = func(args []cty.Value) (t cty.Type, err error) {
		defer ownFault(name, &err)
		if err := refuse(args); err != nil {
			return cty.NilType, err
		}
		conv, err := converted(args, of)
		if err != nil {
			return cty.NilType, nullCaused(name, f, of, args, err)
		}
		if t, err = f.ReturnTypeForValues(conv); err != nil {
			return cty.NilType, nullCaused(name, f, of, args, err)
		}
		return t, nil
	}
	spec.Impl = func(args []cty.Value, _ cty.Type) (v cty.Value, err error) {
		defer ownFault(name, &err)
		conv, err := converted(args, of) // Type came first, and has refused
		if err != nil {
			return cty.NilVal, err
		}
		if v, err = safeCall(f, conv); err != nil {
			return cty.NilVal, nullCaused(name, f, of, args, err)
		}
		if !v.IsKnown() { // cty forgets marks of arguments that it did not come to look at
			v = withDeepMarks(v, args)
		}
		return v, nil
	}
	return function.New(spec)
}

func takesAll(p function.Parameter) function.Parameter {
	p.Type = cty.DynamicPseudoType
	p.AllowNull, p.AllowUnknown, p.AllowDynamicType, p.AllowMarked = true, true, true, true
	return p
}

func converted(args []cty.Value, of func(int) function.Parameter) ([]cty.Value, error) {
	out := make([]cty.Value, len(args))
	for i, a := range args {
		p := of(i)
		c, err := Convert(a, p.Type)
		if err != nil {
			return nil, function.NewArgError(i, err)
		}

		if c.IsNull() && c.Type() == cty.DynamicPseudoType && p.AllowNull && !p.AllowDynamicType {
			c = cty.NullVal(cty.String).WithMarks(c.Marks()) // cty takes a null without a type for an unknown
		}

		out[i] = c
	}
	return out, nil
}

// nullCaused marks err if a null inside of an argument is what it came from. That an argument is null itself can be
// seen from the expression, so such an error stays as it is, and keeps its place.
func nullCaused(name string, f function.Function, of func(int) function.Parameter, args []cty.Value, err error) error {
	var secret *secretError
	var panicked function.PanicError
	switch {
	case errors.As(err, &secret):
		return err
	case errors.As(err, &panicked):
		err = fault(name, panicked.Value)
	}
	var arg function.ArgError
	if errors.As(err, &arg) && arg.Index < len(args) && args[arg.Index].IsNull() {
		return err
	}
	holds := false
	without := make([]cty.Value, len(args))
	for i, a := range args {
		holds = holds || holdsNull(a)
		without[i] = nullsToUnknown(a)
	}
	if !holds {
		return err
	}
	conv, e := converted(without, of)
	if e == nil {
		_, e = safeCall(f, conv)
	}
	if e != nil {
		return err
	}
	if arg.Index < len(args) && errors.As(err, &arg) {
		err = fmt.Errorf("invalid value for %q parameter: %w", of(arg.Index).Name, err)
	}
	return &nullError{err}
}

// ownFault turns a panic into an error without the stack that cty would put into its message.
func ownFault(name string, err *error) {
	if r := recover(); r != nil {
		*err = fault(name, r)
	}
}

func fault(name string, cause any) error {
	return fmt.Errorf("%s failed where it should not (%v); please report this", name, cause)
}

// safeCall is f.Call that never panics: cty does when a function breaks its own type.
func safeCall(f function.Function, args []cty.Value) (v cty.Value, err error) {
	defer func() {
		if r := recover(); r != nil {
			v, err = cty.NilVal, function.PanicError{Value: "a result of the wrong type"}
		}
	}()
	return f.Call(args)
}
