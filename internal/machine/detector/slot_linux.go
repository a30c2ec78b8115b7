package detector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// UserPrefix begins the names of the users for detectors, prelet-detector-1 and so on. sysusers.d/prelet.conf makes
// them.
const UserPrefix = "prelet-detector-"

// slotPause is the pause before users that were all busy are tried again.
const slotPause = 5 * time.Millisecond

// slot is a user for one detector, held while its file is locked, and a folder that only this user can enter.
type slot struct {
	uid, gid  int
	own       bool // the user is for detectors only; otherwise it is ours, and not root
	dir       string
	lock      *os.File
	groups    []uint32
	isMounted bool     // the folder, until the slot is released
	unclean   bool     // an earlier run could not end all processes of the user
	lacks     []string // missing parts of the sandbox
}

// take returns a free slot for a detector. As root it waits for one until ctx ends; any other user runs detectors as
// himself.
func (h *Host) take(ctx context.Context, name string, groups []string) (*slot, error) {
	if os.Geteuid() != 0 {
		return takeWithoutRoot(groups)
	}
	users, err := h.users()
	if err != nil {
		return nil, err
	}
	ids, err := h.groupIDs(groups)
	if err != nil {
		return nil, err
	}
	if err := h.makeRunDir(); err != nil {
		return nil, err
	}

	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return nil, h.allBusy(users)
	}

	// A slot that cannot be used must not block the others.
	var failures []string
	for {
		var busy []user
		for _, u := range users {
			s, err := h.try(u, name)
			switch {
			case err == nil:
				s.groups = ids
				return s, nil
			case errors.Is(err, errBusy):
				busy = append(busy, u)
			default:
				failures = append(failures, fmt.Sprintf("%s: %s", u.name, err))
			}
		}
		if len(busy) == 0 {
			const text = "none of the detectors' users can be used. %s"
			return nil, fmt.Errorf(text, strings.Join(failures, "; "))
		}

		users = busy
		select {
		case <-ctx.Done():
			return nil, h.allBusy(users)
		case <-time.After(slotPause):
		}
	}
}

// errAllBusy means that other detectors took all of the time.
var errAllBusy = errors.New("it was not started, because all users for detectors were busy until the end")

// allBusy returns the error for a detector that got none of the users in time, with the names of those that have them.
func (h *Host) allBusy(users []user) error {
	const most = 8

	names := map[string]bool{}
	for _, u := range users {
		text, _ := os.ReadFile(h.lockPath(u))
		names[cleanText(string(text))] = true
	}
	delete(names, "") // that user became free too late
	shown := slices.Sorted(maps.Keys(names))
	more := ""
	if n := len(shown) - most; n > 0 {
		shown = shown[:most]
		more = fmt.Sprintf(" and %d more", n)
	}

	return fmt.Errorf("%w, with %s%s", errAllBusy, strings.Join(shown, ", "), more)
}

func takeWithoutRoot(groups []string) (*slot, error) {
	if len(groups) > 0 {
		return nil, denied("only root can give a detector the groups %s", strings.Join(groups, ", "))
	}
	dir, err := os.MkdirTemp("", "prelet-")
	lacks := []string{"limit of files: not without a user of the detector's own"}

	return &slot{
		uid:   os.Geteuid(),
		gid:   os.Getegid(),
		dir:   dir,
		lacks: lacks,
	}, err
}

// errBusy means that a user runs a detector.
var errBusy = errors.New("busy")

// makeRunDir makes the folder of the slots and that of their sockets. The detectors' users can pass through both, but
// cannot list them.
func (h *Host) makeRunDir() error {
	for _, dir := range []string{h.o.RunDir, h.sockets()} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o711); err != nil { // independent of the umask
			return err
		}
	}

	return nil
}

// sockets returns the folder of the slots' private folders. prelet's units mount a small tmpfs on each of these.
func (h *Host) sockets() string {
	return filepath.Join(h.o.RunDir, "sockets")
}

// try takes the slot of one user. The error is errBusy if another prelet has it. The slot's file is empty unless the
// last run could not end all processes of the user.
func (h *Host) try(u user, name string) (*slot, error) {
	const flags = os.O_RDWR | os.O_CREATE | unix.O_NOFOLLOW | unix.O_NONBLOCK
	f, err := os.OpenFile(h.lockPath(u), flags, 0o600)
	if err != nil {
		return nil, err
	}

	s := &slot{
		uid:  u.uid,
		gid:  u.gid,
		own:  true,
		dir:  filepath.Join(h.sockets(), u.name),
		lock: f,
	}
	if err := h.prepare(s, name); err != nil {
		_ = f.Close()
		return nil, err
	}

	return s, nil
}

func (h *Host) lockPath(u user) string {
	return filepath.Join(h.o.RunDir, u.name+".lock")
}

// prepare locks a slot's file, ends the processes of an earlier run and makes the folder. The file gets the name of the
// detector.
func (h *Host) prepare(s *slot, name string) error {
	err := unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errBusy
	}
	if err != nil {
		return err
	}

	st, err := s.lock.Stat()
	s.unclean = err == nil && st.Size() > 0
	_, err = s.lock.WriteAt([]byte(name+"\n"), 0)
	if err == nil {
		err = s.lock.Truncate(int64(len(name) + 1)) // that of a killed prelet may be longer
	}
	if err != nil {
		return err
	}
	if s.unclean && !h.sweep(s.uid) {
		return errors.New("processes of an earlier detector cannot be ended")
	}

	return s.makeFolder()
}

// release gives the slot back. With clean, no process of its user is left.
func (s *slot) release(clean bool) {
	err := s.clearFolder()
	if s.lock == nil {
		return
	}
	if clean && err == nil {
		_ = s.lock.Truncate(0)
	}
	_ = s.lock.Close()
}

type user struct {
	name     string
	uid, gid int
}

func (h *Host) users() ([]user, error) {
	passwd, err := os.ReadFile(h.o.Passwd)
	if err != nil {
		return nil, err
	}

	var users []user
	for line := range strings.Lines(string(passwd)) {
		fields := strings.Split(line, ":")
		if len(fields) < 4 || !strings.HasPrefix(fields[0], UserPrefix) {
			continue
		}
		uid, uidErr := strconv.Atoi(fields[2])
		gid, gidErr := strconv.Atoi(fields[3])
		if uidErr == nil && gidErr == nil && uid > 0 && gid > 0 {
			users = append(users, user{fields[0], uid, gid})
		}
	}
	if len(users) == 0 {
		const text = "user %s1 does not exist. Make the package's users with `systemd-sysusers`; if the package is " +
			"not installed, for example while an image is built, run the command without root"
		return nil, denied(text, UserPrefix)
	}

	return users, nil
}

func (h *Host) groupIDs(names []string) ([]uint32, error) {
	file := filepath.Join(filepath.Dir(h.o.Passwd), "group")

	var ids []uint32
	for _, name := range names {
		id, err := nodefile.Root("/").FindID(file, name)
		if err != nil || id <= 0 { // root's group owns what no detector may read
			return nil, denied("the site grants group %q, which does not exist on this machine", name)
		}
		ids = append(ids, uint32(id))
	}

	return ids, nil
}

// placeGrants returns grants with their paths below the root. For a recorded machine its tree is readable. Programs
// are not below the root: the kernel executes those of this machine.
func (h *Host) placeGrants(g tape.Grants) tape.Grants {
	if h.o.Tree != "" {
		return tape.Grants{Read: []string{h.o.Tree}, Execute: g.Execute}
	}

	below := func(paths []string) (out []string) {
		for _, p := range paths {
			out = append(out, h.path(p))
		}
		return out
	}

	g.Read = below(g.Read)
	g.Sockets = below(g.Sockets)

	return g
}
