package testfile

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/eval"
)

// check evaluates one assert of the file. It returns nil for a true condition.
func (f *Suite) check(a Assert, scope eval.Outside) *Failure {
	v, diags := scope.Value(a.Condition)
	failed := &Failure{
		Kind:   KindAssert,
		At:     a.Condition.Range(),
		Source: f.text(a.Condition),
	}
	if diags.HasErrors() {
		failed.Summary = "The condition cannot be evaluated"
		failed.Errors = diags
		isLong := func(v Value) bool { return strings.Contains(v.Text, "\n") } // the error has the value
		failed.Values = slices.DeleteFunc(f.describeReferences(a.Condition, scope.Recorded()), isLong)
		return failed
	}

	plain, secrets := secret.Plain(v)
	isBool := plain.Type() == cty.Bool
	switch {
	case len(secrets) > 0:
		failed.Summary = "The condition is a secret"
		failed.Message = "A test cannot read the content of a credential."
	case !plain.IsKnown():
		failed.Summary = "The condition is not known"
		failed.Message = "It needs what the recording does not contain. " + origin.RecordAgain +
			". Or give the answer in the run."
	case !isBool || plain.IsNull():
		failed.Summary = "The condition is not true or false"
		failed.Message = "It is " + Format(plain) + "."
	case plain.True():
		return nil
	default:
		failed.Summary = "The condition is false"
		failed.Message = f.message(a, scope)
		f.describe(failed, a.Condition, scope.Recorded())
	}

	return failed
}

// message returns the error_message of an assert; "" for none.
func (f *Suite) message(a Assert, scope eval.Outside) string {
	if a.Message == nil {
		return ""
	}

	v, diags := scope.Value(a.Message)
	text, ok := value.KeyText(v)
	if diags.HasErrors() || len(secret.Names(v)) > 0 || !ok {
		return f.text(a.Message)
	}

	return text
}

// describe adds to a failure what makes a condition false: the sides of a comparison, and the values of references. It
// reads the record of the evaluation.
func (f *Suite) describe(failed *Failure, x hclsyntax.Expression, scope eval.Outside) {
	if part := f.findFalse(x, scope); part != x {
		failed.Values = append(failed.Values, Value{Name: f.text(part), Text: "false"})
		x = part
	}

	b, isOperator := x.(*hclsyntax.BinaryOpExpr)
	if !isOperator || b.Op != equal {
		failed.Values = append(failed.Values, f.describeReferences(x, scope)...)
		return
	}

	got, want := b.LHS, b.RHS
	if len(got.Variables()) == 0 && len(want.Variables()) > 0 {
		got, want = want, got
	}
	gotValue, _ := scope.Value(got) // the comparison has been evaluated without an error
	wantValue, _ := scope.Value(want)
	failed.Got, failed.Want = formatPair(gotValue, wantValue)
	isShown := func(v Value) bool {
		isSide := v.Name == f.text(got) || v.Name == f.text(want)
		return isSide || v.Text == Format(gotValue)
	}
	failed.Values = append(failed.Values, slices.DeleteFunc(f.describeReferences(x, scope), isShown)...)
}

// findFalse returns the part of a condition that makes it false: the first false operand of &&, through parentheses.
func (f *Suite) findFalse(x hclsyntax.Expression, scope eval.Outside) hclsyntax.Expression {
	for {
		if p, ok := x.(*hclsyntax.ParenthesesExpr); ok {
			x = p.Expression
			continue
		}
		b, ok := x.(*hclsyntax.BinaryOpExpr)
		if !ok || b.Op.Impl != stdlib.AndFunc {
			return x
		}
		x = b.RHS
		if isTrue, isKnown := scope.Condition(b.LHS); isKnown && !isTrue {
			x = b.LHS
		}
	}
}

// describeReferences returns the value of each reference of an expression, in their order, each once. Of a reference
// to something that does not exist it returns the part that does: of node.labels["x"] all labels.
func (f *Suite) describeReferences(x hclsyntax.Expression, scope eval.Outside) (out []Value) {
	names := scope.Names(x)
	for _, reference := range x.Variables() {
		for n := len(reference); n > 1; n-- {
			v, diags := reference[:n].TraverseAbs(names)
			if diags.HasErrors() {
				continue
			}
			found := Value{Name: f.textAt(reference[:n].SourceRange()), Text: Format(v)}
			if !slices.Contains(out, found) {
				out = append(out, found)
			}
			break
		}
	}

	return out
}

// text returns the source of an expression in one line.
func (f *Suite) text(x hcl.Expression) string { return f.textAt(x.Range()) }

func (f *Suite) textAt(r hcl.Range) string {
	if r.End.Byte > len(f.Source) || r.Start.Byte > r.End.Byte {
		return ""
	}

	words := strings.Fields(string(f.Source[r.Start.Byte:r.End.Byte]))

	return strings.Join(words, " ")
}

// maxLine is how many characters a value may have in one line.
const maxLine = 100

// Format returns a value as the language writes it: in one line if it is short, otherwise with a line for each item.
// A text of several lines is returned as it is. Parts with a secret are not shown.
func Format(v cty.Value) string {
	isPage := value.IsText(v) && strings.Contains(strings.TrimSuffix(v.AsString(), "\n"), "\n")
	if isPage {
		return v.AsString()
	}

	return value.Format(v, maxLine, secret.Hide)
}

// formatPair returns two values that were compared, both in the same form, so that their lines can be compared.
func formatPair(a, b cty.Value) (string, string) {
	textA := Format(a)
	textB := Format(b)
	switch {
	case !strings.Contains(textA+textB, "\n"):
		return textA, textB
	case value.IsText(a) && value.IsText(b):
		return a.AsString(), b.AsString()
	case value.IsText(a) || value.IsText(b):
		return textA, textB
	}

	return value.Format(a, 0, secret.Hide), value.Format(b, 0, secret.Hide)
}
