package functions

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/zclconf/go-cty/cty"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/model/secret"
)

// canary has what each encoding must escape, for YAML too, and looks like a placeholder itself.
const canary = "p\"\\ä<\n: {x} '\x7f\u0085\ufeff\uffff\ue000cred:other\ue001"

func getCanary(name string) ([]byte, error) {
	switch name {
	case "c":
		return []byte(canary), nil
	case "lines":
		return []byte("two\n\n"), nil
	case "binary":
		return []byte{0xff, 0, 1}, nil
	}
	return nil, errors.New("is not there")
}

// TestPlaceholdersRoundTrip: what the encoding functions put around a secret is undone by an ordinary decoder.
func TestPlaceholdersRoundTrip(t *testing.T) {
	asJSON := func(s string) (v any) { noError(t, json.Unmarshal([]byte(s), &v)); return v }
	asYAML := func(s string) (v any) { noError(t, yaml.UnmarshalStrict([]byte(s), &v)); return v }
	asTOML := func(s string) (v any) { noError(t, toml.Unmarshal([]byte(s), &v)); return v }
	asText := func(s string) any { b, err := base64.StdEncoding.DecodeString(s); noError(t, err); return string(b) }
	tests := []struct {
		src  string
		read func(string) any
		want any
	}{
		{`sec`, func(s string) any { return s }, canary},
		{`"a${sec}b${sec}"`, func(s string) any { return s }, "a" + canary + "b" + canary},
		{`base64encode("x${sec}")`, asText, "x" + canary},
		{`base64encode(base64encode(sec))`, func(s string) any { return asText(asText(s).(string)) }, canary},
		{`base64encode(jsonencode([sec]))`, func(s string) any { return asJSON(asText(s).(string)) }, []any{canary}},
		{`jsonencode(sec)`, asJSON, canary},
		{
			`jsonencode({a = "<${sec}>", b = [sec, 1]})`,
			asJSON,
			map[string]any{"a": "<" + canary + ">", "b": []any{canary, 1.0}},
		},
		{`jsonencode({a = base64encode("\"u\":${sec}")})`, func(s string) any {
			return asText(asJSON(s).(map[string]any)["a"].(string))
		}, `"u":` + canary},
		{`yamlencode({a = sec, b = [sec]})`, asYAML, map[string]any{"a": canary, "b": []any{canary}}},
		{`yamlencode({a = "k: ${sec}\nl", b = {c = base64encode(sec)}})`, func(s string) any {
			v := asYAML(s).(map[string]any)
			v["b"] = asText(v["b"].(map[string]any)["c"].(string))
			return v
		}, map[string]any{"a": "k: " + canary + "\nl", "b": canary}},
		{`tomlencode({a = sec, b = [{c = "it's ${sec}"}, "plain"], d = {e = base64encode(sec)}})`, func(s string) any {
			v := asTOML(s).(map[string]any)
			v["d"] = asText(v["d"].(map[string]any)["e"].(string))
			return v
		}, map[string]any{
			"a": canary, "b": []any{map[string]any{"c": "it's " + canary}, "plain"}, "d": canary,
		}},
		{`"{ \"a\": ${jsonencode("x${sec}")} }"`, asJSON, map[string]any{"a": "x" + canary}},
		{`join(",", ["a=${sec}", try(null.x, sec)])`, func(s string) any { return s }, "a=" + canary + "," + canary},
		{`base64encode(binary)`, asText, "\xff\x00\x01"},
		{`"v=${lines}"`, func(s string) any { return s }, "v=two\n\n"},
		{`yamlencode({a = sec, b = "next to it: \u007f\u0085\uffff"})`, asYAML,
			map[string]any{"a": canary, "b": "next to it: \u007f\u0085\uffff"}},
	}
	vars := map[string]cty.Value{
		"sec": secret.Credential("c"), "binary": secret.Credential("binary"), "lines": secret.Credential("lines"),
	}
	for _, tt := range tests {
		v := must(t, tt.src, vars)
		text, err := secret.TextOf(v)
		noError(t, err)
		if strings.Contains(text.Template(), "p\"") {
			t.Errorf("%s: got a template with the secret, want a placeholder", tt.src)
		}
		b, err := text.Bytes(getCanary)
		if err != nil {
			t.Errorf("%s: got error %v, want none", tt.src, err)
			continue
		}
		got, want := mustJSON(t, tt.read(string(b))), mustJSON(t, tt.want)
		if got != want {
			t.Errorf("%s is %s, want %s", tt.src, got, want)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	noError(t, err)
	return string(b)
}

// TestSecretsAreEncodedOnce refuses what the commit could not encode.
func TestSecretsAreEncodedOnce(t *testing.T) {
	vars := map[string]cty.Value{"sec": secret.Credential("c")}
	for _, src := range []string{
		`jsonencode(jsonencode([sec]))`, `jsonencode({a = yamlencode([sec])})`, `yamlencode("x${jsonencode(sec)}")`,
		`tomlencode({a = jsonencode(sec)})`, `yamlencode({a = tomlencode({b = sec})})`,
	} {
		v, diags := evaluate(t, src, vars)
		if !isSecretRefused(diags) {
			t.Errorf("%s: got %#v, %v; want a refusal", src, v, diags)
		}
	}
}

// checkUnmarked says whether v holds a placeholder that no mark covers: text that came from somewhere else than
// [secret.Credential] and would yet be replaced at commit. The error has the path in v, and no text of it.
func checkUnmarked(v cty.Value, covered []cty.ValueMarks, path cty.Path) error {
	v, marks := v.Unmark()
	covered = append(slices.Clip(covered), marks)
	if !v.IsKnown() || v.IsNull() {
		return nil
	}
	t := v.Type()
	switch {
	case t == cty.String:
		if _, err := secret.TextOf(v.WithMarks(covered...)); err != nil {
			return path.NewError(err)
		}
	case t.IsObjectType() || t.IsMapType():
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			step := path.Index(k)
			if secret.HasPlaceholder(k.AsString()) {
				return path.NewErrorf("a key holds a placeholder of a credential (characters U+E000 or U+E001)")
			}
			if err := checkUnmarked(e, covered, step); err != nil {
				return err
			}
		}
	case t.IsTupleType() || t.IsListType() || t.IsSetType():
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			if err := checkUnmarked(e, covered, path.Index(k)); err != nil {
				return err
			}
		}
	}
	return nil
}
