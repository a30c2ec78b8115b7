package probe

import (
	"context"
	"fmt"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
)

// Given is the value of a variable from the command line.
type Given struct {
	Text   string
	Source string // --var, or --var-file and the file
	IsFile bool   // a sensitive variable comes from a file only: every user can read a command line
}

// AnswerGiven answers a question about a variable from the command line. It returns false for any other question.
func AnswerGiven(
	ctx context.Context, all map[string]Given, s *lang.Site, q world.Question,
) (a world.Answer, isGiven bool) {
	switch q.Kind {
	case world.KindVariable:
		r, err := world.Variable.Request(q)
		given, exists := all[r.Name]

		switch {
		case err != nil || !exists:
			return world.Answer{}, false
		case r.Sensitive && !given.IsFile:
			return leaked(r, "was given with --var"), true
		case r.Sensitive:
			given.Text = ""
		}

		return world.Variable.Answer(world.VariableAns{Text: given.Text, Source: given.Source}), true
	case world.KindValidation:
		r, err := world.Validation.Request(q)

		given, exists := all[r.Variable]
		if err != nil || !exists {
			return world.Answer{}, false
		}

		isOK := eval.CheckRule(ctx, s, r.Variable, r.Rule, given.Text)

		return world.Validation.Answer(world.ValidationAns{OK: isOK}), true
	}

	return world.Answer{}, false
}

// leaked returns the failure of a sensitive variable that was given where every user can read it.
func leaked(r world.VariableReq, how string) world.Answer {
	why := fmt.Sprintf("variable %q is sensitive and %s, which every user can read", r.Name, how)

	return world.Failure(fault.Denied, why,
		"Consider the value as leaked, change it, and pass it as credential "+variablePrefix+r.Name+
			"; plan and explain also accept it in a --var-file")
}
