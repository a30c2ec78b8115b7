package live

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
)

// served is a CA, a certificate of it with its key, and another key, in PEM.
func served(t *testing.T) (ca, cert, key, other string) {
	t.Helper()
	var keys [3]*ecdsa.PrivateKey
	var texts [3]string
	for i := range keys {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		b, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		keys[i], texts[i] = k, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b}))
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	of := func(k *ecdsa.PrivateKey) string {
		b, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, keys[0])
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b}))
	}
	return of(keys[0]), of(keys[1]), texts[1], texts[2]
}

// creds are secrets by name.
type creds map[string]string

func (c creds) Read(name string) ([]byte, error) {
	if s, ok := c[name]; ok {
		return []byte(s), nil
	}
	return nil, os.ErrNotExist
}

func TestServing(t *testing.T) {
	ca, cert, key, other := served(t)
	dir := t.TempDir()
	files := map[string]string{"ca": ca, "cert": cert, "key": key, "other": other, "none": "hello", "empty": "", "der": "0\x82\x01\xff",
		"damaged": ca + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "headers": strings.Replace(ca, "-----\n", "-----\na: b\n\n", 1), "chain": key + cert + ca}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secret := func(name string) *string { s := "\ue000cred:" + name + "\ue001"; return &s }
	l := New(Options{Credentials: creds{"key": key, "other": other}})
	defer l.Close()
	for _, c := range []struct {
		cert, key         string
		certText, keyText *string
		refused           string
		fail              fault.Code
	}{
		{cert: "ca"},
		{cert: "chain"}, // other blocks are passed over
		{cert: "none", refused: `error loading CA bundle for "client-ca-bundle::` + dir + `/none": data does not contain any valid`},
		{cert: "key", refused: "data does not contain any valid"},
		{cert: "headers", refused: "data does not contain any valid"},
		{cert: "der", refused: "data does not contain any valid"},
		{cert: "empty", refused: "missing content for CA bundle"},
		{cert: "damaged", refused: "x509: malformed certificate"},
		{cert: "gone", fail: fault.Absent},
		{cert: "cert", key: "key"},
		{cert: "chain", key: "chain"},
		{cert: "cert", key: "other", refused: "tls: private key does not match public key"},
		{cert: "cert", key: "none", refused: "find any PEM data in key input"},
		{cert: "none", key: "key", refused: "find any PEM data in certificate input"},
		{cert: "key", key: "cert", refused: "PEM inputs may have been switched"},
		{cert: "cert", key: "empty", refused: "missing content for serving cert"},
		{cert: "cert", key: "gone", fail: fault.Absent},
		{cert: "gone", certText: &cert, key: "gone", keyText: secret("key")},
		{cert: "none", certText: &cert, key: "key", keyText: secret("other"), refused: "does not match"},
		{cert: "cert", key: "key", keyText: secret("gone"), fail: fault.CredentialMissing},
		{cert: ".", fail: fault.FileUnusable},
	} {
		r := world.ServingReq{Cert: filepath.Join(dir, c.cert), CertText: c.certText, KeyText: c.keyText}
		if c.key != "" {
			r.Key = filepath.Join(dir, c.key)
		}
		got, a, err := world.Serving.Ask(t.Context(), l, r)
		if a.Code() != c.fail || (err == nil) != (c.fail == "") || !strings.Contains(got.Refused, c.refused) || (got.Refused == "") != (c.refused == "") {
			t.Errorf("%s, %s: %+v, want %q, %q", c.cert, c.key, a, c.refused, c.fail)
		}
		for line := range strings.Lines(key + other) {
			if line = strings.TrimSpace(line); !strings.Contains(line, "-----") && strings.Contains(string(a.Value)+a.Why(), line) {
				t.Errorf("%s, %s: a private key is in the answer", c.cert, c.key)
			}
		}
	}
	// Below another root nobody knows what will be there, but for what the plan writes.
	elsewhere := New(Options{Root: dir, Credentials: creds{"key": key}})
	defer elsewhere.Close()
	if _, a, _ := world.Serving.Ask(t.Context(), elsewhere, world.ServingReq{Cert: "/none"}); a.Code() != fault.Absent {
		t.Errorf("%+v", a)
	}
	if got, a, err := world.Serving.Ask(t.Context(), elsewhere, world.ServingReq{Cert: "/x", CertText: &ca, Key: "/y", KeyText: secret("key")}); err != nil || !strings.Contains(got.Refused, "does not match") {
		t.Errorf("%+v", a)
	}
	if a := refusal(errors.New(strings.Repeat("x", 1000))); len(a.Value) > 400 {
		t.Errorf("%d bytes", len(a.Value))
	}
}
