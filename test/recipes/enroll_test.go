package recipes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// enrollServer gives the token of the cluster to the first request for it.
type enrollServer struct {
	url, ca string

	mu    sync.Mutex
	count int
}

func newEnrollServer(t *testing.T) *enrollServer {
	t.Helper()
	e := &enrollServer{}
	s := httptest.NewUnstartedServer(e)
	listener, err := net.Listen("tcp", address+":0")
	must(t, err)
	_ = s.Listener.Close()
	s.Listener = listener
	certificate, err := issueCertificate(net.ParseIP(address))
	must(t, err)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	e.url = s.URL
	e.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}))

	return e
}

func (e *enrollServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count++
	if e.count > 1 {
		http.Error(w, "this link worked once", http.StatusGone)
		return
	}
	_, _ = w.Write([]byte(shared.token + "\n"))
}

func (e *enrollServer) requests() int {
	e.mu.Lock()
	defer e.mu.Unlock()

	return e.count
}

// fill replaces the values of a recipe with those of this server and of the cluster.
func (e *enrollServer) fill(text string) string {
	return strings.ReplaceAll(shared.fill(text), "https://enroll.example", e.url)
}

// issueCertificate returns one that is its own authority.
func issueCertificate(ip net.IP) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "enroll"}, IPAddresses: []net.IP{ip},
		IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)

	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)

	return string(text)
}
