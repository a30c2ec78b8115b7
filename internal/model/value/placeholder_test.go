package value

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
)

// canary has what each encoding must escape, for YAML too, and looks like a placeholder itself.
const canary = "p\"\\ä<\n: {x} '\x7f\u0085\ufeff\uffff" + placeholderStart + "cred:other" + placeholderEnd

func credential(name string) string { return makePlaceholder(opCredential, name) }

func inBase64(text string) string {
	return makePlaceholder(opBase64, base64.RawURLEncoding.EncodeToString([]byte(text)))
}

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
		"sec": Credential("c"), "binary": Credential("binary"), "lines": Credential("lines"),
	}
	for _, tt := range tests {
		v := must(t, tt.src, vars)
		text, err := TextOf(v)
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

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got error %v, want none", err)
	}
}

// TestSecretsAreEncodedOnce refuses what the commit could not encode.
func TestSecretsAreEncodedOnce(t *testing.T) {
	vars := map[string]cty.Value{"sec": Credential("c")}
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

func TestPlaceholderErrors(t *testing.T) {
	for s, want := range map[string]string{
		"a" + placeholderEnd:                                                 "did not make",
		placeholderStart + "cred:c":                                          "did not make",
		placeholderStart + "b64:x":                                           "did not make",
		placeholderStart + "b64:!" + placeholderEnd:                          "did not make",
		placeholderStart + "x" + placeholderEnd:                              "did not make",
		placeholderStart:                                                     "did not make",
		placeholderStart + "rot13:x" + placeholderEnd:                        "did not make",
		placeholderStart + "cred:" + placeholderStart + "a" + placeholderEnd: "did not make",
		credential("gone"):                                                   `credential "gone": is not there`,
		makePlaceholder(opJSON, "binary"):                                    `credential "binary" is not UTF-8 text`,
	} {
		got, err := ResolvePlaceholders(s, getCanary)
		if err == nil || !strings.Contains(err.Error(), want) || got != "" {
			t.Errorf("%q: got %q, %v; want an error with %q", s, got, err, want)
		}
	}
	large := func(string) ([]byte, error) { return []byte(strings.Repeat("x", 1<<20)), nil }
	if _, err := ResolvePlaceholders(strings.Repeat(credential("c"), 9), large); err == nil ||
		!strings.Contains(err.Error(), "larger than 8 MiB") {
		t.Errorf("nine credentials of 1 MiB: got %v, want an error with %q", err, "larger than 8 MiB")
	}
	boom := errors.New("boom")
	fail := func(string) ([]byte, error) { return nil, boom }
	if _, err := ResolvePlaceholders(credential("x"), fail); !errors.Is(err, boom) {
		t.Errorf("got error %v, want one that wraps %v", err, boom)
	}
}

func TestPlaceholderNames(t *testing.T) {
	inner := credential("b") + credential("a")
	s := "a" + inBase64(inner) + credential("b")
	if got := PlaceholderNames(s); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got names %v, want a and b", got)
	}
	if got := PlaceholderNames("plain"); got != nil {
		t.Errorf("plain text: got names %v, want none", got)
	}
	if got := PlaceholderNames(placeholderStart); got != nil {
		t.Errorf("malformed text: got names %v, want none", got)
	}
}

func TestCredentialRefusesDelimiters(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Credential of a name with a delimiter: got a value, want a panic")
		}
	}()
	Credential("a" + placeholderEnd)
}

// checkUnmarked says whether v holds a placeholder that no mark covers: text that came from somewhere else than
// [Credential] and would yet be replaced at commit. The error has the path in v, and no text of it.
func checkUnmarked(v cty.Value, covered []string, path cty.Path) error {
	v, marks := v.Unmark()
	for m := range marks {
		if s, ok := m.(Secret); ok {
			covered = append(slices.Clip(covered), s.Name)
		}
	}
	if !v.IsKnown() || v.IsNull() {
		return nil
	}
	t := v.Type()
	switch {
	case t == cty.String:
		s := v.AsString()
		if !HasPlaceholder(s) {
			return nil
		}
		if err := checkCovered(s, covered); err != nil {
			return path.NewError(err)
		}
	case t.IsObjectType() || t.IsMapType():
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			step := path.Index(k)
			if HasPlaceholder(k.AsString()) {
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

func TestPlain(t *testing.T) {
	v := cty.ObjectVal(map[string]cty.Value{
		"a": Credential("z"), "b": cty.ListVal([]cty.Value{Credential("a"), Credential("z")}),
		"d": cty.True.Mark("of somebody else"),
	})
	plain, secrets := Plain(v)
	if plain.ContainsMarked() || !slices.Equal(secrets, []string{"a", "z"}) {
		t.Errorf("Plain: got %#v, %v; want no marks, a and z", plain, secrets)
	}
	if got := Secrets(v); !slices.Equal(got, secrets) {
		t.Errorf("Secrets: got %v, want %v", got, secrets)
	}
	if got := Secrets(cty.True); got != nil {
		t.Errorf("Secrets of true: got %v, want none", got)
	}
}

func FuzzResolvePlaceholders(f *testing.F) {
	f.Add("plain")
	f.Add(
		credential("c") + makePlaceholder(
			opJSON,
			"c",
		) + makePlaceholder(
			opBase64,
			"7oCAY3JlZDpj7oCB",
		),
	)
	f.Add(placeholderStart + placeholderEnd + placeholderStart + ":" + placeholderEnd)
	f.Add(strings.Repeat(placeholderStart+"json:", 20))
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ResolvePlaceholders(s, func(string) ([]byte, error) { return []byte("hunter2"), nil })
		if err != nil {
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got error %v, want it without the secret", err)
			}
			return
		}
		if HasPlaceholder(got) {
			t.Errorf("%q: got %q, want no placeholder in it", s, got)
		}
		if !HasPlaceholder(s) && got != s {
			t.Errorf("%q without a placeholder: got %q, want it unchanged", s, got)
		}
		for _, n := range PlaceholderNames(s) {
			if !strings.Contains(s, n) && !strings.Contains(s, "b64:") {
				t.Errorf("%q: got the name %q, want only names in the text", s, n)
			}
		}
	})
}

func TestCredentialNames(t *testing.T) {
	for name, want := range map[string]bool{
		"bootstrap-token": true, "ssh.authorized_keys.root": true, "_a@b+c": true, strings.Repeat("a", 255): true,
		"": false, ".": false, "..": false, "../x": false, "a b": false, `a"b`: false, `a\b`: false, "a:b": false,
		"a\n": false, strings.Repeat("a", 256): false,
	} {
		if err := CheckCredentialName(name); (err == nil) != want {
			t.Errorf("CheckCredentialName(%q) = %v, want it accepted: %t", name, err, want)
		}
	}
}

// TestFindSecret finds a credential in what its template became, and only where it is certain where it ends.
func TestFindSecret(t *testing.T) {
	plain := credential("db")
	for name, c := range map[string]struct{ template, text, want string }{
		"alone":                  {plain, "x y\n", "x y\n"},
		"within":                 {"a=" + plain + "\nb", "a=x\nb", "x"},
		"empty":                  {"a=" + plain, "a=", ""},
		"in JSON":                {`{"a":"` + makePlaceholder(opJSON, "db") + `"}`, `{"a":"x\"y"}`, `x"y`},
		"broken JSON":            {`"` + makePlaceholder(opJSON, "db") + `"`, `"x"y"`, "none"},
		"another text":           {"a=" + plain, "b=x", "none"},
		"shorter than its frame": {"aba" + plain + "aba", "aba", "none"},
		"two without a border":   {plain + credential("k"), "xy", "none"},
		"two":                    {credential("k") + ": " + plain, "u: x", "x"},
		"two with three borders": {credential("k") + ":" + plain, "u:x:y", "none"},
		"twice":                  {"a=" + plain + "\nb=" + plain + "\n", "a=x\nb=x\n", "x"},
		"another credential":     {credential("k"), "x", "none"},
		"base64": {
			"a " + inBase64("u:"+plain), "a dTp4", "x",
		},
		"no base64":               {inBase64(plain), "?", "none"},
		"no template, no content": {"", "", "none"},
	} {
		got, ok := FindSecret(c.template, c.text, "db")
		if want := c.want != "none"; ok != want || ok && string(got) != c.want {
			t.Errorf("%s: got %q, %t; want %q, %t", name, got, ok, c.want, want)
		}
	}
}
