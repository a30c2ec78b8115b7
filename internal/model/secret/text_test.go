package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

func TestText(t *testing.T) {
	joined, err := stdlib.Join(cty.StringVal(""), cty.ListVal([]cty.Value{
		cty.StringVal("user: "), Credential("tok"), cty.StringVal("\n"),
	}))
	noError(t, err)
	secret, err := TextOf(joined)
	noError(t, err)
	plain, err := TextOf(cty.StringVal("a\nb"))
	noError(t, err)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "text", secret, "all", []Text{secret})
	inJSON, err := json.Marshal(map[string]any{"a": secret, "b": &secret})
	noError(t, err)
	for how, out := range map[string]string{
		"String": secret.String(), "%v": fmt.Sprintf("%v", secret), "%+v": fmt.Sprintf("%+v", struct{ T Text }{secret}), "%#v": fmt.Sprintf("%#v", []Text{secret}),
		"%d": fmt.Sprintf("%d", secret), "%x": fmt.Sprintf("%x", &secret), "%q": fmt.Sprintf("%q", secret), "slog": log.String(), "JSON": string(inJSON),
		"Errorf": fmt.Errorf("text %s", secret).Error(),
	} {
		if !strings.Contains(out, "(sensitive)") || strings.Contains(out, "user") || HasPlaceholder(out) ||
			strings.Contains(out, "tok") {
			t.Errorf("%s: got %q, want (sensitive)", how, out)
		}
	}
	if !slices.Equal(secret.Secrets(), []string{"tok"}) ||
		secret.Template() != "user: "+credential("tok")+"\n" {
		t.Errorf("got secrets %v and template %q, want tok and its placeholder", secret.Secrets(), secret.Template())
	}
	secret.Secrets()[0] = "changed"
	if secret.Secrets()[0] != "tok" {
		t.Error("Secrets: got the text's own list, want a copy")
	}
	b, err := secret.Bytes(func(n string) ([]byte, error) { return []byte("<" + n + ">"), nil })
	if err != nil || string(b) != "user: <tok>\n" {
		t.Errorf("Bytes: got %q, %v; want the text with <tok>", b, err)
	}
	if _, err := secret.Bytes(func(string) ([]byte, error) { return nil, errors.New("is gone") }); err == nil ||
		!strings.Contains(err.Error(), `"tok": is gone`) {
		t.Errorf("Bytes without the credential: got error %v, want one that names it", err)
	}
	if plain.String() != "a\nb" || fmt.Sprintf("%v|%q", plain, plain) != "a\nb|\"a\\nb\"" || len(plain.Secrets()) != 0 {
		t.Errorf("plain text: got %v, want its own text", plain)
	}
	if b, err := plain.Bytes(nil); err != nil || string(b) != "a\nb" {
		t.Errorf("Bytes of plain text: got %q, %v; want its own text", b, err)
	}
	foreign := PlainText(credential("tok") + PlaceholderStart)
	if b, err := foreign.Bytes(nil); err != nil || string(b) != foreign.Template() {
		t.Errorf("plain text with U+E000: got %q, %v, want %q", b, err, foreign.Template())
	}
	marked, err := TextOf(cty.StringVal("other branch").Mark(Mark{"tok"}))
	if err != nil || marked.String() != "(sensitive)" {
		t.Errorf("a marked text without a placeholder: got %s, %v; want (sensitive)", marked, err)
	}
	if n, err := TextOf(cty.NumberIntVal(5)); err != nil || n.Template() != "5" {
		t.Errorf("TextOf 5: got %q, %v; want 5", n.Template(), err)
	}
	for want, v := range map[string]cty.Value{
		"not known": cty.UnknownVal(cty.String), "is null": cty.NullVal(cty.String),
		"text is needed, not": cty.EmptyObjectVal, "did not make": cty.StringVal(credential("x")), "did not make ": cty.StringVal(credential("x")).Mark(Mark{"y"}),
	} {
		if text, err := TextOf(v); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%#v is %s, %v; want an error with %q", v, text, err, want)
		}
	}
}
