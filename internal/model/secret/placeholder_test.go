package secret

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

func credential(name string) string { return makePlaceholder(opCredential, name) }

func getBinary(name string) ([]byte, error) {
	if name == "binary" {
		return []byte{0xff, 0, 1}, nil
	}

	return nil, errors.New("is not there")
}

func inBase64(text string) string {
	return makePlaceholder(opBase64, base64.RawURLEncoding.EncodeToString([]byte(text)))
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got error %v, want none", err)
	}
}

func TestPlaceholderErrors(t *testing.T) {
	for s, want := range map[string]string{
		"a" + placeholderEnd:                                                 "did not make",
		PlaceholderStart + "cred:c":                                          "did not make",
		PlaceholderStart + "b64:x":                                           "did not make",
		PlaceholderStart + "b64:!" + placeholderEnd:                          "did not make",
		PlaceholderStart + "x" + placeholderEnd:                              "did not make",
		PlaceholderStart:                                                     "did not make",
		PlaceholderStart + "rot13:x" + placeholderEnd:                        "did not make",
		PlaceholderStart + "cred:" + PlaceholderStart + "a" + placeholderEnd: "did not make",
		credential("gone"):                                                   `credential "gone": is not there`,
		makePlaceholder(opJSON, "binary"):                                    `credential "binary" is not UTF-8 text`,
	} {
		got, err := ResolvePlaceholders(s, getBinary)
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
	if got := PlaceholderNames(PlaceholderStart); got != nil {
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

func TestPlain(t *testing.T) {
	v := cty.ObjectVal(map[string]cty.Value{
		"a": Credential("z"), "b": cty.ListVal([]cty.Value{Credential("a"), Credential("z")}),
		"d": cty.True.Mark("of somebody else"),
	})
	plain, secrets := Plain(v)
	if plain.ContainsMarked() || !slices.Equal(secrets, []string{"a", "z"}) {
		t.Errorf("Plain: got %#v, %v; want no marks, a and z", plain, secrets)
	}
	if got := Names(v); !slices.Equal(got, secrets) {
		t.Errorf("Names: got %v, want %v", got, secrets)
	}
	if got := Names(cty.True); got != nil {
		t.Errorf("Names of true: got %v, want none", got)
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
	f.Add(PlaceholderStart + placeholderEnd + PlaceholderStart + ":" + placeholderEnd)
	f.Add(strings.Repeat(PlaceholderStart+"json:", 20))
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

// TestFind finds a credential in what its template became, and only where it is certain where it ends.
func TestFind(t *testing.T) {
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
		got, ok := Find(c.template, c.text, "db")
		if want := c.want != "none"; ok != want || ok && string(got) != c.want {
			t.Errorf("%s: got %q, %t; want %q, %t", name, got, ok, c.want, want)
		}
	}
}
