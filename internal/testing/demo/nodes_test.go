package demo

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
)

// A node makes and reads only its own object, once.
func TestNodes(t *testing.T) {
	s := start(t)
	pair := func(name string) tls.Certificate {
		cert, key := s.IssueNode(name)
		p, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	mine, others, nobody := client(t, s, pair("n1")), client(t, s, pair("n2")), client(t, s)
	post := func(c *http.Client, body string) int {
		resp, err := c.Post(s.URL+nodesPath, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	code, body := get(t, mine, s.URL+nodesPath+"/n1", "")
	if details, _ := body["details"].(map[string]any); code != 404 || body["reason"] != "NotFound" ||
		details["kind"] != "nodes" {
		t.Errorf("before it registered: %d %v", code, body)
	}
	const n1 = `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","labels":{"a":"b"}}}`
	for _, c := range []struct {
		what   string
		client *http.Client
		body   string
		code   int
	}{
		{"who has not joined", nobody, n1, 403},
		{"another node", others, n1, 403},
		{"no object", mine, "[", 400},
		{"itself", mine, n1, 201},
		{"itself again", mine, n1, 409},
	} {
		if got := post(c.client, c.body); got != c.code {
			t.Errorf("registered by %s: %d, want %d", c.what, got, c.code)
		}
	}
	if code, body := get(t, mine, s.URL+nodesPath+"/n1", ""); code != 200 || body["kind"] != "Node" {
		t.Errorf("its own: %d %v", code, body)
	}
	if code, _ := get(t, others, s.URL+nodesPath+"/n1", ""); code != 403 {
		t.Errorf("another's: %d", code)
	}
	if code, _ := get(t, mine, s.URL+nodesPath+"/n1/status", ""); code != 404 {
		t.Errorf("a subresource: %d", code)
	}
	if string(s.Node("n1")) != n1 || s.Node("n2") != nil {
		t.Errorf("kept: %s", s.Node("n1"))
	}
}
