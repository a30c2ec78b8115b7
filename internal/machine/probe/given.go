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
	ctx context.Context, all map[string]Given, s *lang.Site, q tape.Question,
) (a tape.Answer, isGiven bool) {
	switch q.Kind {
	case tape.KindVariable:
		r, err := tape.Variable.Request(q)
		given, exists := all[r.Name]

		switch {
		case err != nil || !exists:
			return tape.Answer{}, false
		case r.Sensitive && !given.IsFile:
			return leaked(r, "was given with --var"), true
		case r.Sensitive:
			given.Text = ""
		}

		return tape.Variable.Answer(tape.VariableAns{Text: given.Text, Source: given.Source}), true
	case tape.KindValidation:
		r, err := tape.Validation.Request(q)

		given, exists := all[r.Variable]
		if err != nil || !exists {
			return tape.Answer{}, false
		}

		isOK := eval.CheckRule(ctx, s, r.Variable, r.Rule, given.Text)

		return tape.Validation.Answer(tape.ValidationAns{OK: isOK}), true
	}

	return tape.Answer{}, false
}

// leaked returns the failure of a sensitive variable that was given where every user can read it.
func leaked(r tape.VariableReq, how string) tape.Answer {
	why := fmt.Sprintf("variable %q is sensitive and %s, which every user can read", r.Name, how)

	return tape.Failure(fault.Denied, why,
		"Consider the value as leaked, change it, and pass it as credential "+variablePrefix+r.Name+
			"; plan and explain also accept it in a --var-file")
}
