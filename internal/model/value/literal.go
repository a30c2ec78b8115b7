package value

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/model/secret"
)

// Unwrap returns the expression inside of parentheses, of a computed key, and of a template that is one interpolation:
// their values are those of the expression.
func Unwrap(x hclsyntax.Expression) hclsyntax.Expression {
	for {
		switch wrapper := x.(type) {
		case *hclsyntax.ParenthesesExpr:
			x = wrapper.Expression
		case *hclsyntax.ObjectConsKeyExpr:
			if isName := hcl.ExprAsKeyword(wrapper.Wrapped) != ""; isName && !wrapper.ForceNonLiteral {
				return x
			}
			x = wrapper.Wrapped
		case *hclsyntax.TemplateWrapExpr:
			x = wrapper.Wrapped
		default:
			return x
		}
	}
}

// LiteralText returns the text of an expression that refers to nothing and calls nothing. ok is false for any other
// expression, and for a value that is not a text.
func LiteralText(x hcl.Expression) (text string, ok bool) {
	v, diags := x.Value(nil)
	if diags.HasErrors() || !IsText(v) {
		return "", false
	}

	return v.AsString(), true
}

// IsText reports whether a value is a known string without marks.
func IsText(v cty.Value) bool {
	hasValue := v.IsKnown() && !v.IsNull()

	return hasValue && v.Type() == cty.String && !v.IsMarked()
}

// KeyText returns a value as a key of an object, or the index of an element in decimal. ok is false for null, an
// unknown value, and a collection.
func KeyText(v cty.Value) (key string, ok bool) {
	plain, _ := secret.Plain(v)
	text, err := convert.Convert(plain, cty.String)
	if err != nil || !IsText(text) {
		return "", false
	}

	return text.AsString(), true
}

// IsExact reports whether a text is the same as a value of the language, which combines characters (Unicode NFC): e
// and a combining accent become one character. Bytes that are not the site's own must not change so.
func IsExact(s string) bool { return cty.NormalizeString(s) == s }
