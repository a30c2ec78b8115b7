package cluster

import (
	"net/http"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
)

// TestFetchVersion reads the version of an API server without a credential, and asks each server once, whatever it
// answers.
func TestFetchVersion(t *testing.T) {
	const good = `{"major": "1", "minor": "36", "gitVersion": "v1.36.3"}`
	ca := newTestCA(t, "ca")
	for _, c := range []struct {
		name   string
		handle handler
		ca     []byte
		want   string
		code   fault.Code
	}{
		{"good", body("application/json", good), ca.pem(), "v1.36.3", ""},
		{"another CA", body("application/json", good), newTestCA(t, "other").pem(), "", fault.ClusterUntrusted},
		{"no CA", body("application/json", good), nil, "", fault.ClusterUntrusted},
		{"anonymous requests are refused", answerWith(http.StatusUnauthorized), ca.pem(), "", fault.ClusterDenied},
		{"forbidden", answerWith(http.StatusForbidden), ca.pem(), "", fault.ClusterDenied},
		{"overloaded", answerWith(http.StatusTooManyRequests, "Retry-After", "30"), ca.pem(), "", fault.ClusterUnreachable},
		{"a redirect", answerWith(http.StatusFound, "Location", "https://127.0.0.1:1/"), ca.pem(), "", fault.ClusterUnusable},
		{"a portal", body("text/html", "<html>"), ca.pem(), "", fault.ClusterUnusable},
		{"no version in it", body("application/json", `{"gitVersion": ""}`), ca.pem(), "", fault.ClusterUnusable},
		{"a list", body("application/json", `["v1.36.3"]`), ca.pem(), "", fault.ClusterUnusable},
		{"too large", bigBody(true), ca.pem(), "", fault.ClusterUnusable},
		{"a bomb", gzipped(good), ca.pem(), "", fault.ClusterUnusable},
		{"not HTTP", raw("\x00\x01\r\n\r\n"), ca.pem(), "", fault.ClusterUnusable},
	} {
		h := newHostile(t, ca)
		h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool {
			if r.URL.Path != "/version" {
				t.Errorf("%s: got a request of %s, want /version", c.name, r.URL.Path)
			}

			return c.handle(h, w, r, n)
		}
		client := New(fast())
		got, err := client.FetchVersion(within(t, 20*time.Second), Endpoint{Servers: []string{h.URL}}, c.ca)
		client.Close()
		if got != c.want || fault.CodeOf(err) != c.code {
			t.Errorf("%s: got %q, %v (%q); want %q, code %q", c.name, got, err, fault.CodeOf(err), c.want, c.code)
		}
		if asked, authorized := h.requests.Load(), h.authorized.Load(); asked > 1 || authorized != 0 {
			t.Errorf("%s: got %d requests, %d with a credential; want one at most, and none", c.name, asked, authorized)
		}
	}
}

// TestFetchVersionOfSecondServer asks the next server if one does not answer, and stops at the deadline.
func TestFetchVersionOfSecondServer(t *testing.T) {
	ca := newTestCA(t, "ca")
	broken, slow, good := newHostile(t, ca), newHostile(t, ca), newHostile(t, ca)
	broken.handle = func(w http.ResponseWriter, r *http.Request, n int) bool { return answerWith(500)(broken, w, r, n) }
	slow.handle = func(w http.ResponseWriter, r *http.Request, n int) bool {
		return trickle("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")(slow, w, r, n)
	}
	good.handle = func(w http.ResponseWriter, r *http.Request, n int) bool {
		return body("application/json", `{"gitVersion": "v1.37.0"}`)(good, w, r, n)
	}

	c := New(fast())
	defer c.Close()
	got, err := c.FetchVersion(within(t, 20*time.Second), Endpoint{Servers: []string{broken.URL, good.URL}}, ca.pem())
	if got != "v1.37.0" || err != nil {
		t.Errorf("a broken server and a good one: got %q, %v; want v1.37.0", got, err)
	}
	got, err = c.FetchVersion(within(t, 300*time.Millisecond), Endpoint{Servers: []string{slow.URL}}, ca.pem())
	if got != "" || err == nil {
		t.Errorf("a server that sends for ever: got %q, %v; want an error", got, err)
	}
}
