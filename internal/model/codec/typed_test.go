package codec

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/testing/sample"
)

// fromJSONByConversion is FromJSONTyped as a conversion of the whole document: slow, and simple.
func fromJSONByConversion(raw []byte, t cty.Type) (cty.Value, error) {
	parsed, err := parseJSON(raw, 16*maxDocument)
	if err != nil {
		return cty.UnknownVal(t), err
	}
	v, err := fromGo(parsed, nil)
	if err == nil {
		v, err = convert.Convert(v, withOptionalAttributes(t))
	}
	if err != nil {
		return cty.UnknownVal(t), fmt.Errorf("%s: %w", PathOf(err), err)
	}

	return cty.Transform(v, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if v.IsNull() {
			return value.Absent(v.Type()), nil
		}
		return v, nil
	})
}

// withOptionalAttributes returns t with objects whose attributes may be missing.
func withOptionalAttributes(t cty.Type) cty.Type {
	switch {
	case t.IsObjectType():
		attributes := map[string]cty.Type{}
		for name, attribute := range t.AttributeTypes() {
			attributes[name] = withOptionalAttributes(attribute)
		}
		return cty.ObjectWithOptionalAttrs(attributes, slices.Collect(maps.Keys(attributes)))
	case t.IsMapType():
		return cty.Map(withOptionalAttributes(t.ElementType()))
	case t.IsListType():
		return cty.List(withOptionalAttributes(t.ElementType()))
	case t.IsSetType():
		return cty.Set(withOptionalAttributes(t.ElementType()))
	}

	return t
}

// FromJSONTyped returns the same value as a conversion of the whole document, and fails for the same documents.
func TestFromJSONTypedEqualsConversion(t *testing.T) {
	const inner = "object({name = string, count = number, tags = map(string)})"
	typ := typeOf(t, `object({
		ok    = bool
		name  = string
		size  = number
		list  = list(`+inner+`)
		names = list(string)
		map   = map(list(number))
		any   = any
		set   = set(string)
		inner = `+inner+`
	})`)

	first, step := sample.New(t).OneIn(10)
	rng := rand.New(rand.NewPCG(7, uint64(first)))
	var failed, equal int
	for i := first; i < 20000; i += step {
		raw := randomDocument(rng, 0)
		want, wantErr := fromJSONByConversion([]byte(raw), typ)
		got, err := FromJSONTyped([]byte(raw), typ)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("FromJSONTyped(%s): got error %v, want error %v", raw, err, wantErr)
		}
		if err != nil {
			failed++
			continue
		}
		if !got.RawEquals(want) {
			t.Fatalf("FromJSONTyped(%s):\ngot  %#v\nwant %#v", raw, got, want)
		}
		equal++
	}
	if failed == 0 || equal == 0 {
		t.Errorf("got %d documents that are refused and %d that are not, want some of both", failed, equal)
	}
}

// randomDocument returns JSON that mostly has the form of the type above.
func randomDocument(rng *rand.Rand, depth int) string {
	keys := []string{"ok", "name", "size", "list", "names", "map", "any", "set", "inner", "count", "tags", "é", "x-y"}
	pick := func(all ...string) string { return all[rng.IntN(len(all))] }
	scalar := func() string {
		return pick("null", "true", "1", "2.5", `"a"`, `"7"`, `"true"`, `"é"`, `""`, "1e3", `"\ue000"`)
	}
	list := func(item func() string) string {
		var out []string
		for range rng.IntN(3) {
			out = append(out, item())
		}
		return "[" + strings.Join(out, ",") + "]"
	}

	seen := map[string]bool{}
	var fields []string
	for range rng.IntN(5) {
		key := keys[rng.IntN(len(keys))]
		if seen[key] {
			continue
		}
		seen[key] = true
		value := scalar()
		if isFormed := rng.IntN(12) > 0; isFormed {
			object := func() string { return randomDocument(rng, depth+1) }
			switch key {
			case "ok":
				value = pick("true", "false", "null")
			case "name":
				value = pick(`"a"`, "null")
			case "size", "count":
				value = pick("1", "0.25", "null")
			case "list":
				value = pick("null", "[]")
				if depth < 2 {
					value = list(object)
				}
			case "names", "set":
				value = list(func() string { return pick(`"a"`, `"b"`) })
			case "map":
				value = `{"k":` + list(func() string { return pick("1", "2") }) + `}`
			case "tags":
				value = pick("null", "{}", `{"a":"b"}`, `{"a":null}`)
			case "inner":
				value = "null"
				if depth < 2 {
					value = object()
				}
			}
		}
		fields = append(fields, `"`+key+`":`+value)
	}

	return "{" + strings.Join(fields, ",") + "}"
}
