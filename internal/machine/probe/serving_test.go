package probe

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestServing checks the existing files, and what the plan writes in place of them.
func TestServing(t *testing.T) {
	s := demo.Start(demo.ServerConfig{})
	defer s.Close()
	certPEM, keyPEM := s.IssueNode("n1")
	_, otherPEM := s.IssueNode("n1")
	ca, cert, key, other := string(s.CAPEM()), string(certPEM), string(keyPEM), string(otherPEM)

	dir := t.TempDir()
	for name, text := range map[string]string{"ca": ca, "cert": cert, "key": key, "other": other, "none": "hello"} {
		place(t, dir, name, text)
	}
	planned := func(text string) *string { // nil for a file that the plan does not write
		if text == "" {
			return nil
		}
		return &text
	}
	l := newLive(t, Sources{Credentials: creds{"key": key, "other": other}})

	for _, c := range table.YAML[[]struct {
		Cert, Key, CertText, KeyText, Refused string
		Fail                                  fault.Code
	}](t, `
- {cert: ca}
- {cert: none, refused: 'error loading CA bundle for "client-ca-bundle::{dir}/none": data does not contain'}
- {cert: gone, fail: absent}
- {cert: cert, key: key}
- {cert: cert, key: other, refused: 'tls: private key does not match public key'}
- {cert: cert, key: gone, fail: absent}
- {cert: gone, key: gone, certText: '{cert}', keyText: '{cred:key}'}
- {cert: none, key: key, certText: '{cert}', keyText: '{cred:other}', refused: does not match}
- {cert: cert, key: key, keyText: '{cred:gone}', fail: credential}
- {cert: ., refused: is a directory}
- {cert: cert, key: ., refused: is a directory}
`, "dir", dir, "cert", cert, "cred:key", "\ue000cred:key\ue001", "cred:other", "\ue000cred:other\ue001",
		"cred:gone", "\ue000cred:gone\ue001") {
		r := tape.ServingReq{Cert: filepath.Join(dir, c.Cert), CertText: planned(c.CertText), KeyText: planned(c.KeyText)}
		if c.Key != "" {
			r.Key = filepath.Join(dir, c.Key)
		}
		got, a, err := tape.Serving.Ask(t.Context(), l, r)
		if a.Code() != c.Fail || (err == nil) != (c.Fail == "") {
			t.Errorf("%s, %s: got %+v, want code %q", c.Cert, c.Key, a, c.Fail)
		}
		if !strings.Contains(got.Refused, c.Refused) || (got.Refused == "") != (c.Refused == "") {
			t.Errorf("%s, %s: got %q, want %q", c.Cert, c.Key, got.Refused, c.Refused)
		}
		for line := range strings.Lines(key + other) {
			line = strings.TrimSpace(line)
			if !strings.Contains(line, "-----") && strings.Contains(string(a.Value)+a.Why(), line) {
				t.Errorf("%s, %s: got a private key in the answer, want none", c.Cert, c.Key)
			}
		}
	}
}

// TestServingBelowARoot knows what the plan writes, and nothing else.
func TestServingBelowARoot(t *testing.T) {
	root := t.TempDir()
	place(t, root, "/there", "hello")
	l := newLive(t, Sources{Root: root, Credentials: creds{"key": "hello"}})

	_, a, _ := tape.Serving.Ask(t.Context(), l, tape.ServingReq{Cert: "/there"})
	if a.Code() != fault.Absent {
		t.Errorf("existing files: got %+v, want code %s", a, fault.Absent)
	}

	cert, key := "hello", "\ue000cred:key\ue001"
	r := tape.ServingReq{Cert: "/x", CertText: &cert, Key: "/y", KeyText: &key}
	got, a, err := tape.Serving.Ask(t.Context(), l, r)
	if err != nil || !strings.Contains(got.Refused, "find any PEM data in certificate input") {
		t.Errorf("planned files: got %+v, %v; want a refusal of the certificate", a, err)
	}
}

func TestRefusalIsBounded(t *testing.T) {
	a := servingAnswer(errors.New(strings.Repeat("x", 1000)))
	if len(a.Value) > 400 || !strings.Contains(string(a.Value), "x…") {
		t.Errorf("got %d bytes, %s; want at most 400 and an ellipsis at the cut", len(a.Value), a.Value)
	}
}
