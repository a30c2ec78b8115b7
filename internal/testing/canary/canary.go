// Package canary has a secret of each kind that prelet recognises, and finds them in prelet's output. It is for tests
// only.
package canary

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/url"
	"strconv"
	"strings"
)

// Kind is one kind of secret.
type Kind struct {
	Name   string
	Text   string   // as somebody writes it, with what makes it evident
	Hidden []string // what no output may have of it
}

// CredentialName is the credential with the secret of the kind "credential".
const CredentialName = "canary"

const (
	keyBody = "MC4CANARYbodyOfKeyA0\nMC4CANARYbodyOfKeyB1"
	begin   = "-----BEGIN PRIVATE KEY-----"
	end     = "-----END PRIVATE KEY-----"
	key     = begin + "\n" + keyBody + "\n" + end
)

// Kinds returns one secret of each kind. The last one is evident only by the credential that has it.
func Kinds() []Kind {
	lines := strings.Split(keyBody, "\n")
	pair := base64.StdEncoding.EncodeToString([]byte("user:CANARYpair"))

	return []Kind{
		{"key", key, lines},
		{"key in a comment", "# " + strings.ReplaceAll(key, "\n", "\n# "), lines},
		{"key in base64", base64.StdEncoding.EncodeToString([]byte(key)), lines},
		{"key in hexadecimal", hex.EncodeToString([]byte(key)), lines},
		{"bootstrap token", "tokenx.canary0123456789", []string{"canary0123456789"}},
		{
			"token of a service account",
			"eyJCANARYhead.eyJCANARYbody.CANARYsignature",
			[]string{"CANARYbody", "CANARYsignature"},
		},
		{"bearer header", "Authorization: Bearer CANARYbearer", []string{"CANARYbearer"}},
		{"basic header", "Authorization: Basic " + pair, []string{"CANARYpair", pair}},
		{"header without a scheme", "Authorization: CANARYheader1", []string{"CANARYheader1"}},
		{"scheme without a header", "curl -H 'Bearer CANARY*scheme2'", []string{"CANARY*scheme2"}},
		{"password in a URL", "http://user:CANARYpw@proxy.example:3128/", []string{"CANARYpw"}},
		{"query of a URL", "https://keys.example/get?a=b&token=CANARYquery", []string{"CANARYquery"}},
		{"flag with a header", "--manifest-url-header=X-Auth:CANARYflag", []string{"CANARYflag"}},
		{"flag with a password", "--storage-driver-password=CANARYdb", []string{"CANARYdb"}},
		{"field with a header", "staticPodURLHeader: {X-Auth: [CANARYfield]}", []string{"CANARYfield"}},
		{"credential", `CANARY "cred" <é'&\> 1`, []string{`CANARY "cred" <é'&\> 1`}},
	}
}

// encode returns the encodings of a secret that are searched for, by name. Base64 has three, by the length of the text
// before it.
func encode(secret string) map[string]string {
	quoted, _ := json.Marshal(secret)
	out := map[string]string{
		"plain":           secret,
		"hexadecimal":     hex.EncodeToString([]byte(secret)),
		"JSON":            string(quoted[1 : len(quoted)-1]),
		"Go":              strings.Trim(strconv.QuoteToASCII(secret), `"`),
		"a URL":           url.QueryEscape(secret),
		"a path of a URL": url.PathEscape(secret),
		"HTML":            html.EscapeString(secret),
		"a shell's words": strings.ReplaceAll(secret, "'", `'\''`),
		"HCL":             strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(secret),
	}
	for _, name := range []string{"JSON", "Go"} {
		twice, _ := json.Marshal(out[name])
		out[name+" twice"] = string(twice[1 : len(twice)-1])
	}
	for i, from := range []int{0, 2, 3} {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", i) + secret))
		whole := text[from : len(text)-len(text)%4-4]
		out[fmt.Sprintf("base64 at %d", i)] = whole
		out[fmt.Sprintf("base64 of URLs at %d", i)] = strings.NewReplacer("+", "-", "/", "_").Replace(whole)
	}

	return out
}

// Finder finds secrets.
type Finder struct{ forms [][2]string } // the name of an encoding, and the text

// NewFinder returns a Finder of these secrets in each of their encodings.
func NewFinder(secrets ...string) *Finder {
	f := &Finder{}
	for _, s := range secrets {
		for name, text := range encode(s) {
			f.forms = append(f.forms, [2]string{name, text})
		}
	}

	return f
}

// Find returns the encoding in which a text has a secret, with the text around it; "" for none. It searches archives
// and compressed parts, too.
func (f *Finder) Find(text []byte) string {
	for _, form := range f.forms {
		at := bytes.Index(text, []byte(form[1]))
		if at < 0 && form[0] == "hexadecimal" {
			at = bytes.Index(bytes.ToLower(text), []byte(form[1]))
		}
		if at >= 0 {
			const around = 80
			return fmt.Sprintf("in %s: %q", form[0], text[max(at-around, 0):min(at+len(form[1])+around, len(text))])
		}
	}

	for from := 0; ; {
		at := bytes.Index(text[from:], []byte("\x1f\x8b\x08"))
		if at < 0 {
			return ""
		}
		from += at + 1
		z, err := gzip.NewReader(bytes.NewReader(text[from-1:]))
		if err != nil {
			continue
		}
		inner, _ := io.ReadAll(z) // a damaged archive is searched as far as it is readable
		if found := f.findIn(inner); found != "" {
			return "gzip, " + found
		}
	}
}

// findIn searches each file of an archive, so that none is cut in two; any other text it searches whole.
func (f *Finder) findIn(text []byte) string {
	archive := tar.NewReader(bytes.NewReader(text))
	for {
		h, err := archive.Next()
		if err != nil {
			return f.Find(text)
		}
		file, _ := io.ReadAll(archive)
		if found := f.Find(file); found != "" {
			return h.Name + ", " + found
		}
	}
}
