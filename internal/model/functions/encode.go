package functions

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/texts"
)

// documentEncoder is an encoder of a whole value. encodeSecrets encodes a value with placeholders, which are encoded at
// commit.
func documentEncoder(
	encode function.Function, encodeSecrets func(plain cty.Value) (cty.Value, error),
) function.Function {
	return function.New(&function.Spec{
		Description: encode.Description(),
		Params: []function.Parameter{
			{
				Name:             "value",
				Type:             cty.DynamicPseudoType,
				AllowNull:        true,
				AllowUnknown:     true,
				AllowDynamicType: true,
				AllowMarked:      true,
			},
		},
		Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			plain, marks := args[0].UnmarkDeep()
			doc, err := encode.Call([]cty.Value{plain})
			if err == nil && doc.IsKnown() && len(secret.Names(args[0])) > 0 {
				doc, err = encodeSecrets(plain)
			}
			if err != nil {
				return cty.NilVal, err
			}
			return doc.WithMarks(marks), nil
		},
	})
}

var errEncodedTwice = NewSecretError("a secret cannot be encoded as JSON, YAML or TOML twice; " +
	"write the inner document as an object, or put it into base64encode(…)")

// encodeJSONSecrets encodes a value with placeholders as JSON, which is YAML as well.
func encodeJSONSecrets(plain cty.Value) (cty.Value, error) {
	doc, err := stdlib.JSONEncode(plain)
	if err != nil {
		return cty.NilVal, err
	}

	text := doc.AsString()
	if secret.HasQuotedPlaceholder(text) {
		return cty.NilVal, errEncodedTwice
	}

	return cty.StringVal(texts.EscapeForYAML(secret.QuotePlaceholders(text))), nil
}

// tomlEncodeFunc encodes an object or a map. TOML has no null, and no integers of more than 64 bits.
func tomlEncodeFunc() function.Function {
	parameter := anything("value")
	parameter.AllowUnknown = true
	parameter.AllowDynamicType = true

	return newFunction("A value as TOML.", cty.String, func(args []cty.Value) (cty.Value, error) {
		if !args[0].IsWhollyKnown() {
			return cty.UnknownVal(cty.String), nil
		}

		converted, err := codec.ToGo(args[0])
		if err == nil {
			converted, err = makeTOML(converted, nil)
		}
		if err != nil {
			return cty.NilVal, function.NewArgErrorf(0, "%s: %w", codec.PathOf(err), err)
		}
		document, isObject := converted.(map[string]any)
		if !isObject {
			return refuseArg(0, "a document of TOML is an object or a map")
		}
		encoded, err := toml.Marshal(document) // in the order of the keys
		if err != nil {
			return cty.NilVal, function.NewArgError(0, err)
		}

		return cty.StringVal(string(encoded)), nil
	}, parameter)
}

// makeTOML returns a value of ToGo with numbers as TOML has them.
func makeTOML(v any, path cty.Path) (_ any, err error) {
	switch v := v.(type) {
	case nil:
		return nil, path.NewErrorf("TOML has no null; leave the key out")
	case json.Number:
		f, err := v.Float64()
		if err != nil || f == math.Trunc(f) {
			return nil, path.NewErrorf("TOML has no such number: %s", v)
		}
		return f, nil
	case map[string]any:
		for _, key := range sortedKeys(v) {
			if v[key], err = makeTOML(v[key], path.IndexString(key)); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range v {
			if v[i], err = makeTOML(v[i], path.IndexInt(i)); err != nil {
				return nil, err
			}
		}
	}

	return v, nil
}

// encodeTOMLSecrets encodes a value with placeholders as TOML. Between double quotes TOML has the escapes of JSON. The
// library writes them around a string with a single quote, so one is part of each placeholder until it is encoded.
func encodeTOMLSecrets(plain cty.Value) (cty.Value, error) {
	const quoted = secret.PlaceholderStart + "'"
	marked, err := cty.Transform(plain, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if v.Type() != cty.String || v.IsNull() {
			return v, nil
		}
		if secret.HasQuotedPlaceholder(v.AsString()) {
			return v, errEncodedTwice
		}
		return cty.StringVal(strings.ReplaceAll(v.AsString(), secret.PlaceholderStart, quoted)), nil
	})
	if err != nil {
		return cty.NilVal, err
	}

	doc, err := tomlEncodeFunc().Call([]cty.Value{marked})
	if err != nil {
		return cty.NilVal, err
	}

	text := strings.ReplaceAll(doc.AsString(), quoted, secret.PlaceholderStart)

	return cty.StringVal(secret.QuotePlaceholders(text)), nil
}

func base64DecodeFunc() function.Function {
	return newFunction(
		"The text that a base64 string encodes. What is not UTF-8 text is refused.",
		cty.String,
		func(args []cty.Value) (cty.Value, error) {
			decoded, err := base64.StdEncoding.DecodeString(args[0].AsString())
			if err != nil {
				return refuseArg(0, "not base64")
			}
			v, err := codec.FromGo(string(decoded))
			if err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			return v, nil
		},
		text("string"),
	)
}

// decodeFunc is one of the bounded decoders. The type of its result depends on the text.
func decodeFunc(format string, decode func([]byte) (cty.Value, error)) function.Function {
	doc := fmt.Sprintf("The value that a %s document holds: at most 1 MiB and 64 levels.", format)
	return newFunction(doc, cty.DynamicPseudoType, func(args []cty.Value) (cty.Value, error) {
		v, err := decode([]byte(args[0].AsString()))
		if err != nil {
			return cty.NilVal, function.NewArgError(0, err)
		}
		return v, nil
	}, text("document"))
}
