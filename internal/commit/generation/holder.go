package generation

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

// Holder is the process that holds the lock, as far as this system tells.
type Holder struct {
	PID     int
	Command string    // its command line, bounded; "" when it is not to be seen
	Since   time.Time // when the process began, which is no later than when it took the lock; zero when it is not to be seen
}

func (h Holder) String() string {
	s := "process " + itoa(h.PID)
	if h.Command != "" {
		s += " (" + h.Command + ")"
	}
	if !h.Since.IsZero() {
		s += ", begun " + h.Since.Local().Format(time.DateTime)
	}
	return s
}

// lockedError is that somebody held the lock for as long as we could wait.
type lockedError struct {
	holder *Holder // nil: not to be seen
	waited time.Duration
	cause  error
}

func (e *lockedError) Error() string {
	s := ErrLocked.Error()
	if e.holder != nil {
		s += ": " + e.holder.String()
	}
	return s + fmt.Sprintf("; waited %s for it", e.waited.Round(10*time.Millisecond))
}

func (e *lockedError) Unwrap() []error { return []error{ErrLocked, e.cause} }

// HeldBy is who holds the lock, by an error that wraps ErrLocked; false when that is not known.
func HeldBy(err error) (Holder, bool) {
	for _, e := range unwrapped(err) {
		if l, ok := e.(*lockedError); ok && l.holder != nil {
			return *l.holder, true
		}
	}
	return Holder{}, false
}

// unwrapped is an error with everything that it wraps.
func unwrapped(err error) []error {
	out := []error{err}
	switch x := err.(type) {
	case interface{ Unwrap() error }:
		if inner := x.Unwrap(); inner != nil {
			out = append(out, unwrapped(inner)...)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range x.Unwrap() {
			out = append(out, unwrapped(inner)...)
		}
	}
	return out
}

// longestCommand bounds what is shown of a command line, characters.
const longestCommand = 120

// holder looks in /proc who holds the lock. The lock itself says nothing: what a killed process wrote there would lie.
func (s *Store) holder() *Holder {
	var st unix.Stat_t
	if unix.Fstat(s.lockFD, &st) != nil {
		return nil
	}
	return s.holderOf(&st)
}

// LockHolder is who holds the lock now, as far as this system tells, for a store that was opened to look at.
func (s *Store) LockHolder() (Holder, bool) {
	var st unix.Stat_t
	if s.dir == nil || unix.Fstatat(s.dir.fd, lockName, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return Holder{}, false
	}
	h := s.holderOf(&st)
	if h == nil {
		return Holder{}, false
	}
	return *h, true
}

// Abandoned is the journal of a commit that is neither in place whole nor being put there: whoever did it is gone, by the lock, which
// dies with its holder. Nil when there is none, or this user may not know. For a store that was opened to look at.
func (s *Store) Abandoned() *Journal {
	if s.dir == nil {
		return nil
	}
	fd, err := unix.Openat(s.dir.fd, lockName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd) // drops the lock; others try again every few milliseconds
	if unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) != nil {
		return nil
	}
	if j, err := s.Journal(); err == nil && j != nil && j.Phase != PhaseVerify {
		return j
	}
	return nil
}

func (s *Store) holderOf(st *unix.Stat_t) *Holder {
	table, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil
	}
	pid := lockOwner(string(table), unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	if pid <= 0 {
		return nil
	}
	h := &Holder{PID: pid}
	if b, err := os.ReadFile("/proc/" + itoa(pid) + "/cmdline"); err == nil {
		h.Command = commandLine(b)
	}
	if b, err := os.ReadFile("/proc/" + itoa(pid) + "/stat"); err == nil {
		if age, ok := ageOf(string(b)); ok {
			h.Since = s.o.Now().Add(-age)
		}
	}
	return h
}

// lockOwner finds who holds a flock on a file in the text of /proc/locks; 0 when nobody is told. Some file systems have another
// device number there than stat says: then the inode decides, if only one has it.
func lockOwner(table string, major, minor uint32, ino uint64) int {
	device := fmt.Sprintf("%02x:%02x", major, minor)
	var alike []int
	for line := range strings.Lines(table) { // 1: FLOCK  ADVISORY  WRITE 4711 fd:01:1234 0 EOF
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" { // one that waits has "->" there
			continue
		}
		i := strings.LastIndexByte(f[5], ':')
		if i < 0 || f[5][i+1:] != strconv.FormatUint(ino, 10) {
			continue
		}
		pid, err := strconv.Atoi(f[4])
		if err != nil {
			continue
		}
		if f[5][:i] == device {
			return pid
		}
		alike = append(alike, pid)
	}
	if len(alike) == 1 {
		return alike[0]
	}
	return 0
}

// commandLine makes one line of what /proc/PID/cmdline holds.
func commandLine(b []byte) string {
	s := strings.Map(func(r rune) rune {
		if r == 0 {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, strings.TrimRight(string(b), "\x00"))
	if r := []rune(s); len(r) > longestCommand {
		s = string(r[:longestCommand]) + "…"
	}
	return s
}

// ageOf is how long a process has been there, by the text of /proc/PID/stat: proc(5), field 22, in hundredths of a second since
// boot, suspended time included.
func ageOf(stat string) (time.Duration, bool) {
	i := strings.LastIndexByte(stat, ')') // the name may hold anything
	f := strings.Fields(stat[i+1:])
	const start = 22 - 3 // the first field here is the third
	if i < 0 || len(f) <= start {
		return 0, false
	}
	ticks, err := strconv.ParseInt(f[start], 10, 64)
	var now unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0, false
	}
	age := time.Duration(now.Nano()) - time.Duration(ticks)*10*time.Millisecond
	return max(age, 0), true
}
