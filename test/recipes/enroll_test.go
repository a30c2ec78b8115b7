package recipes

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/prelet/prelet/internal/testing/demo"
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
	ca := demo.NewAuthority("enroll")
	s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.IssueServer(address)}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	e.url = s.URL
	e.ca = string(ca.CAPEM())

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
	return strings.ReplaceAll(shared.fill(text), "https://provisioner.example", e.url)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)

	return string(text)
}
