package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// authority can sign: a cluster's CA, or one of a test's own.
type authority struct {
	cert *x509.Certificate
	key  any
}

// authorityOf is a cluster's own CA, which only an attacker after taking over the control plane has.
func authorityOf(t testing.TB, c *Cluster) authority {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(c.Path("pki/ca.crt"), c.Path("pki/ca.key"))
	must(t, err)
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	must(t, err)
	return authority{cert, pair.PrivateKey}
}

// newAuthority is somebody else's.
func newAuthority(t testing.TB, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return authority{cert, key}
}

func (a authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// issue signs a certificate, for servers unless user is given.
func (a authority) issue(t testing.TB, user pkix.Name, from time.Time, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      user,
		NotBefore:    from,
		NotAfter:     from.Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// pair is a certificate and its key in PEM.
func pair(t testing.TB, c tls.Certificate) (cert, key string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	must(t, err)
	return string(
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}),
		), string(
			pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		)
}

// serve answers over TLS with a certificate, and returns the address outside.
func serve(t testing.TB, cert tls.Certificate, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &http.Server{Handler: h, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}, ErrorLog: nil}
	go func() { _ = s.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// between stands between a node and a cluster, with a certificate of its choice, and may change what the cluster
// answers. Requests that it passes on are counted by whether they carry a credential.
type between struct {
	anonymous, withToken int
	change               func(path string, n int, body string) string // of the n-th answer, from 1
}

func (b *between) handler(t testing.TB, c *Cluster) http.Handler {
	t.Helper()
	to, err := url.Parse(fmt.Sprintf("https://127.0.0.1:%d", c.Port))
	must(t, err)
	ca, err := os.ReadFile(c.Path("pki/ca.crt"))
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		ModifyResponse: func(r *http.Response) error {
			if b.change == nil {
				return nil
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			text := b.change(r.Request.URL.Path, b.anonymous+b.withToken, string(body))
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
			r.Header.Set("Content-Length", fmt.Sprint(len(text)))
			return nil
		},
	}
	return http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { // one connection at a time: nothing here is concurrent
			if r.Header.Get("Authorization") == "" {
				b.anonymous++
			} else {
				b.withToken++
			}
			proxy.ServeHTTP(w, r)
		},
	)
}
