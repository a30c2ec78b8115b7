package value

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
)

// textEncoder encodes one string. What holds a placeholder becomes a placeholder around it, done at commit.
func textEncoder(op, desc string) function.Function {
	return function.New(&function.Spec{
		Description: desc,
		Params:      []function.Parameter{{Name: "string", Type: cty.DynamicPseudoType, AllowUnknown: true, AllowMarked: true, AllowDynamicType: true}},
		Type:        function.StaticReturnType(cty.String),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			plain, marks := a[0].UnmarkDeep()
			s, err := convert.Convert(plain, cty.String)
			if err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			if !s.IsKnown() {
				return cty.UnknownVal(cty.String).RefineNotNull().WithMarks(marks), nil
			}
			if HasPlaceholder(s.AsString()) {
				return cty.StringVal(placeholder(op, s.AsString())).WithMarks(marks), nil
			}
			enc, err := encodeOp(op, s.AsString())
			if err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			return cty.StringVal(enc).WithMarks(marks), nil
		},
	})
}

// documentEncoder is f, an encoder of a whole value, for values with placeholders inside: each string that holds one
// is encoded as a token, and the token replaced by a placeholder around the string.
func documentEncoder(op string, f function.Function) function.Function {
	return function.New(&function.Spec{
		Description: f.Description(),
		Params: []function.Parameter{{
			Name: "value", Type: cty.DynamicPseudoType,
			AllowNull: true, AllowUnknown: true, AllowDynamicType: true, AllowMarked: true,
		}},
		Type: function.StaticReturnType(cty.String),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			plain, marks := a[0].UnmarkDeep()
			if !plain.IsWhollyKnown() {
				return cty.UnknownVal(cty.String).RefineNotNull().WithMarks(marks), nil
			}
			doc, err := encodeDocument(op, f, plain)
			if err != nil {
				return cty.NilVal, err
			}
			return cty.StringVal(doc).WithMarks(marks), nil
		},
	})
}

func encodeDocument(op string, f function.Function, plain cty.Value) (string, error) {
	prefix, secret, err := tokenPrefix(plain)
	if err != nil {
		return "", err
	}
	var pairs []string
	if secret {
		n := 0
		plain, err = cty.Transform(plain, func(_ cty.Path, v cty.Value) (cty.Value, error) {
			if v.Type() != cty.String || v.IsNull() || !HasPlaceholder(v.AsString()) {
				return v, nil
			}
			n++
			token := fmt.Sprintf("%s%dx", prefix, n)
			from := token
			if op == opYAML {
				from = `"` + token + `"` // the placeholder is a whole scalar, quotes included
			}
			pairs = append(pairs, from, placeholder(op, v.AsString()))
			return cty.StringVal(token), nil
		})
		if err != nil {
			return "", err
		}
	}
	out, err := safeCall(f, []cty.Value{plain})
	if err != nil {
		return "", err
	}
	doc := out.AsString()
	for i := 0; i < len(pairs); i += 2 {
		if strings.Count(doc, pairs[i]) != 1 {
			return "", errors.New("a secret cannot be written here")
		}
		doc = strings.Replace(doc, pairs[i], pairs[i+1], 1)
	}
	return doc, nil
}

// tokenPrefix is a word that no string of v holds, and whether v holds placeholders at all. What cannot be encoded, a
// secret as a key or a number that is not finite, is an error.
func tokenPrefix(v cty.Value) (prefix string, secret bool, err error) {
	var all strings.Builder
	err = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
		switch {
		case v.IsNull():
		case v.Type() == cty.Number:
			if _, err := goNumber(v.AsBigFloat(), nil); err != nil {
				return false, err
			}
		case v.Type() == cty.String:
			secret = secret || HasPlaceholder(v.AsString())
			all.WriteString(v.AsString())
		case v.Type().IsMapType() || v.Type().IsObjectType():
			for it := v.ElementIterator(); it.Next(); {
				k, _ := it.Element()
				if HasPlaceholder(k.AsString()) {
					return false, &secretError{"a key must not be a secret"}
				}
				all.WriteString(k.AsString())
			}
		}
		return true, nil
	})
	for n := 0; err == nil; n++ {
		prefix = fmt.Sprintf("prelet%dsecret", n)
		if !strings.Contains(all.String(), prefix) {
			return prefix, secret, nil
		}
	}
	return "", false, err
}

func base64DecodeFunc() function.Function {
	return function.New(&function.Spec{
		Description: "The text that a base64 string encodes. What is not UTF-8 text is refused.",
		Params:      []function.Parameter{text("string")},
		Type:        function.StaticReturnType(cty.String),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			b, err := base64.StdEncoding.DecodeString(a[0].AsString())
			if err != nil {
				return cty.NilVal, function.NewArgErrorf(0, "not base64")
			}
			if err := checkString(string(b)); err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			return cty.StringVal(string(b)), nil
		},
	})
}

// decodeFunc is one of the bounded decoders. Its type is in its text, so it is not asked for twice.
func decodeFunc(kind string, decode func([]byte) (cty.Value, error)) function.Function {
	return function.New(&function.Spec{
		Description: fmt.Sprintf("The value that a %s document holds: at most 1 MiB and 64 levels.", kind),
		Params:      []function.Parameter{text("document")},
		Type:        function.StaticReturnType(cty.DynamicPseudoType),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			v, err := decode([]byte(a[0].AsString()))
			if err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			return v, nil
		},
	})
}
