package pluginhost

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/world"
)

// UserPrefix begins the names of the pool's users: prelet-detector-1 and so on, made by sysusers.d/prelet.conf.
const UserPrefix = "prelet-detector-"

// slotWait is how often a full pool is looked at again.
const slotWait = 5 * time.Millisecond

// slot is a user of the pool, held as long as its file is locked, and a folder that only this user can enter.
type slot struct {
	uid, gid int
	own      bool // the user is the pool's; else it is ours, who is not root
	dir      string
	lock     *os.File
	groups   []uint32
	room     *room    // its own view of the machine; nil: it has that of everybody
	unclean  bool     // who had it before did not say that all was over
	lacks    []string // what of the sandbox could not be had for it
}

// take finds a free slot. As root it is one of the pool; anybody else runs detectors as himself.
func (h *Host) take(ctx context.Context, groups []string) (*slot, error) {
	if os.Geteuid() != 0 {
		if len(groups) > 0 {
			return nil, denied("only root can give a detector the groups %s", strings.Join(groups, ", "))
		}
		dir, err := os.MkdirTemp("", "prelet-")
		lacks := []string{"limit of files: not without a user of the detector's own"}
		return &slot{uid: os.Geteuid(), gid: os.Getegid(), dir: dir, lacks: lacks}, err
	}
	users, err := h.pool()
	if err != nil {
		return nil, err
	}
	ids, err := h.groupIDs(groups)
	if err != nil {
		return nil, err
	}
	if err := h.runDir(); err != nil {
		return nil, err
	}

	// A slot that cannot be used keeps nobody from the others.
	var bad []string
	for {
		var busy []user
		for _, u := range users {
			s, err := h.try(u)
			switch {
			case err == nil:
				s.groups = ids
				return s, nil
			case errors.Is(err, errBusy):
				busy = append(busy, u)
			default:
				bad = append(bad, fmt.Sprintf("%s: %s", u.name, err))
			}
		}
		if len(busy) == 0 {
			return nil, fmt.Errorf("no user of detectors can be used. %s", some(bad))
		}

		users = busy
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("all %d users of detectors are busy. %s", len(users), some(bad))
		case <-time.After(slotWait):
		}
	}
}

// some is the first of many texts, on one line.
func some(texts []string) string {
	const most = 2
	if more := len(texts) - most; more > 0 {
		texts = append(texts[:most:most], fmt.Sprintf("and %d more like these", more))
	}

	return strings.Join(texts, "; ")
}

// errBusy is a user that runs a detector.
var errBusy = errors.New("busy")

// runDir makes the folder of slots, and that of their sockets. The pool's users pass through them and see nothing.
func (h *Host) runDir() error {
	for _, dir := range []string{h.o.RunDir, h.sockets()} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o711); err != nil { // whatever the umask was
			return err
		}
	}

	return nil
}

// sockets is the folder of the slots' private folders. prelet's units mount something small on each of these.
func (h *Host) sockets() string { return filepath.Join(h.o.RunDir, "sockets") }

// try takes the slot of one user: errBusy where another prelet has it.
func (h *Host) try(u user) (*slot, error) {
	f, err := os.OpenFile(filepath.Join(h.o.RunDir, u.name+".lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errBusy
		}
		return nil, err
	}
	s := &slot{uid: u.uid, gid: u.gid, own: true, dir: filepath.Join(h.sockets(), u.name), lock: f}
	if st, err := f.Stat(); err == nil && st.Size() > 0 {
		s.unclean = true
	}
	_, err = f.WriteAt([]byte("in use\n"), 0)
	if err == nil && s.unclean && !h.sweep(s.uid) {
		err = errors.New("processes of another detector are left under it, and cannot be ended")
	}
	if err == nil {
		err = s.folder()
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return s, nil
}

// release gives the slot back. Clean says that no process of its user is left.
func (s *slot) release(clean bool) {
	err := s.clear()
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

// pool are the users that packages make for detectors.
func (h *Host) pool() ([]user, error) {
	var out []user
	err := eachLine(h.o.Passwd, func(f []string) {
		if len(f) < 4 || !strings.HasPrefix(f[0], UserPrefix) {
			return
		}
		uid, err1 := strconv.Atoi(f[2])
		gid, err2 := strconv.Atoi(f[3])
		if err1 == nil && err2 == nil && uid > 0 && gid > 0 {
			out = append(out, user{f[0], uid, gid})
		}
	})
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, denied("there is no user %s1 to run it as; `systemd-sysusers` makes those of the package. "+
			"Where none of it is installed, as in a container that builds an image, run the command as an ordinary user", UserPrefix)
	}
	return out, nil
}

func (h *Host) groupIDs(names []string) (ids []uint32, err error) {
	for _, n := range names {
		id := -1
		if err := eachLine(filepath.Join(filepath.Dir(h.o.Passwd), "group"), func(f []string) {
			if x, err := strconv.Atoi(f[min(2, len(f)-1)]); f[0] == n && err == nil {
				id = x
			}
		}); err != nil {
			return nil, err
		}
		if id <= 0 { // root's group owns what no detector may have
			return nil, denied("the site grants group %q, which this machine does not have", n)
		}
		ids = append(ids, uint32(id))
	}
	return ids, nil
}

func eachLine(path string, f func(fields []string)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	s := bufio.NewScanner(file)
	for s.Scan() {
		f(strings.Split(s.Text(), ":"))
	}
	return s.Err()
}

// Pool is how many detectors can run at once with a user of their own.
func (h *Host) Pool() int {
	users, _ := h.pool()
	return len(users)
}

// granted are the paths below the root that a grant names; of a recorded machine, its tree. Programs are not below either: the
// kernel executes this machine's, and so an interpreter too.
func (h *Host) granted(g world.Grants) world.Grants {
	below := func(l []string) (out []string) {
		for _, p := range l {
			out = append(out, h.path(p))
		}
		return out
	}
	if h.o.Tree != "" {
		return world.Grants{Read: []string{h.o.Tree}, Execute: g.Execute}
	}
	return world.Grants{Devices: g.Devices, Read: below(g.Read), Execute: g.Execute, Sockets: below(g.Sockets), Groups: g.Groups}
}
