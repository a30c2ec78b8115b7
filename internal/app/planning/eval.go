package planning

import (
	"context"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/boot/limit"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/insight/explain"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/printer"
)

// expressionName is the file of an expression in messages.
const expressionName = "EXPR"

// EvalOptions are an expression, and the node or the recordings that it is evaluated over.
type EvalOptions struct {
	app.Where
	Text string
}

// Evaluated is the value of an expression over one node. Its plan has no Eval where the site is not valid.
type Evaluated struct {
	explain.Evaluation
	Source string // the recording, where the command is over a folder of them; else ""
	Plan   *boot.Plan
	Err    error // why the value is missing: the recording is unreadable, or the expression has an error; else nil
}

// code is that of the error or of the plan; "" where neither failed.
func (x Evaluated) code() fault.Code {
	if x.Err != nil {
		return fault.CodeOf(x.Err)
	}

	return origin.Code(x.Plan.Diagnostics)
}

// Eval evaluates an expression over the node of o or, where o.From is a folder, over each recording in it. show gets
// each value as soon as it is known; an error of show ends the command. begin gets each recording of a folder before it
// is read. A failure over one node is the error, a failure over one recording of a folder is in its Evaluated. The code
// is that of the command: "" where every value is known.
func Eval(
	ctx context.Context, e *app.Env, o EvalOptions, begin func(source string), show func(Evaluated) error,
) (fault.Code, error) {
	x, diags := lang.ParseExpression(expressionName, []byte(o.Text))
	if diags.HasErrors() {
		return "", expressionError(o.Text, diags)
	}

	return eachMachine(ctx, e, o.Where, begin, func(one app.Where, source string) (fault.Code, error) {
		found, err := evaluate(ctx, e, one, o.Text, x)
		if err != nil && source == "" {
			return "", err
		}

		found.Source = source
		found.Err = err

		return found.code(), show(found)
	})
}

// evaluate evaluates one expression over the node of w. On this node the plan has only the stages that the expression
// needs: the cluster may be unreachable. An invalid site gives neither a value nor an error.
func evaluate(
	ctx context.Context, e *app.Env,
	w app.Where,
	text string,
	x hclsyntax.Expression,
) (Evaluated, error) {
	n, err := e.Open(w, nil)
	if err != nil {
		return Evaluated{}, err
	}
	defer n.Close() // an expression may read the node
	if n.Recorded == nil {
		n.Only = x
	}

	n.Explains = true
	out := Evaluated{Plan: n.PlanUnless(ctx)}
	out.Text = text
	if err := app.CheckStopped(ctx); err != nil || out.Plan.Eval == nil {
		return out, err
	}

	limits := limit.Default()
	limits.GaveUp = e.GaveUp
	value, failed := limit.Run(context.Background(), limits, func() explain.Evaluation {
		return explain.Evaluate(out.Plan, expressionName, []byte(text), x)
	})
	if failed != nil {
		return out, expressionError(text, hcl.Diagnostics{failed})
	}
	out.Evaluation = value
	if value.Diagnostics.HasErrors() {
		return out, expressionError(text, value.Diagnostics)
	}

	return out, nil
}

// expressionError returns the failure of a command for an error in an expression of the command line: it is one of the
// caller, and not one of the site.
func expressionError(text string, diags hcl.Diagnostics) error {
	diags = printer.Sorted(diags)

	return &app.Explained{
		Err:      fault.Usage.Errorf("the expression has an error: %s", diags.Error()),
		Messages: diags,
		Sources:  map[string][]byte{expressionName: []byte(text)},
	}
}
