package conformance

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// The users that a detector may be when Run is root: no account has one of these numbers on Debian and its kin (they stand where
// systemd makes its dynamic users), and there is one for each run of the kit that goes on at the same time.
const firstUser, lastUser = 65000, 65499

// ownUser claims a user that runs nothing, until claim is closed. A node gives each detector a user of its own, too: the limit of
// processes counts all that a user runs, wherever it was started.
func ownUser() (uid int, claim io.Closer, err error) {
	running, err := usersThatRun()
	if err != nil {
		return 0, nil, err
	}
	for uid := firstUser; uid <= lastUser; uid++ {
		if running[uid] {
			continue
		}
		// An abstract name has one owner, leaves no file, and is free again when its owner ends, however that ends.
		claim, err = net.Listen("unix", "@detector-conformance-"+strconv.Itoa(uid))
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
