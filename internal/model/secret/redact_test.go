package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

// redactorOf redacts secrets.
func redactorOf(secrets ...string) *Redactor {
	r := NewRedactor()
	for _, s := range secrets {
		r.Add([]byte(s))
	}
	return r
}

const hunter = "hunter2/\"<ß>&+ ?x=~y"

func TestRedactorForms(t *testing.T) {
	r := redactorOf(hunter + "\n")
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
		"JSON, all escaped":               escapeAll(hunter, `\u%04x`),
		"JSON, all escaped, capitals":     escapeAll(hunter, `\u%04X`),
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

// escapeAll returns a text with each character in a format.
func escapeAll(text, format string) string {
	out := ""
	for _, r := range text {
		out += fmt.Sprintf(format, r)
	}

	return out
}

// TestRedactorPercent finds a secret in a URL of which each byte is escaped.
func TestRedactorPercent(t *testing.T) {
	for _, format := range []string{"%%%02x", "%%%02X"} {
		text := ""
		for i := range len(hunter) {
			text += fmt.Sprintf(format, hunter[i])
		}
		if got := redactorOf(hunter).String("q=" + text + "&r"); got != "q=(sensitive)&r" {
			t.Errorf("%s: got %q, want q=(sensitive)&r", text, got)
		}
	}
}

// A text with the form of a bootstrap token is redacted although it was not registered, and no other text is.
// TestRedactorWords: a secret that may be an ordinary word is hidden as a whole word, and not inside of others.
func TestRedactorWords(t *testing.T) {
	for _, c := range table.YAML[[]struct{ Secret, Text, Want string }](t, `
- {secret: other, text: password=other, want: password=(sensitive)}
- {secret: other, text: 'another program, others: mother', want: 'another program, others: mother'}
- {secret: other, text: '{"pw":"other\n","a":"x\nother"}', want: '{"pw":"(sensitive)\n","a":"x\n(sensitive)"}'}
- {secret: other, text: b3RoZXI= 6f74686572, want: (sensitive) (sensitive)}
- {secret: "other\n", text: other_1 other, want: (sensitive)_1 (sensitive)}
- {secret: other1, text: another1, want: an(sensitive)}
- {secret: password, text: passwords, want: (sensitive)s}
`) {
		if got := redactorOf(c.Secret).String(c.Text); got != c.Want {
			t.Errorf("%q without %q: got %q, want %q", c.Text, c.Secret, got, c.Want)
		}
	}
}

func TestRedactorTokens(t *testing.T) {
	r := redactorOf("known1.0123456789abcdef", "cd3f")
	for in, want := range table.YAML[map[string]string](t, `
abcxyz.0123456789abcdxf: abcxyz.<hidden>
tokn = "abcxyz.0123456789abcdxf": tokn = "abcxyz.<hidden>"
"unterminated \"abcxyz.0123456789abcdxf\n": "unterminated \"abcxyz.<hidden>\n"
'{"a":"abcxyz.0123456789abcdxf\n"}': '{"a":"abcxyz.<hidden>\n"}'
It is abcxyz.0123456789abcdxf. Look: It is abcxyz.<hidden>. Look
abcxyz.0123456789abcdxf.: abcxyz.<hidden>.
'a=abcxyz.0123456789abcdxf,b': a=abcxyz.<hidden>,b
known1.0123456789abcdef: (sensitive)
abcd3f.0123456789abcdxf: (sensitive)
# 15
abcxyz.0123456789abcdx: abcxyz.0123456789abcdx
# 17
abcxyz.0123456789abcdxf0: abcxyz.0123456789abcdxf0
# 7
zabcxyz.0123456789abcdxf: zabcxyz.0123456789abcdxf
fetch-config.clusterwideconfi: fetch-config.clusterwideconfi
server.productioneurope.example.com: server.productioneurope.example.com
server.productioneurope-1: server.productioneurope-1
x.server.productioneurope: x.server.productioneurope
abcxyz.0123456789ABCDXF: abcxyz.0123456789ABCDXF
v1.36.3 memory.available sha256:0123456: v1.36.3 memory.available sha256:0123456
`) {
		if got := r.String(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestRedactorSecrets(t *testing.T) {
	const key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n  short\n-----END KEY-----\n"
	r := redactorOf("abc", "", "\n\n\n\n\n", "abc1", "c1ef", "abc1efgh", "1111", "11b-", "first-value", "second-value", key)
	for in, want := range map[string]string{
		"abc \n\n\n\n\n":                       "abc \n\n\n\n\n", // secrets of fewer than four bytes
		"xabc1x":                               "x(sensitive)x",
		"xabc1efx":                             "x(sensitive)x", // two that overlap leave nothing between them
		"abc1efgh":                             "(sensitive)",
		"x 111111111b- h":                      "x (sensitive) h", // each overlaps with the next
		"abc1abc1":                             "(sensitive)(sensitive)",
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

func TestRedactorAtTheSameTime(t *testing.T) {
	r := NewRedactor()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			secret := fmt.Sprintf("secret-number-%d", i)
			r.Add([]byte(secret))
			for range 50 {
				if got := r.String(secret); got != "(sensitive)" {
					t.Errorf("got %q, want (sensitive)", got)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzRedactor(f *testing.F) {
	f.Add("hunter2", "the hunter2 is")
	f.Add("aaaa", "aaaaaaaaaa")
	f.Add("p\"\\ä<", `{"a":"p\"\\ä\u003c"}`)
	f.Add("line one is long\nline two is long", "x line two is long")
	f.Add("\x00\xff\x01\xfe", "\x00\xff\x01")
	f.Add("jjjj", "beside its base64 on the right: ")
	f.Fuzz(func(t *testing.T, secret, text string) {
		r := redactorOf(secret)
		text += secret + base64.StdEncoding.EncodeToString([]byte(secret))
		got := r.String(text)
		whole := strings.TrimRight(secret, "\r\n")
		if isOrdinaryWord(whole) { // found as a whole word only
			alone := regexp.MustCompile(`(^|[^A-Za-z])` + whole + `($|[^A-Za-z])`)
			if rest := strings.ReplaceAll(got, sensitiveText, "\x00"); len(whole) >= minSecret && alone.MatchString(rest) {
				t.Errorf("got %q, want it without the word %q", got, whole)
			}
			return
		}
		if len(whole) >= minSecret && !strings.Contains(sensitiveText, whole) &&
			strings.Contains(strings.ReplaceAll(got, sensitiveText, "\x00\x00"), whole) &&
			!strings.Contains(whole, "\x00") {
			t.Errorf("got %q, want it without %q", got, whole)
		}
		if len(whole) < minSecret && got != text && !HoldsToken(text) {
			t.Errorf("%q is too short for a secret; %q: got %q, want it unchanged", secret, text, got)
		}
	})
}
