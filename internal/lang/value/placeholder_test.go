package value

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"sigs.k8s.io/yaml"
)

// canary has what each encoding must escape, and looks like a placeholder itself.
const canary = "p\"\\ä<\n: {x} '" + phOpen + "cred:other" + phShut

func getCanary(name string) ([]byte, error) {
	switch name {
	case "c":
		return []byte(canary + "\n"), nil
	case "binary":
		return []byte{0xff, 0, 1}, nil
	}
	return nil, errors.New("is not there")
}

// TestPlaceholdersRoundTrip: what the encoding functions put around a secret is undone by an ordinary decoder.
func TestPlaceholdersRoundTrip(t *testing.T) {
	sum := sha256.Sum256([]byte("a" + canary))
	asJSON := func(s string) (v any) { noError(t, json.Unmarshal([]byte(s), &v)); return v }
	asYAML := func(s string) (v any) { noError(t, yaml.UnmarshalStrict([]byte(s), &v)); return v }
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
		{`sha256("a${sec}")`, func(s string) any { return s }, hex.EncodeToString(sum[:])},
		{`jsonencode(sec)`, asJSON, canary},
		{`jsonencode({a = "<${sec}>", b = [sec, 1]})`, asJSON, map[string]any{"a": "<" + canary + ">", "b": []any{canary, 1.0}}},
		{`jsonencode(jsonencode([sec]))`, func(s string) any { return asJSON(asJSON(s).(string)) }, []any{canary}},
		{`yamlencode({a = sec, b = [sec]})`, asYAML, map[string]any{"a": canary, "b": []any{canary}}},
		{`yamlencode({a = "k: ${sec}\nl", b = {c = jsonencode([sec])}})`, func(s string) any {
			v := asYAML(s).(map[string]any)
			v["b"] = asJSON(v["b"].(map[string]any)["c"].(string))
			return v
		}, map[string]any{"a": "k: " + canary + "\nl", "b": []any{canary}}},
		{`jsonencode({a = yamlencode([sec])})`, func(s string) any { return asYAML(asJSON(s).(map[string]any)["a"].(string)) }, []any{canary}},
		{`jsonencode({prelet0secret1x = sec, b = "prelet1secret"})`, asJSON, map[string]any{"prelet0secret1x": canary, "b": "prelet1secret"}},
		{`join(",", [format("%s=%v", "a", sec), try(null.x, sec)])`, func(s string) any { return s }, "a=" + canary + "," + canary},
		{`base64encode(binary)`, asText, "\xff\x00\x01"},
	}
	vars := map[string]cty.Value{"sec": Credential("c"), "binary": Credential("binary")}
	for _, tt := range tests {
		v := must(t, tt.src, vars)
		text, err := TextOf(v)
		noError(t, err)
		if strings.Contains(text.Template(), "p\"") {
			t.Errorf("%s: the template holds the secret", tt.src)
		}
		b, err := text.Bytes(getCanary)
		if err != nil {
			t.Errorf("%s: %s", tt.src, err)
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
		t.Fatal(err)
	}
}

func TestPlaceholderErrors(t *testing.T) {
	deep := strings.Repeat(phOpen+"b64:", 18) + strings.Repeat(phShut, 18)
	for s, want := range map[string]string{
		"a" + phShut:                             "did not begin",
		phOpen + "cred:c":                        "does not end",
		phOpen + "b64:x":                         "does not end",
		phOpen + "x" + phShut:                    "without an operation",
		phOpen:                                   "without an operation",
		phOpen + "rot13:x" + phShut:              "unknown operation",
		phOpen + "cred:" + phOpen + "a" + phShut: "does not end",
		placeholder(opCred, "gone"):              `credential "gone": is not there`,
		placeholder(opJSON, placeholder(opCred, "binary")): `credential "binary": it is not UTF-8 text`,
		deep: "more than 16 times",
	} {
		got, err := ResolvePlaceholders(s, getCanary)
		if err == nil || !strings.Contains(err.Error(), want) || got != "" {
			t.Errorf("%q resolves to %q, %v; want an error with %q", s, got, err, want)
		}
	}
	grows := phOpen + "json:" + placeholder(opCred, "q") + phShut
	for range 14 {
		grows = phOpen + "json:" + grows + phShut
	}
	quotes := func(string) ([]byte, error) { return []byte(strings.Repeat(`"`, 4096)), nil }
	if _, err := ResolvePlaceholders(grows, quotes); err == nil || !strings.Contains(err.Error(), "larger than 8 MiB") {
		t.Errorf("quotes that double 15 times give %v", err)
	}
	boom := errors.New("boom")
	if _, err := ResolvePlaceholders(placeholder(opCred, "x"), func(string) ([]byte, error) { return nil, boom }); !errors.Is(err, boom) {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestPlaceholderNames(t *testing.T) {
	s := "a" + placeholder(opB64, placeholder(opCred, "b")+placeholder(opCred, "a")) + placeholder(opCred, "b")
	if got := PlaceholderNames(s); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("names are %v", got)
	}
	if got := PlaceholderNames("plain"); got != nil {
		t.Errorf("plain text has names %v", got)
	}
	if got := PlaceholderNames(phOpen); got != nil {
		t.Errorf("malformed text has names %v", got)
	}
}

func TestCredentialRefusesDelimiters(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a name with a delimiter is taken")
		}
	}()
	Credential("a" + phShut)
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
		if err := uncovered(s, covered); err != nil {
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
		"c": UnreadVal(cty.String, "file x"), "d": cty.True.Mark("of somebody else"),
	})
	plain, secrets, unread := Plain(v)
	if plain.ContainsMarked() || !slices.Equal(secrets, []string{"a", "z"}) || !slices.Equal(unread, []string{"file x"}) {
		t.Errorf("plain is %#v, %v, %v", plain, secrets, unread)
	}
	if got := Secrets(v); !slices.Equal(got, secrets) {
		t.Errorf("secrets are %v", got)
	}
	if got := Secrets(cty.True); got != nil {
		t.Errorf("true has secrets %v", got)
	}
}

func FuzzResolvePlaceholders(f *testing.F) {
	f.Add("plain")
	f.Add(placeholder(opCred, "c") + placeholder(opJSON, "a\""+placeholder(opB64, placeholder(opCred, "c"))))
	f.Add(phOpen + phShut + phOpen + ":" + phShut)
	f.Add(strings.Repeat(phOpen+"yaml:", 20))
	f.Add(placeholder(opSHA256, phShut+phOpen))
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ResolvePlaceholders(s, func(string) ([]byte, error) { return []byte("hunter2"), nil })
		if err != nil {
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error holds the secret: %s", err)
			}
			return
		}
		if HasPlaceholder(got) {
			t.Errorf("%q resolves to %q, which holds a placeholder", s, got)
		}
		if !HasPlaceholder(s) && got != s {
			t.Errorf("%q becomes %q without a placeholder", s, got)
		}
		for _, n := range PlaceholderNames(s) {
			if !strings.Contains(s, n) {
				t.Errorf("%q names %q", s, n)
			}
		}
	})
}
