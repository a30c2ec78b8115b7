package systemd

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// The name of a credential is in its fault once, whatever has wrapped the error.
func TestCredentialFaultNamesOnce(t *testing.T) {
	err := fmt.Errorf("credential %q: %w", "x", fmt.Errorf("credential %q: %w", "x", ErrNoCredentials))
	if got := CredentialFault("x", err).Why; strings.Count(got, `credential "x"`) != 1 {
		t.Errorf("got %q, want the name once", got)
	}
}

// TestCredentialFaultNamesTheUnit checks the next step: the place of a site and passwords of registries are of
// prelet-site.service, and what the units name themselves needs no drop-in.
func TestCredentialFaultNamesTheUnit(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"prelet.registry", ErrEncrypted, "Let the unit do it: systemctl start prelet-site"},
		{"prelet.registry", fs.ErrPermission, "Run as root, or let the unit do it: systemctl start prelet-site"},
		{"prelet.registry", fs.ErrNotExist, "install -D -m 400 FILE /etc/credstore/prelet.registry"},
		{"prelet.site", ErrEncrypted, "Let the unit do it: systemctl start prelet-site"},
		{"x", ErrEncrypted, "Let the unit do it: systemctl start prelet-apply"},
		{"x", fs.ErrNotExist, "/etc/credstore/x, with LoadCredential=x in a drop-in of prelet.service and of prelet-apply.service"},
	} {
		if got := CredentialFault(c.name, c.err).Next; !strings.HasSuffix(got, c.want) {
			t.Errorf("%s, %v: got next step %q, want the end %q", c.name, c.err, got, c.want)
		}
	}
}
