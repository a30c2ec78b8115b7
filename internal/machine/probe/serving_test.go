package probe

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/demo"
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
	secret := func(name string) *string { s := "\ue000cred:" + name + "\ue001"; return &s }
	l := newLive(t, Sources{Credentials: creds{"key": key, "other": other}})

	for _, c := range []struct {
		cert, key         string
		certText, keyText *string
		refused           string
		fail              fault.Code
	}{
		{cert: "ca"},
		{cert: "none", refused: `error loading CA bundle for "client-ca-bundle::` + dir + `/none": data does not contain`},
		{cert: "gone", fail: fault.Absent},
		{cert: "cert", key: "key"},
		{cert: "cert", key: "other", refused: "tls: private key does not match public key"},
		{cert: "cert", key: "gone", fail: fault.Absent},
		{cert: "gone", certText: &cert, key: "gone", keyText: secret("key")},
		{cert: "none", certText: &cert, key: "key", keyText: secret("other"), refused: "does not match"},
		{cert: "cert", key: "key", keyText: secret("gone"), fail: fault.CredentialMissing},
		{cert: ".", refused: "is a directory"},
		{cert: "cert", key: ".", refused: "is a directory"},
	} {
		r := tape.ServingReq{Cert: filepath.Join(dir, c.cert), CertText: c.certText, KeyText: c.keyText}
		if c.key != "" {
			r.Key = filepath.Join(dir, c.key)
		}
		got, a, err := tape.Serving.Ask(t.Context(), l, r)
		if a.Code() != c.fail || (err == nil) != (c.fail == "") {
			t.Errorf("%s, %s: got %+v, want code %q", c.cert, c.key, a, c.fail)
		}
		if !strings.Contains(got.Refused, c.refused) || (got.Refused == "") != (c.refused == "") {
			t.Errorf("%s, %s: got %q, want %q", c.cert, c.key, got.Refused, c.refused)
		}
		for line := range strings.Lines(key + other) {
			line = strings.TrimSpace(line)
			if !strings.Contains(line, "-----") && strings.Contains(string(a.Value)+a.Why(), line) {
				t.Errorf("%s, %s: got a private key in the answer, want none", c.cert, c.key)
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
