package cluster

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/prelet/prelet/internal/fault"
)

func TestFetchDiscoveryFile(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/file":
			if r.Header.Get("Accept-Encoding") == "" {
				_, _ = w.Write([]byte("text"))
			}
		case "/largest":
			_, _ = w.Write(make([]byte, maxDiscoveryFile))
		case "/larger":
			_, _ = w.Write(make([]byte, maxDiscoveryFile+1))
		case "/moved":
			http.Redirect(w, r, "/file", http.StatusFound)
		case "/cut":
			w.Header().Set("Content-Length", "9")
			_, _ = w.Write([]byte("text"))
		default:
			http.NotFound(w, r)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it would report the client that does not trust it
	s.StartTLS()
	defer s.Close()

	// The client of a fetch, except that it trusts the server of this test.
	client := newDiscoveryClient(time.Now)
	trusting, ok := s.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatalf("the client of the test has transport %T, want *http.Transport", s.Client().Transport)
	}
	if transport, ok := client.Transport.(*http.Transport); ok {
		transport.TLSClientConfig.RootCAs = trusting.TLSClientConfig.RootCAs
	}

	for path, want := range table.YAML[map[string]struct {
		Size int
		Code fault.Code
		Why  string
	}](t, `
/file: {size: 4}
/largest: {size: 1048576}
/larger: {size: 0, code: cluster-unusable, why: 'discovery_file: larger than 1 MiB'}
/moved: {size: 0, code: cluster-unusable, why: returned 302 Found}
/none: {size: 0, code: cluster-unusable, why: returned 404 Not Found}
/cut: {size: 0, code: cluster-unreachable, why: 'discovery_file: unexpected EOF'}
`) {
		text, f := fetchDiscoveryFile(t.Context(), client, s.URL+path)
		switch {
		case want.Code == "" && (f != nil || len(text) != want.Size):
			t.Errorf("%s: got %d bytes, %v; want %d bytes", path, len(text), f, want.Size)
		case want.Code != "" && (f == nil || f.Code != want.Code || !strings.Contains(f.Why, want.Why)):
			t.Errorf("%s: got %v, want code %s: %s", path, f, want.Code, want.Why)
		}
	}

	for url, want := range map[string]fault.Code{
		s.URL + "/file":            fault.ClusterUntrusted, // not by a CA of this system
		"https://127.0.0.1:1/file": fault.ClusterUnreachable,
		"https://a b/file":         fault.ClusterUntrusted, // not a URL
	} {
		if _, f := FetchDiscoveryFile(t.Context(), url, time.Now); f == nil || f.Code != want {
			t.Errorf("%s: got %v, want code %s", url, f, want)
		}
	}
}
