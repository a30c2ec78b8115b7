package live

import (
	"context"
	"fmt"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
	"github.com/prelet/prelet/internal/world"
)

// Given is the value of a variable that the command line gives.
type Given struct {
	Text   string
	Source string // --var, or --var-file and the file
	IsFile bool   // a sensitive variable comes from a file only: everyone can read a command line
}

// GivenByFlag returns values that were given with --var.
func GivenByFlag(values map[string]string) map[string]Given {
	out := map[string]Given{}
	for name, text := range values {
		out[name] = Given{Text: text, Source: "--var"}
	}
	return out
}

// AnswerGiven answers a question about a variable that the command line gives. It returns false for any other question.
func AnswerGiven(ctx context.Context, all map[string]Given, s *site.Site, q world.Question) (world.Answer, bool) {
	switch q.Kind {
	case world.KindVariable:
		r, err := world.Variable.Request(q)
		given, ok := all[r.Name]
		switch {
		case err != nil || !ok:
			return world.Answer{}, false
		case r.Sensitive && !given.IsFile:
			return leaked(r, "was given with --var"), true
		case r.Sensitive:
			return world.Variable.Answer(world.VariableAns{Source: given.Source}), true
		}
		return world.Variable.Answer(world.VariableAns{Text: given.Text, Source: given.Source}), true
	case world.KindValidation:
		r, err := world.Validation.Request(q)
		given, ok := all[r.Variable]
		if err != nil || !ok {
			return world.Answer{}, false
		}
		return world.Validation.Answer(world.ValidationAns{OK: eval.Judge(ctx, s, r.Variable, r.Rule, given.Text)}), true
	}

	return world.Answer{}, false
}

// leaked refuses a sensitive variable that was given where everyone can read it.
func leaked(r world.VariableReq, how string) world.Answer {
	why := fmt.Sprintf("variable %q is sensitive and %s, where everybody reads it", r.Name, how)
	return world.Failure(fault.Denied, why,
		"Take the value as leaked, change it, and pass it as credential "+variablePrefix+r.Name+
			"; plan and explain also take it in a --var-file")
}
