package kubeletbin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/table"
)

// newCertificates returns, in PEM, a CA, a certificate of that CA with its private key, and another private key.
func newCertificates(t *testing.T) (ca, cert, key, other string) {
	t.Helper()
	var keys [3]*ecdsa.PrivateKey
	var texts [3]string
	for i := range keys {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		b, err := x509.MarshalPKCS8PrivateKey(k)
		must(t, err)
		keys[i], texts[i] = k, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b}))
	}

	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	sign := func(k *ecdsa.PrivateKey) string {
		b, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, keys[0])
		must(t, err)
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b}))
	}
	return sign(keys[0]), sign(keys[1]), texts[1], texts[2]
}

// checkRefusal compares an error with a part of its text, "" for no error, and finds no line of a private key in it.
func checkRefusal(t *testing.T, name string, err error, want string, keys ...string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want %q", name, err, want)
	}
	for line := range strings.Lines(strings.Join(keys, "")) {
		line = strings.TrimSpace(line)
		if err != nil && !strings.Contains(line, "-----") && strings.Contains(err.Error(), line) {
			t.Errorf("%s: the error has a line of a private key", name)
		}
	}
}

func TestCheckClientCAs(t *testing.T) {
	ca, cert, key, _ := newCertificates(t)
	headers := strings.Replace(ca, "-----\n", "-----\na: b\n\n", 1)
	const none = `error loading CA bundle for "client-ca-bundle::/ca": data does not contain any valid`
	for name, c := range table.YAML[map[string]struct{ Text, Want string }](t, `
one: {text: '{ca}'}
several, and a key: {text: '{key}{cert}{ca}'}
empty: {want: missing content for CA bundle "client-ca-bundle::/ca"}
not PEM: {text: hello, want: '{none}'}
DER: {text: "0{x82}\x01{xff}", want: '{none}'}
a key only: {text: '{key}', want: '{none}'}
a block with headers: {text: '{headers}', want: '{none}'}
a damaged second one: {text: "{ca}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
  want: malformed certificate}
a damaged one, and a CA: {text: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n{ca}",
  want: malformed certificate}
`, "ca", ca, "key", key, "cert", cert, "none", none, "headers", headers) {
		text := []byte(strings.NewReplacer("{x82}", "\x82", "{xff}", "\xff").Replace(c.Text))
		checkRefusal(t, name, CheckClientCAs("/ca", text), c.Want, key)
	}
}

func TestCheckServingPair(t *testing.T) {
	ca, cert, key, other := newCertificates(t)
	const missing = `missing content for serving cert "kubelet-server-cert-files::/cert::/key"`
	for name, c := range table.YAML[map[string]struct{ Cert, Key, Want string }](t, `
a pair: {cert: '{cert}', key: '{key}'}
a pair in one file: {cert: '{key}{cert}{ca}', key: '{key}{cert}{ca}'}
another key: {cert: '{cert}', key: '{other}', want: 'tls: private key does not match public key'}
no key: {cert: '{cert}', key: hello, want: find any PEM data in key input}
no certificate: {cert: hello, key: '{key}', want: find any PEM data in certificate input}
exchanged: {cert: '{key}', key: '{cert}', want: PEM inputs may have been switched}
an empty key: {cert: '{cert}', want: '{missing}'}
an empty certificate: {key: '{key}', want: '{missing}'}
`, "cert", cert, "key", key, "ca", ca, "other", other, "missing", missing) {
		err := CheckServingPair("/cert", []byte(c.Cert), "/key", []byte(c.Key))
		checkRefusal(t, name, err, c.Want, key, other)
	}
}
