package schema

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

// An invalid server of a site is reported at its place in the site, by the rules of the package that sends the
// requests.
func TestServers(t *testing.T) {
	for _, c := range table.YAML[[]struct{ Servers, Says string }](t, `
- {servers: 10.0.0.11:6443}
- {servers: '10.0.0.11:6443 10.0.0.12:6443 https://k8s.example [2001:db8::1]:6443'}
- {says: at least one server is needed}
# as variables may make it
- {servers: 10.0.0.11:6443 https://10.0.0.11:6443}
- {servers: http://k8s:6443, says: http is refused}
- {servers: k8s, says: no port}
- {servers: 10.0.0.300:6443, says: invalid IP address}
- {servers: a..b:6443, says: invalid host name}
- {servers: x!y:6443, says: invalid host name}
- {servers: k8s:99999, says: not between 1 and 65535}
- {servers: 'https://[fe80::1%eth0]:6443', says: has no zone}
- {servers: bücher.example:6443, says: outside ASCII}
- {servers: https://k8s/api, says: a path}
- {servers: k8s:0, says: not between 1 and 65535}
- {servers: 0.0.0.0:6443, says: all addresses}
- {servers: 'https://[::]:6443', says: all addresses}
- {servers: '[::ffff:0.0.0.0]:6443', says: all addresses}
- {servers: 224.0.0.1:6443, says: multicast}
- {servers: '[ff02::1]:6443', says: multicast}
- {servers: 255.255.255.255:6443, says: broadcast}
- {servers: 127.0.0.1:6443 localhost:6443}
`) {
		err := Servers.Check(strings.Fields(c.Servers))
		if (err == nil) != (c.Says == "") || err != nil && !strings.Contains(err.Error(), c.Says) {
			t.Errorf("%q: %v, want %q", c.Servers, err, c.Says)
		}
	}
	if err := Server("https://me:canary@k8s:6443"); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("server with a password: got error %v, want one without the password", err)
	}
}

// TestAddresses: each argument with an address refuses a user, whose password no error repeats, and what no server has.
func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		check       func(string) error
		value, want string // "": valid
	}{
		{Discovery.Check, "/etc/kubernetes/discovery.conf", ""},
		{Discovery.Check, "https://boot.example/discovery.conf?rack=7", ""},
		{Discovery.Check, "https://boot.example:8443/x", ""},
		{Discovery.Check, "https://me:canary@boot.example/x", "a user name or password is refused"},
		{Discovery.Check, "https://canary@boot.example/x", "a user name or password is refused"},
		{Discovery.Check, "http://me:canary@boot.example/x", "is not an absolute path or an https URL"},
		{Discovery.Check, "https://me:canary@%zz/x", "is not an absolute path or an https URL"},
		{Discovery.Check, "https://boot.example:99999/x", "not between 1 and 65535"},
		{Discovery.Check, "https://0.0.0.0/x", "all addresses"},
		{Discovery.Check, "/dev/zero", "is not a file"},
		{Discovery.Check, "/etc/../dev/zero", "is not a file"},
		{CAFile.Check, "/dev/zero", "is not a file"},
		{CAFile.Check, "/etc/kubernetes/pki/ca.crt", ""},
		{ProxyURL.Check, "http://proxy.example:3128/", ""},
		{ProxyURL.Check, "http://proxy.example", ""},
		{ProxyURL.Check, "http://me:canary@proxy.example:3128", "credentials do not belong in a site"},
		{ProxyURL.Check, "http://proxy.example:0", "not between 1 and 65535"},
		{ProxyURL.Check, "https://proxy.example:99999", "not between 1 and 65535"},
		{ProxyURL.Check, "http://255.255.255.255:3128", "broadcast"},
		{ProxyURL.Check, "http://[::]:3128", "all addresses"},
	} {
		err := c.check(c.value)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.value, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: got error %v, want one without the user and the password", c.value, err)
		}
	}
}
