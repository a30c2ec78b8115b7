package canary

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"testing"
)

// TestFind finds a secret in each encoding, also in an archive, and nothing in a text without.
func TestFind(t *testing.T) {
	const secret = `a "b" <c'd&e\> 1`
	pack := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		archive := tar.NewWriter(z)
		_ = archive.WriteHeader(&tar.Header{Name: "x", Mode: 0o600, Size: int64(len(text))})
		_, _ = archive.Write([]byte(text))
		_, _ = archive.Close(), z.Close()
		return b.String()
	}
	quoted, _ := json.Marshal(secret)
	f := NewFinder("other", secret)
	for name, text := range map[string]string{
		"plain": secret, "hexadecimal": hex.EncodeToString([]byte(secret)), "JSON": string(quoted),
		"base64": base64.StdEncoding.EncodeToString([]byte("xy" + secret + "z")), "HTML": html.EscapeString(secret),
		"base64 of URLs": base64.RawURLEncoding.EncodeToString([]byte("x" + secret + "z")),
		"URL":            url.QueryEscape(secret), "path": url.PathEscape(secret), "shell": `'a "b" <c'\''d&e\> 1'`,
		"archive": "x" + pack(secret), "archive in an archive": pack(pack(secret)),
	} {
		if f.Find([]byte("before "+text+" behind")) == "" {
			t.Errorf("%s: got nothing, want the secret", name)
		}
	}
	if found := f.Find([]byte(pack("without") + `a "b" <`)); found != "" {
		t.Errorf("got %s, want nothing", found)
	}
}
