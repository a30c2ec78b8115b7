package planning

import (
	"context"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/explain"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/plan/limit"
)

// expressionName is the file of an expression in messages.
const expressionName = "EXPR"

// Session evaluates expressions over one look at a node or its recording. It plans once, and again only when an
// expression needs stages that the plan left out, from the same answers. After a failure the next expression looks
// again. In a folder of recordings, each expression looks at each, so that no more than one plan is in memory.
type Session struct {
	lab.Request
	Env  *machine.Env
	node *lab.Node // open, with the answers so far in front of its source; nil without a plan
	plan *evaluate.Plan
}

// Evaluated is the value of an expression over one node. Its plan has no Eval where the site is not valid.
type Evaluated struct {
	explain.Evaluation
	Source string // the recording, where the command is over a folder of them; else ""
	Plan   *evaluate.Plan
	Err    error // why the value is missing: the recording is unreadable, or the expression has an error; else nil
}

// code is that of the error or of the plan; "" where neither failed.
func (x Evaluated) code() fault.Code {
	if x.Err != nil {
		return fault.CodeOf(x.Err)
	}

	return origin.Code(x.Plan.Diagnostics)
}

// Eval evaluates an expression over the node of s or, where s.From is a folder, over each recording in it. show gets
// each value as soon as it is known; an error of show ends the command. begin gets each recording of a folder before it
// is read. A failure over one node is the error, a failure over one recording of a folder is in its Evaluated. The code
// is that of the command: "" where every value is known.
func (s *Session) Eval(
	ctx context.Context, text string, begin func(source string), show func(Evaluated) error,
) (fault.Code, error) {
	x, diags := lang.ParseExpression(expressionName, []byte(text))
	if diags.HasErrors() {
		if strings.HasPrefix(text, "${") {
			diags[0].Detail = "An expression is written without ${ and }."
		}

		return "", expressionError(text, diags)
	}
	do := func(one lab.Request, source string) (fault.Code, error) {
		on := s
		if source != "" {
			on = &Session{Env: s.Env, Request: one}
			defer on.Close()
		}
		found, err := on.evaluate(ctx, text, x)
		if err != nil && source == "" {
			return "", err
		}

		found.Source = source
		found.Err = err

		return found.code(), show(found)
	}
	if s.node != nil {
		return do(s.Request, "")
	}

	return eachMachine(ctx, s.Env, s.Request, begin, do)
}

// Close releases the node and its answers. The session can be used again.
func (s *Session) Close() {
	if s.node != nil {
		s.node.Close()
	}
	s.node = nil
}

// evaluate evaluates one expression over the node. An invalid site gives neither a value nor an error.
func (s *Session) evaluate(ctx context.Context, text string, x hclsyntax.Expression) (Evaluated, error) {
	if err := s.planFor(ctx, x); err != nil {
		return Evaluated{}, err
	}
	out := Evaluated{Plan: s.plan}
	if s.plan.Diagnostics.HasErrors() {
		defer s.Close() // after the expression, which may read the node
	}
	out.Text = text
	if err := machine.CheckStopped(ctx); err != nil || out.Plan.Eval == nil {
		return out, err
	}

	limits := limit.Default()
	limits.GaveUp = s.Env.GaveUp
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

// planFor makes the plan that an expression needs, unless s has it. On this node the plan has only the stages that the
// expression needs: the cluster may be unreachable.
func (s *Session) planFor(ctx context.Context, x hclsyntax.Expression) error {
	if s.node == nil {
		n, err := lab.Open(s.Env, s.Request, nil)
		if err != nil {
			return err
		}
		n.Options.Explains = true
		n.Source = tape.NewTape(n.Source)
		s.node = n
	} else if e := s.plan.Eval; e.Node().IsKnown() || !e.Reach(x).Any && len(e.NotReached(x)) == 0 {
		return nil
	}

	if s.node.Recorded == nil {
		s.node.Options.Only = x
	}
	s.plan = s.node.PlanUnless(ctx)

	return nil
}

// expressionError returns the failure of a command for an error in an expression of the command line: it is one of the
// caller, and not one of the site.
func expressionError(text string, diags hcl.Diagnostics) error {
	diags = printer.Sorted(diags)

	return &lab.Explained{
		Err:      fault.Usage.Errorf("the expression has an error: %s", diags.Error()),
		Messages: diags,
		Sources:  map[string][]byte{expressionName: []byte(text)},
	}
}
