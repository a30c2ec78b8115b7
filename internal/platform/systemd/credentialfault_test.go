package systemd

import (
	"fmt"
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
