package detector

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// The users of the benches: no account has one of these numbers on Debian and its kin.
const firstUser, lastUser = 61100, 61999

// ownUsers claims two users that run nothing, until claim is closed: a host ends whatever it finds of its users, and
// another run of these tests may go on at the same time.
func ownUsers() (first int, claim io.Closer, err error) {
	running, err := usersThatRun()
	if err != nil {
		return 0, nil, err
	}
	for uid := firstUser; uid < lastUser; uid += 2 {
		if running[uid] || running[uid+1] {
			continue
		}
		// An abstract name has one owner, leaves no file, and is free again when its owner ends, however that ends.
		claim, err = net.Listen("unix", "@prelet-bench-"+strconv.Itoa(uid))
		if err == nil {
			return uid, claim, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return 0, nil, err
		}
	}
	return 0, nil, fmt.Errorf("all users from %d to %d are taken: end what they run", firstUser, lastUser)
}

// usersThatRun is every user that has a process.
func usersThatRun() (map[int]bool, error) {
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	users := map[int]bool{}
	for _, p := range processes {
		if info, err := os.Stat(p); err == nil { // else it ended meanwhile
			users[int(info.Sys().(*syscall.Stat_t).Uid)] = true
		}
	}
	return users, nil
}

// TestOwnUsers checks that each run has users of its own.
func TestOwnUsers(t *testing.T) {
	taken := map[int]bool{}
	for range 3 {
		uid, claim, err := ownUsers()
		must(t, err)
		defer claim.Close()
		if taken[uid] || taken[uid+1] || taken[uid-1] {
			t.Errorf("uid %d: got taken by %v, want it free", uid, taken)
		}
		taken[uid] = true
		if other, err := net.Listen("unix", "@prelet-bench-"+strconv.Itoa(uid)); err == nil {
			_ = other.Close()
			t.Errorf("uid %d: got it free, want it claimed", uid)
		}
	}
}
