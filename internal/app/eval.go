package app

import (
	"context"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/explain"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/report/printer"
)

// expressionName is the file of an expression in messages.
const expressionName = "EXPR"

// EvalOptions are an expression, and the node or the recordings that it is evaluated over.
type EvalOptions struct {
	Where
	Text string
}

// Evaluated is the value of an expression over one node. Its plan has no Eval where the site is not valid.
type Evaluated struct {
	explain.Evaluation
	Source string // the recording, where the command is over a folder of them; else ""
	Plan   *boot.Plan
	Err    error // why there is no value: the recording is unreadable, or the expression has an error; else nil
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
func (e *Env) Eval(
	ctx context.Context, o EvalOptions, begin func(source string), show func(Evaluated) error,
) (fault.Code, error) {
	x, diags := lang.ParseExpression(expressionName, []byte(o.Text))
	if diags.HasErrors() {
		return "", expressionError(o.Text, diags)
	}

	var codes []fault.Code
	err := eachRecording(ctx, o.Where, begin, func(one Where, source string) error {
		c, err := e.OpenConsole(ctx, one, x)
		var found Evaluated
		if err == nil {
			defer c.Close()
			found = c.Evaluate(ctx, o.Text)
			err = found.Err
		}
		if err != nil && source == "" {
			return err
		}

		found.Source = source
		found.Err = err
		codes = append(codes, found.code())
		return show(found)
	})

	return lowestCode(codes), err
}

// Console is a plan in whose scope expressions are evaluated, one after the other. On this node the plan has only what
// the expressions so far need: the cluster may be out of reach.
type Console struct {
	Plan *boot.Plan
	node *openNode
	site hcl.Diagnostics // of loading the site
}

// OpenConsole plans the node of w, for an expression on this node. The node stays open for what expressions read. The
// caller closes it.
func (e *Env) OpenConsole(ctx context.Context, w Where, only hclsyntax.Expression) (*Console, error) {
	n, found, err := e.open(w, nil)
	if err != nil {
		return nil, err
	}

	c := &Console{node: n, site: found}
	if n.rec != nil {
		only = nil
	}
	if err := c.plan(ctx, only); err != nil {
		n.Close()
		return nil, err
	}

	return c, nil
}

// plan plans the node for an expression; nil: for any.
func (c *Console) plan(ctx context.Context, only hclsyntax.Expression) error {
	c.node.only = only
	c.Plan = c.node.planUnless(ctx, c.site, c.node.env.Progress)

	return checkStopped(ctx)
}

// OpenOneConsole is OpenConsole for a command that cannot be over a folder of recordings.
func (e *Env) OpenOneConsole(ctx context.Context, w Where) (*Console, error) {
	recordings, err := listRecordings(w.From)
	switch {
	case err != nil:
		return nil, err
	case recordings != nil:
		return nil, failure(fault.Usage, "--from %s: a console is over one recording, not a folder", w.From)
	}
	nothing, _ := lang.ParseExpression(expressionName, []byte("null"))

	return e.OpenConsole(ctx, w, nothing)
}

// Close closes the node.
func (c *Console) Close() { c.node.Close() }

// GaveUp reports whether an evaluation has reached a limit.
func (c *Console) GaveUp() bool {
	return c.node.env.GaveUp != nil && c.node.env.GaveUp.Load()
}

// Code returns why the site failed on this node; "" if it did not.
func (c *Console) Code() fault.Code { return origin.Code(c.Plan.Diagnostics) }

// Evaluate evaluates one expression. Where the site is not valid, there is no value and no error.
func (c *Console) Evaluate(ctx context.Context, text string) Evaluated {
	x, diags := lang.ParseExpression(expressionName, []byte(text))
	if diags.HasErrors() {
		return Evaluated{Plan: c.Plan, Err: expressionError(text, diags)}
	}
	if c.Plan.Eval != nil && !c.Plan.Covers(x) {
		if err := c.plan(ctx, x); err != nil {
			return Evaluated{Plan: c.Plan, Err: err}
		}
	}
	out := Evaluated{Plan: c.Plan}
	out.Text = text
	if c.Plan.Eval == nil {
		return out
	}

	value, diags, ok := boot.EvaluateWithinLimits(c.node.env.GaveUp, func() explain.Evaluation {
		return explain.Evaluate(c.Plan, expressionName, []byte(text), x)
	})
	if ok {
		out.Evaluation = value
		diags = value.Diagnostics
	}
	if diags.HasErrors() {
		out.Err = expressionError(text, diags)
	}

	return out
}

// expressionError returns the failure of a command for an error in an expression of the command line: it is one of the
// caller, and not one of the site.
func expressionError(text string, diags hcl.Diagnostics) error {
	diags = printer.Sorted(diags)

	return &Explained{
		Err:      failure(fault.Usage, "the expression has an error: %s", diags.Error()),
		Messages: diags,
		Sources:  map[string][]byte{expressionName: []byte(text)},
	}
}
