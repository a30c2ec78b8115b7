package schema

import (
	"strings"
	"testing"
)

// An invalid server of a site is reported at its place in the site, by the rules of the package that sends the
// requests.
func TestServers(t *testing.T) {
	for _, c := range []struct{ servers, says string }{
		{"10.0.0.11:6443", ""},
		{"10.0.0.11:6443 10.0.0.12:6443 https://k8s.example [2001:db8::1]:6443", ""},
		{"", "at least one server is needed"},
		{"10.0.0.11:6443 https://10.0.0.11:6443", ""}, // as variables may make it
		{"http://k8s:6443", "http is refused"},
		{"k8s", "no port"},
		{"10.0.0.300:6443", "invalid IP address"},
		{"a..b:6443", "invalid host name"},
		{"x!y:6443", "invalid host name"},
		{"k8s:99999", "not between 1 and 65535"},
		{"https://[fe80::1%eth0]:6443", "zones are refused"},
		{"bücher.example:6443", "outside ASCII"},
		{"https://k8s/api", "a path"},
	} {
		err := Servers.Check(strings.Fields(c.servers))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want %q", c.servers, err, c.says)
		}
	}
	if err := Server("https://me:canary@k8s:6443"); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("server with a password: got error %v, want one without the password", err)
	}
}
