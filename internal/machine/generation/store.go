package generation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// StoreConfig configure a Store.
type StoreConfig struct {
	Root   string           // folder below which target paths are resolved; "" or "/" is the real root
	Dir    string           // the state folder, such as /var/lib/prelet, including Root
	Now    func() time.Time // wall clock; nil is time.Now
	BootID string           // identity of this boot
	Mono   func() int64     // CLOCK_MONOTONIC in microseconds; nil reads it
	// InPlace is the generation that this boot is known to have put in place, or 0. A state without it is of a
	// generation that is gone.
	InPlace int

	// Sleep waits between two attempts to take the lock. It returns an error when ctx is done. nil sleeps in real time.
	Sleep func(ctx context.Context, d time.Duration) error

	// Fault is called before every change, with the name and the object of the operation. Its error replaces the result
	// of the operation. For tests; nil in production.
	Fault func(op, path string) error

	// Synced is called after every fsync, with the file or folder and its duration; nil: not.
	Synced func(path string, began time.Time, took time.Duration)

	fsync func(fd int) error // nil is fsync(2); tests of thousands of crashes replace it by a model
}

// Store contains the generations of one node. It is not safe for concurrent use. The lock excludes other processes.
//
// # Protocol
//
// It is a redo journal.
//
//	Open      takes the lock
//	Recover   finishes or undoes an interrupted commit
//	Begin     compares (if nothing differs: ErrNothing, and nothing is written), checks, then stages: first the
//	          generation, with old and new contents, which lists everything that is created next; then new folders,
//	          and temporaries next to the targets
//	Commit    fsyncs all of them, and writes the journal (phase publish). From here on the commit can only be finished
//	          (the caller prevents readers from reading the targets)
//	Publish   renames each temporary over its target, in the order of the proposal, fsyncs the folders, and records
//	          phase verify
//	          (the caller lets readers in, unlocks, watches, locks again, compares Journal.Same)
//	Good      or Rollback
//
// If no caller judges (Proposal.Unjudged), Publish ends the journal, and the generation is good.
//
// The lock is held for writing only. A caller that waits for anything else calls Unlock, and after Relock compares
// the journal with the judged one, because another process may have superseded it.
//
// On a read-only file system the store can be opened under the lock and refuses to write: see Store.ReadOnly.
//
// # Folder
//
//	lock                        space for a rollback on a full disk; prelet 0.1.0 locks it, later ones lock the folder
//	journal.json                the transaction in progress, if there is one
//	held.json                   plans that must not be tried again, and the pin
//	generations/N               one generation, complete by itself: the manifest on the first line, then every
//	                            content and every blob. It never changes
//	generations/N.staged        the same before the commit: it names the temporaries and folders to remove if it is
//	                            never committed
//	generations/N.status.json   its verdict
//	aside/, aside.json          the last state that could not be trusted: see Aside
//
// The manifest and the JSON files are documents, each with its own SHA-256 (see document.go).
//
// A commit of four files fsyncs the generation, the four temporaries and the journal, and the folder of each: the
// fewest files that can be distinguished after a power cut. Those between two renames of the journal are fsynced side
// by side, so that a commit waits for the disk four times.
type Store struct {
	o      StoreConfig
	disk   *disk
	dir    *folder  // nil: read-only and the folder does not exist
	gens   *folder  // nil: no generation yet
	hidden *Aside   // the state cannot be trusted, and is not read
	older  *os.File // the file that a running prelet 0.1.0 would lock, locked; nil if there is none

	lastPack atomic.Pointer[pack]
}

const (
	gensName = "generations"
	lockName = "lock" // locked by prelet 0.1.0
)

func newStore(o StoreConfig) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Mono == nil {
		o.Mono = readMonotonic
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Synced == nil {
		o.Synced = func(string, time.Time, time.Duration) {}
	}
	if o.fsync == nil {
		o.fsync = unix.Fsync
	}

	o.Dir = filepath.Clean(o.Dir)
	if !filepath.IsAbs(o.Dir) || o.Dir == "/" {
		return nil, reportMisuse("open", o.Dir, "the state folder is not an absolute path")
	}
	if _, err := nodefile.Stat(o.Dir); errors.As(err, new(*nodefile.NoAnswerError)) {
		return nil, NewFault(fault.NoAnswer, "open", o.Dir, errors.Unwrap(err), nodefile.NextNoAnswer)
	}
	if err := checkInside(o.Root, o.Dir); err != nil {
		return nil, err
	}
	if _, err := nodefile.Stat(cmp.Or(o.Root, "/")); err != nil {
		return nil, wrapIO("open", o.Root, err)
	}

	d := &disk{
		fault:  o.Fault,
		fsync:  o.fsync,
		now:    o.Now,
		synced: o.Synced,
	}

	return &Store{o: o, disk: d}, nil
}

// Open creates the state folder if it is missing, takes the lock, and checks the state: see Aside. It waits for the
// lock until ctx is done, and then returns a fault with fault.Locked that wraps ErrLocked. The caller calls Recover
// next.
//
// A store on a read-only file system can be opened as well, and ReadOnly returns the reason. It can be read and
// compared under the lock, and Recover has nothing to do unless a commit was interrupted. The same is true for a store
// with files of a newer prelet: see Store.Newer.
func Open(ctx context.Context, o StoreConfig) (*Store, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}

	if err = s.openDir(); err == nil {
		err = s.Relock(ctx)
	}
	if err != nil {
		_ = s.Close() // the first error matters
		return nil, err
	}
	s.examine()

	return s, nil
}

// OpenReadOnly opens the store without the lock and without writing. The state folder may be missing. Everything that
// it returns may be outdated at any time. A state folder that this user may not read, or that belongs to another one,
// is an error, not an empty one.
func OpenReadOnly(o StoreConfig) (*Store, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	s.disk.unlocked = true

	s.dir, err = openReal(s.o.Dir)
	if errors.Is(err, unix.ENOENT) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := s.checkOwner(); err != nil {
		_ = s.Close() // the first error matters
		return nil, err
	}
	isSuspect := isDamaged(s.findDamage())
	if isSuspect && unix.Flock(s.dir.fd, unix.LOCK_SH|unix.LOCK_NB) == nil { // else another process changes it
		s.examine()
		_ = unix.Flock(s.dir.fd, unix.LOCK_UN)
	}

	return s, nil
}

// checkInside refuses a state folder below a root that a link leads out of it: the state of the machine that works on
// an image is not the image's.
func checkInside(root, dir string) error {
	root = filepath.Clean("/" + root)
	if root == "/" || !isAbove(root, dir) {
		return nil
	}
	within, err := os.OpenRoot(root)
	if err != nil {
		return nil // the root is missing, and its folder with it
	}
	defer within.Close()

	_, err = within.Stat(strings.TrimPrefix(dir, root+"/"))
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}

	return refuse("open", dir, fmt.Errorf("a link leads out of %s: %w", root, err), "replace the link by a folder")
}

func openReal(p string) (*folder, error) {
	fd, err := nodefile.Within(p, func() (int, error) {
		return unix.Open(p, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if errors.Is(err, unix.ENOTDIR) {
		return nil, refuse("open", p, err, "move away what is there in place of a folder; prelet run makes the folder")
	}
	if err != nil {
		return nil, wrapIO("open", p, err)
	}

	return &folder{fd: fd, path: p}, nil
}

// openDir opens the state folder, creates it if it is missing, and removes permissions of other users.
func (s *Store) openDir() (err error) {
	s.dir, err = openReal(s.o.Dir)
	if errors.Is(err, unix.ENOENT) {
		s.dir, err = s.makeReal(s.o.Dir) // makeGens makes its name durable
		err = s.freezeOn(err)
	}
	if err != nil || s.dir == nil {
		return err
	}
	if err := s.protectDir(); err != nil {
		return err
	}

	return s.freezeOn(checkWritable(s.dir))
}

// checkOwner refuses a state folder of another user, which is not damaged. It returns the mode.
func (s *Store) checkOwner() (mode uint32, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(s.dir.fd, &st); err != nil {
		return 0, wrapIO("stat", s.o.Dir, err)
	}
	if isForeign(st) {
		cause := fmt.Errorf("the state folder belongs to uid %d", st.Uid)
		return 0, refuse("open", s.o.Dir, cause, "look at its content, then chown it to root")
	}

	return st.Mode, nil
}

// protectDir refuses a state folder of another user, and gives it mode 0700.
func (s *Store) protectDir() error {
	mode, err := s.checkOwner()
	if err != nil {
		return err
	}
	if mode&0o077 != 0 {
		return s.freezeOn(s.disk.chmodFolder(s.dir, 0o700))
	}

	return nil
}

// isForeign reports whether a file belongs neither to root nor to this user.
func isForeign(st unix.Stat_t) bool {
	return st.Uid != 0 && st.Uid != uint32(unix.Geteuid())
}

// errForeignOwner reports that another user has made a file with the name of a file of the store.
var errForeignOwner = errors.New("the folder is root's")

// statOwned returns the state of a file. It refuses files that other users have put into the state folder while its
// mode allowed it: journals are finished and generations restored without confirmation. The mode of the folder proves
// nothing, because systemd-tmpfiles has set it.
func statOwned(f *folder, name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(f.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && isForeign(st) {
		err = fmt.Errorf("it belongs to uid %d, and %w", st.Uid, errForeignOwner)
	}

	return st, err
}

// freezeOn turns the error of a read-only file system, or of a refused call (the immutable flag, a filter), into a
// store that cannot be written: a node that has its files starts its kubelet. It returns other errors.
func (s *Store) freezeOn(err error) error {
	switch {
	case errors.Is(err, unix.EROFS):
		s.disk.frozen = wrapIO("write", s.o.Dir, unix.EROFS)
	case errors.Is(err, unix.EPERM): // without the permission of the mode it is EACCES
		s.disk.frozen = err
	default:
		return err
	}

	return nil
}

// ReadOnly returns why nothing can be written: a fault with fault.CannotWrite, the path and the next step, or Newer. It
// returns nil if neither was the case when the store was opened, and for a store of OpenReadOnly.
func (s *Store) ReadOnly() error { return s.disk.frozen }

// makeReal creates the state folder with mode 0700, and missing folders above it with mode 0755. The caller closes the
// folder, also after an error.
func (s *Store) makeReal(p string) (*folder, error) {
	parent, err := openReal(filepath.Dir(p))
	if errors.Is(err, unix.ENOENT) {
		parent, err = s.makeReal(filepath.Dir(p))
	}
	if parent != nil {
		defer parent.close()
	}
	if err != nil {
		return nil, err
	}

	made := s.disk.mkdir(parent, filepath.Base(p))
	if made != nil && !errors.Is(made, unix.EEXIST) {
		return nil, made
	}
	f, err := openReal(p)
	if err != nil || p == s.o.Dir {
		return f, err
	}
	if made == nil {
		err = s.disk.chmodFolder(f, 0o755)
	}
	if err == nil {
		err = s.disk.sync(parent)
	}

	return f, err
}

func (s *Store) openGens() error {
	if s.gens != nil || s.dir == nil || s.hidden != nil {
		return nil
	}

	gens, err := openIn(s.dir, gensName)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return s.wrapRead(s.gensPath(), err)
	}
	s.gens = gens

	return nil
}

// Close releases the lock and closes everything. The store cannot be used afterwards.
func (s *Store) Close() error {
	if !s.disk.unlocked && s.dir != nil {
		_ = unix.Flock(s.dir.fd, unix.LOCK_UN) // a child between fork and exec still has the descriptor
	}
	s.releaseOlder()
	for _, f := range []*folder{s.gens, s.dir} {
		if f != nil {
			f.close()
		}
	}
	s.gens = nil
	s.dir = nil

	return nil
}

// Unlock allows other processes to write. Until Relock this store cannot write. A caller calls it before it waits for
// anything; without the lock it does nothing.
func (s *Store) Unlock() error {
	isLocked := !s.disk.unlocked
	s.releaseOlder()
	if !isLocked || s.dir == nil {
		return nil
	}

	return wrap(fault.Internal, "unlock", s.o.Dir, unix.Flock(s.dir.fd, unix.LOCK_UN))
}

func (s *Store) releaseOlder() {
	s.disk.unlocked = true
	if s.older != nil {
		_ = unix.Flock(int(s.older.Fd()), unix.LOCK_UN)
		_ = s.older.Close()
		s.older = nil
	}
}

// Relock takes the lock again and waits for it until ctx is done. The store may have changed meanwhile: the caller
// compares the journal with the judged one.
func (s *Store) Relock(ctx context.Context) error {
	if s.dir == nil && s.disk.frozen != nil { // no folder, and it cannot be created
		s.disk.unlocked = false
		return nil
	}
	if s.dir == nil {
		return reportMisuse("lock", s.o.Dir, "the store is closed")
	}

	began := time.Now()
	for wait := 2 * time.Millisecond; ; wait = min(wait*2, 50*time.Millisecond) {
		err := s.tryLock()
		switch {
		case err == nil:
			s.disk.unlocked = false
			s.forgetGens()
			s.freezeOnNewer()
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			return wrapIO("lock", s.o.Dir, err)
		}

		if s.o.Sleep(ctx, wait) != nil {
			return s.reportLocked(time.Since(began), context.Cause(ctx))
		}
	}
}

// tryLock locks the state folder, and the file that prelet 0.1.0 locks. It returns EWOULDBLOCK if another process has
// either.
func (s *Store) tryLock() error {
	const flags = unix.LOCK_EX | unix.LOCK_NB
	err := unix.Flock(s.dir.fd, flags)
	if err != nil {
		return err
	}

	older, err := openToRead(s.dir, lockName)
	if err != nil {
		return nil
	}
	if _, err := statOwned(s.dir, lockName); errors.Is(err, errForeignOwner) {
		_ = older.Close()
		return nil
	}
	if err := unix.Flock(int(older.Fd()), flags); err != nil {
		_ = older.Close()
		_ = unix.Flock(s.dir.fd, unix.LOCK_UN) // the first error matters
		return err
	}
	s.older = older

	return nil
}

func (s *Store) reportLocked(waited time.Duration, cause error) error {
	holder := ""
	if pid, ok := s.LockHolder(); ok {
		holder = ": process " + itoa(pid)
	}
	waited = waited.Round(10 * time.Millisecond)
	err := fmt.Errorf("%w%s; waited %s for it (%w)", ErrLocked, holder, waited, cause)

	return NewFault(fault.Locked, "lock", s.o.Dir, err, "wait until that run has ended, and try again")
}

// LockHolder returns the id of the process that holds the lock, from /proc/locks. It is false if no process holds it,
// and on file systems where stat returns another device number than that file, such as Btrfs.
func (s *Store) LockHolder() (pid int, ok bool) {
	if s.dir == nil {
		return 0, false
	}

	var st unix.Stat_t
	if unix.Fstat(s.dir.fd, &st) != nil {
		return 0, false
	}

	// A line is "1: FLOCK  ADVISORY  WRITE 4711 fd:01:1234 0 EOF".
	const line = `FLOCK +ADVISORY +WRITE +([0-9]+) %02x:%02x:%d `
	format := fmt.Sprintf(line, unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	locks, _ := os.ReadFile("/proc/locks") // if it cannot be read, no holder is found
	held := regexp.MustCompile(format).FindSubmatch(locks)
	if held == nil {
		return 0, false
	}
	pid, err := strconv.Atoi(string(held[1]))

	return pid, err == nil && pid > 0
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func readMonotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // never happens; 0 only makes a start look later than it was
	}

	return ts.Nano() / 1000
}

func itoa(n int) string { return strconv.Itoa(n) }
