package cluster

import (
	"net/http"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/demo"
	"github.com/prelet/prelet/internal/fault"
)

// TestFetchVersion reads the version of an API server without a credential, and asks each server once, whatever it
// answers.
func TestFetchVersion(t *testing.T) {
	var cases []struct {
		Name    string
		Answer  demo.Answer
		Trust   string
		Version string
		Code    fault.Code
	}
	readData(t, "version.yaml", &cases)
	ca := demo.NewAuthority("ca")
	trusted := map[string][]byte{"": ca.CAPEM(), "other": demo.NewAuthority("other").CAPEM()}
	for _, c := range cases {
		h := newHostile(t, ca)
		h.Intercept = func(w http.ResponseWriter, r *http.Request, n int) bool {
			if r.URL.Path != "/version" {
				t.Errorf("%s: got a request of %s, want /version", c.Name, r.URL.Path)
			}

			return c.Answer.Respond(w, r, n)
		}
		client := New(fast())
		got, err := client.FetchVersion(within(t, 20*time.Second), Endpoint{Servers: []string{h.URL}}, trusted[c.Trust])
		client.Close()
		if got != c.Version || fault.CodeOf(err) != c.Code {
			t.Errorf("%s: got %q, %v (%q); want %q, code %q", c.Name, got, err, fault.CodeOf(err), c.Version, c.Code)
		}
		if asked, authorized := len(h.Requests()), h.Authorizations(); asked > 1 || authorized != 0 {
			t.Errorf("%s: got %d requests, %d with a credential; want one at most, and none", c.Name, asked, authorized)
		}
	}
}

// TestFetchVersionOfSecondServer asks the next server if one does not answer, and stops at the deadline.
func TestFetchVersionOfSecondServer(t *testing.T) {
	ca := demo.NewAuthority("ca")
	broken, slow, good := newHostile(t, ca), newHostile(t, ca), newHostile(t, ca)
	broken.Intercept = answerWith(500)
	slow.Intercept = demo.Answer{Raw: true, Body: "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", Trickle: true}.Respond
	good.Intercept = demo.Answer{Body: `{"gitVersion": "v1.37.0"}`}.Respond

	c := New(fast())
	defer c.Close()
	got, err := c.FetchVersion(within(t, 20*time.Second), Endpoint{Servers: []string{broken.URL, good.URL}}, ca.CAPEM())
	if got != "v1.37.0" || err != nil {
		t.Errorf("a broken server and a good one: got %q, %v; want v1.37.0", got, err)
	}
	got, err = c.FetchVersion(within(t, 300*time.Millisecond), Endpoint{Servers: []string{slow.URL}}, ca.CAPEM())
	if got != "" || err == nil {
		t.Errorf("a server that sends for ever: got %q, %v; want an error", got, err)
	}
}
