package value

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const hunter = "hunter2/\"<ß>&+ ?x=~y"

func TestRedactorForms(t *testing.T) {
	r := NewRedactor()
	r.Add([]byte(hunter + "\n"))
	inJSON, err := json.Marshal(map[string]string{"k": "a" + hunter + "b"})
	noError(t, err)
	var raw bytes.Buffer
	enc := json.NewEncoder(&raw)
	enc.SetEscapeHTML(false)
	noError(t, enc.Encode("a"+hunter+"b"))
	texts := map[string]string{
		"plain":             "a" + hunter + "b",
		"alone":             hunter,
		"with newline":      hunter + "\n",
		"hex":               hex.EncodeToString([]byte(hunter)),
		"HEX":               fmt.Sprintf("%X", hunter),
		"JSON":              string(inJSON),
		"JSON without HTML": raw.String(),
		"Go":                strconv.Quote("a" + hunter + "b"),
		"query": url.Values{
			"q": {hunter},
		}.Encode(),
		"path":                            "/x/" + url.PathEscape(hunter) + "/y",
		"userinfo":                        url.UserPassword("u", "x").Username() + hunter,
		"YAML":                            fmt.Sprintf("token: %q\n", hunter),
		"twice":                           hunter + hunter,
		"base64 of a file with a newline": base64.StdEncoding.EncodeToString([]byte(hunter + "\n")),
	}
	for name, e := range map[string]*base64.Encoding{"std": base64.StdEncoding, "url": base64.URLEncoding, "rawstd": base64.RawStdEncoding, "rawurl": base64.RawURLEncoding} {
		for before := range 4 {
			for after := range 4 {
				texts[fmt.Sprintf("base64 %s %d %d", name, before, after)] = e.EncodeToString(
					[]byte(strings.Repeat("u", before) + hunter + strings.Repeat(".", after)),
				)
			}
		}
	}
	for name, s := range texts {
		got := r.String("[" + s + "]")
		if !strings.Contains(got, "(sensitive)") || !strings.HasPrefix(got, "[") || !strings.HasSuffix(got, "]") {
			t.Errorf("%s, %q: got %q, want [(sensitive)]", name, s, got)
		}
		for _, part := range []string{"hunter", hex.EncodeToString([]byte("hunter")), "aHVudGVy", "h1bnRlc", "odW50ZX"} {
			if strings.Contains(strings.ToLower(got), strings.ToLower(part)) {
				t.Errorf("%s: got %q, want it without %q", name, got, part)
			}
		}
	}
	for _, s := range []string{"", "nothing here", "hunter", "hunter2", "aHVudGVy"} {
		if got := r.String(s); got != s {
			t.Errorf("%q: got %q, want it unchanged", s, got)
		}
	}
}

// A text with the form of a bootstrap token is redacted although it was not registered, and no other text is.
func TestRedactorTokens(t *testing.T) {
	r := NewRedactor()
	r.Add([]byte("known1.0123456789abcdef"))
	r.Add([]byte("cdef"))
	for in, want := range map[string]string{
		"abcxyz.0123456789abcdxf":                  "abcxyz.<hidden>",
		`tokn = "abcxyz.0123456789abcdxf"`:         `tokn = "abcxyz.<hidden>"`,
		"unterminated \"abcxyz.0123456789abcdxf\n": "unterminated \"abcxyz.<hidden>\n",
		`{"a":"abcxyz.0123456789abcdxf\n"}`:        `{"a":"abcxyz.<hidden>\n"}`,
		"It is abcxyz.0123456789abcdxf. Look":      "It is abcxyz.<hidden>. Look",
		"abcxyz.0123456789abcdxf.":                 "abcxyz.<hidden>.",
		"a=abcxyz.0123456789abcdxf,b":              "a=abcxyz.<hidden>,b",
		"known1.0123456789abcdef":                  "(sensitive)",
		"abcdef.0123456789abcdxf":                  "(sensitive)",
		"abcxyz.0123456789abcdx":                   "abcxyz.0123456789abcdx",   // 15
		"abcxyz.0123456789abcdxf0":                 "abcxyz.0123456789abcdxf0", // 17
		"zabcxyz.0123456789abcdxf":                 "zabcxyz.0123456789abcdxf", // 7
		"fetch-config.clusterwideconfi":            "fetch-config.clusterwideconfi",
		"server.productioneurope.example.com":      "server.productioneurope.example.com",
		"server.productioneurope-1":                "server.productioneurope-1",
		"x.server.productioneurope":                "x.server.productioneurope",
		"abcxyz.0123456789ABCDXF":                  "abcxyz.0123456789ABCDXF",
		"v1.36.3 memory.available sha256:0123456":  "v1.36.3 memory.available sha256:0123456",
	} {
		if got := r.String(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
		for i := range in { // wherever it is cut
			var out bytes.Buffer
			w := r.Writer(&out)
			_, _ = io.WriteString(w, in[:i])
			_, _ = io.WriteString(w, in[i:])
			noError(t, w.Close())
			if out.String() != want {
				t.Errorf("%q cut at %d becomes %q, want %q", in, i, out.String(), want)
			}
		}
	}
}

func TestRedactorSecrets(t *testing.T) {
	r := NewRedactor()
	r.Add([]byte("abc"))
	r.Add(nil)
	r.Add([]byte("\n\n\n\n\n"))
	if got := r.String("abc \n\n\n\n\n"); got != "abc \n\n\n\n\n" {
		t.Errorf("secrets of fewer than four bytes: got %q, want the text unchanged", got)
	}
	r.Add([]byte("abcd"))
	r.Add([]byte("cdef"))
	r.Add([]byte("abcdefgh"))
	r.Add([]byte("first-value"))
	r.Add([]byte("second-value"))
	key := "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n  short\n-----END KEY-----\n"
	r.Add([]byte(key))
	for in, want := range map[string]string{
		"xabcdx":                               "x(sensitive)x",
		"xabcdefx":                             "x(sensitive)x", // two that overlap leave nothing between them
		"abcdefgh":                             "(sensitive)",
		"abcdabcd":                             "(sensitive)(sensitive)",
		"first-value second-value":             "(sensitive) (sensitive)",
		"key:\n    MIIEvQIBADANBgkqhkiG9w0B\n": "key:\n    (sensitive)\n",
		"-----BEGIN KEY----- short":            "-----BEGIN KEY----- short",
		strings.TrimSuffix(key, "\n"):          "(sensitive)",
	} {
		if got := r.String(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// TestRedactingWriter: wherever the text is cut into pieces, what comes out is what comes out of it whole.
func TestRedactingWriter(t *testing.T) {
	r := NewRedactor()
	r.Add([]byte(hunter))
	r.Add([]byte("aaaa"))
	r.Add([]byte("aab-"))
	text := "1 " + hunter + " 2 aaaaaaaaab- h hunter2/ " + base64.StdEncoding.EncodeToString([]byte(hunter)) + " aaa"
	want := r.String(text)
	for i := range text {
		for j := i; j < len(text); j += 7 {
			var out bytes.Buffer
			w := r.Writer(&out)
			for _, part := range []string{text[:i], text[i:j], text[j:]} {
				if n, err := io.WriteString(w, part); n != len(part) || err != nil {
					t.Fatalf("Write: got %d, %v; want all bytes and no error", n, err)
				}
			}
			noError(t, w.Close())
			if out.String() != want {
				t.Fatalf("cut at %d and %d: %q, want %q", i, j, out.String(), want)
			}
		}
	}
	var out bytes.Buffer
	w := r.Writer(&out)
	_, _ = io.WriteString(w, "a line\n")
	if out.String() != "a line\n" {
		t.Errorf("a line that begins like no secret: got %q, want the line at once", out.String())
	}
	r.Add([]byte("latecomer"))
	_, _ = io.WriteString(w, "latecomer\n")
	if out.String() != "a line\n(sensitive)\n" {
		t.Errorf("a secret that was added later: got %q, want (sensitive)", out.String())
	}
	if _, err := r.Writer(failing{}).Write([]byte("ordinary text\n")); err == nil {
		t.Error("Write to a failing writer: got no error, want one")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestRedactorAtTheSameTime(t *testing.T) {
	r := NewRedactor()
	var out bytes.Buffer
	w := r.Writer(&out)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			secret := fmt.Sprintf("secret-number-%d", i)
			r.Add([]byte(secret))
			for range 50 {
				if got := r.String(secret); got != "(sensitive)" {
					t.Errorf("got %q, want (sensitive)", got)
				}
				_, _ = io.WriteString(w, secret+"\n")
			}
		})
	}
	wg.Wait()
	noError(t, w.Close())
	if got := strings.Count(out.String(), "(sensitive)\n"); got != 400 || strings.Contains(out.String(), "secret") {
		t.Errorf("got %d lines, %q…; want 400 without a secret", got, out.String()[:min(80, out.Len())])
	}
}

func FuzzRedactor(f *testing.F) {
	f.Add("hunter2", "the hunter2 is", 5)
	f.Add("aaaa", "aaaaaaaaaa", 3)
	f.Add("p\"\\ä<", `{"a":"p\"\\ä\u003c"}`, 9)
	f.Add("line one is long\nline two is long", "x line two is long", 8)
	f.Add("\x00\xff\x01\xfe", "\x00\xff\x01", 1)
	f.Fuzz(func(t *testing.T, secret, text string, cut int) {
		r := NewRedactor()
		r.Add([]byte(secret))
		text += secret + base64.StdEncoding.EncodeToString([]byte(secret))
		got := r.String(text)
		whole := strings.TrimRight(secret, "\r\n")
		if len(whole) >= minSecret && !strings.Contains(sensitiveText, whole) &&
			strings.Contains(strings.ReplaceAll(got, sensitiveText, "\x00\x00"), whole) &&
			!strings.Contains(whole, "\x00") {
			t.Errorf("got %q, want it without %q", got, whole)
		}
		if len(whole) < minSecret && got != text && !anyToken(text) {
			t.Errorf("%q is too short for a secret; %q: got %q, want it unchanged", secret, text, got)
		}
		var out bytes.Buffer
		w := r.Writer(&out)
		cut = max(0, min(cut, len(text)))
		_, _ = io.WriteString(w, text[:cut])
		_, _ = io.WriteString(w, text[cut:])
		noError(t, w.Close())
		if out.String() != got {
			t.Errorf("cut at %d, %q: got %q, want %q, as in one piece", cut, text, out.String(), got)
		}
	})
}
