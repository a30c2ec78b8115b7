//go:build linux

package conformance

import (
	"os"
	"testing"
)

func TestOwnUser(t *testing.T) {
	one, claim, err := ownUser()
	if err != nil {
		t.Fatal(err)
	}
	two, other, err := ownUser()
	if err != nil || two == one {
		t.Errorf("a second run of the kit is user %d (%v), as the first, and shares its limit of processes", two, err)
	}
	if other != nil {
		defer other.Close()
	}
	if err := claim.Close(); err != nil {
		t.Fatal(err)
	}
	if again, claim, err := ownUser(); err != nil { // the same, if no test beside this one was quicker
		t.Errorf("none free after %d was given back: %d (%v)", one, again, err)
	} else {
		defer claim.Close()
	}
}

func TestUsersThatRun(t *testing.T) {
	if users, err := usersThatRun(); err != nil || !users[os.Getuid()] || users[firstUser-1] {
		t.Errorf("%v (%v), and this test runs as %d", users, err, os.Getuid())
	}
}
