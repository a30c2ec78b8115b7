package functions

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/texts"
)

// secretPlaces is the part of each refusal that names the next step.
const secretPlaces = "A secret can be put into text (${…}, join), encoded (base64encode, jsonencode, tomlencode, " +
	"yamlencode) and passed on unchanged; can(credential(…)) reports whether it exists"

// CheckSecrets refuses each place where an expression would depend on the content of a secret: operators, conditions,
// keys, indexes and the arguments of most functions, whether or not evaluation comes to them. It only reads e.
//
// Evaluation could not show the content, since a credential's value is its placeholder, but the result would be wrong.
func CheckSecrets(e hclsyntax.Expression, ctx *hcl.EvalContext) hcl.Diagnostics {
	var diags hcl.Diagnostics
	refuse := func(user string, e hclsyntax.Expression, ctx *hcl.EvalContext, find func(cty.Value) []string) {
		// In it, or for another element.
		isReported := func(d *hcl.Diagnostic) bool { return d.Subject.Overlaps(e.Range()) }
		if slices.ContainsFunc(diags, isReported) {
			return
		}
		v, _ := e.Value(ctx) // evaluation reports its errors
		if names := find(v); len(names) > 0 {
			diags = append(diags, refusal(user, names, e.Range()))
		}
	}
	walkScopes(e, ctx, func(e hclsyntax.Expression, ctx *hcl.EvalContext, isFilter bool) {
		for _, o := range dependentOperands(e) {
			find := secret.Names
			if o.isContainer {
				find = secret.OwnNames
			}
			refuse(o.user, o.expr, ctx, find)
		}
		if _, ok := e.(*hclsyntax.ConditionalExpr); ok { // it may convert a list into a set
			refuse("This set", e, ctx, secretsOfSets)
		}
		if isFilter {
			refuse("This loop", e, ctx, secret.Names)
		}
	})

	return diags
}

// CheckSecretKey refuses the value of a key if it depends on a secret.
func CheckSecretKey(key cty.Value, at hcl.Range) hcl.Diagnostics {
	if names := secret.Names(key); len(names) > 0 {
		return hcl.Diagnostics{refusal("This key", names, at)}
	}
	return nil
}

// refusal makes the error for a use of secrets by something, named as the beginning of a sentence.
func refusal(user string, secrets []string, at hcl.Range) *hcl.Diagnostic {
	return &hcl.Diagnostic{
		Severity: hcl.DiagError,
		Summary:  "A secret cannot be used here",
		Detail: fmt.Sprintf(
			"%s would depend on the content of credential %s. %s.",
			user,
			texts.QuoteAll(secrets),
			secretPlaces,
		),
		Subject: at.Ptr(),
		Extra:   sensitiveExtra{},
	}
}

// secretsOfSets returns the names of the credentials in the sets of v. A set compares and sorts its elements.
func secretsOfSets(v cty.Value) []string {
	var names []string
	_ = cty.Walk(v, func(_ cty.Path, part cty.Value) (bool, error) { // the callback returns no error
		if part.Type().IsSetType() {
			names = append(names, secret.Names(part)...)
		}
		return true, nil
	})

	return names
}

// mayHoldSecret reports whether e calls credential() or refers to a value with a secret in it.
func mayHoldSecret(e hclsyntax.Expression, ctx *hcl.EvalContext) bool {
	for _, reference := range e.Variables() {
		if v, _ := reference.TraverseAbs(ctx); len(secret.Names(v)) > 0 {
			return true
		}
	}

	found := false
	_ = hclsyntax.VisitAll(e, func(n hclsyntax.Node) hcl.Diagnostics {
		call, ok := n.(*hclsyntax.FunctionCallExpr)
		found = found || ok && call.Name == "credential"
		return nil
	})

	return found
}

// operand is a part of an expression whose content the result depends on.
type operand struct {
	expr hclsyntax.Expression
	user string // what depends on it, as the beginning of a sentence
	// isContainer: the result depends on the names and the number of its elements only.
	isContainer bool
}

func dependentOperands(e hclsyntax.Expression) (out []operand) {
	add := func(user string, parts ...hclsyntax.Expression) {
		for _, part := range parts {
			if part != nil {
				out = append(out, operand{expr: part, user: user})
			}
		}
	}

	switch e := e.(type) {
	case *hclsyntax.BinaryOpExpr:
		add("This operator", e.LHS, e.RHS)
	case *hclsyntax.UnaryOpExpr:
		add("This operator", e.Val)
	case *hclsyntax.ConditionalExpr:
		add("This condition", e.Condition)
	case *hclsyntax.IndexExpr:
		add("This index", e.Key)
	case *hclsyntax.ObjectConsExpr:
		for _, item := range e.Items {
			add("This key", item.KeyExpr)
		}
	case *hclsyntax.FunctionCallExpr:
		add(e.Name+"()", dependentArguments(e)...)
		isArgument := len(out) > 0 && !e.ExpandFinal // with ... the elements are the arguments
		if isArgument && slices.Contains(containerFunctions, e.Name) {
			out[0].isContainer = true
		}
	}

	return out
}

// containerFunctions depend on the names and the number of elements of their first argument, not on the elements.
var containerFunctions = []string{"keys", "length", "lookup"}

// dependentArguments returns the arguments of a call that must not be secrets.
func dependentArguments(call *hclsyntax.FunctionCallExpr) []hclsyntax.Expression {
	switch call.Name {
	case "base64encode", "jsonencode", "tomlencode", "yamlencode", "try", "can":
		return nil
	case "join", "templatefile": // a separator and a name of a file must not be secrets
		return call.Args[:min(1, len(call.Args))]
	}
	return call.Args
}

// sensitiveExtra marks a diagnostic of CheckSecrets.
type sensitiveExtra struct{}

// SecretError is the error of a function that refuses a secret. try and can do not catch it.
type SecretError struct{ message string }

// NewSecretError makes the refusal of a function. The message ends with the next step, without a point.
func NewSecretError(message string) *SecretError { return &SecretError{message} }

func (e *SecretError) Error() string { return e.message }

// IsUncaught implements Uncaught.
func (e *SecretError) IsUncaught() bool { return true }

// IsSecretRefused reports whether a diagnostic refuses a use of a secret.
func IsSecretRefused(d *hcl.Diagnostic) bool {
	if _, ok := d.Extra.(sensitiveExtra); ok {
		return true
	}
	var refused *SecretError
	return errors.As(callError(d), &refused)
}

// callError returns the error of the function whose call a diagnostic is about, or nil.
func callError(d *hcl.Diagnostic) error {
	if extra, ok := d.Extra.(hclsyntax.FunctionCallDiagExtra); ok {
		return extra.FunctionCallError()
	}
	return nil
}
