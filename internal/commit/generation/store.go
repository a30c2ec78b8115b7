package generation

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

// Options say where a Store works, and give it clock and identity of the boot.
type Options struct {
	Root   string           // folder below which target paths are resolved; "" or "/" is the real root
	Dir    string           // the state folder, such as /var/lib/prelet, Root already included
	Now    func() time.Time // wall clock; nil is time.Now
	BootID string           // identity of this boot
	Mono   func() int64     // CLOCK_MONOTONIC in microseconds; nil reads it

	// Sleep waits between two tries to take the lock, or returns an error when ctx is done; nil sleeps in real time.
	Sleep func(ctx context.Context, d time.Duration) error

	// Fault is called before every operation that changes anything, with its name and object. An error is taken for the
	// operation's own. For tests; nil in production.
	Fault func(op, path string) error

	fsync func(fd int) error // nil is fsync(2); tests of thousands of crashes have a model of it
}

// Store is the generations of one node. It is not safe for concurrent use; two processes are kept apart by the lock.
type Store struct {
	o      Options
	disk   *disk
	tree   *tree
	dir    *folder // nil: read-only and the folder does not exist
	gens   *folder // nil: no generation yet
	lockFD int     // -1: none. A plain descriptor: no collector closes it, and so drops the lock
	locked bool
	frozen error // why nothing can be written, although the lock may be held: the file system of the folder is read-only
}

const gensName = "generations"

func newStore(o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Mono == nil {
		o.Mono = monotonic
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	d := &disk{fault: o.Fault, fsync: o.fsync}
	if d.fsync == nil {
		d.fsync = unix.Fsync
	}
	o.Dir = filepath.Clean(o.Dir)
	if !filepath.IsAbs(o.Dir) || o.Dir == "/" {
		return nil, NewFault(fault.Internal, "open", o.Dir, errors.New("the state folder is not an absolute path"), "")
	}
	t, err := newTree(o.Root)
	if err != nil {
		return nil, err
	}
	return &Store{o: o, disk: d, tree: t, lockFD: -1}, nil
}

// Open makes the state folder if it is missing and takes the lock, waiting until ctx is done. Then it is an Error with
// fault.Locked that wraps ErrLocked. The caller calls Recover next.
//
// On a read-only file system the store opens as well, and ReadOnly says why it cannot be written: what it holds can
// be read and compared, under the lock, and Recover has nothing to do unless a commit was interrupted.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	if err = s.openDir(); err == nil {
		err = s.Relock(ctx)
	}
	if err != nil {
		_ = s.Close() // nothing was done yet; the first error counts
		return nil, err
	}
	return s, nil
}

// OpenReadOnly opens the store to look at: no lock, no writes, and the state folder may be missing. What it tells may be
// overtaken at any time. A state folder that we may not read is an error, not an empty one.
func OpenReadOnly(o Options) (*Store, error) {
	o.Fault = func(op, p string) error {
		return NewFault(fault.Internal, op, p, errors.New("the store was opened to look at"), "")
	}
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	if s.dir, err = openReal(s.o.Dir); errors.Is(err, unix.ENOENT) {
		return s, nil
	} else if err == nil {
		err = s.openGens()
	}
	if err != nil {
		_ = s.Close() // nothing was done yet; the first error counts
		return nil, err
	}
	return s, nil
}

func openReal(p string) (*folder, error) {
	fd, err := unix.Open(p, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, wrap(fault.CannotWrite, "open", p, err)
	}
	return &folder{fd: fd, path: p}, nil
}

func openIn(in *folder, base string) (*folder, error) {
	fd, err := unix.Openat(in.fd, base, openFolder, 0)
	if err != nil {
		return nil, wrap(fault.CannotWrite, "open", in.name(base), err)
	}
	return &folder{fd: fd, path: in.name(base)}, nil
}

// openDir opens the state folder, makes what is missing of it, and takes away what others may do in it.
func (s *Store) openDir() (err error) {
	if s.dir, err = openReal(s.o.Dir); errors.Is(err, unix.ENOENT) {
		s.dir, err = s.makeReal(s.o.Dir, 0o700)
		err = s.freezeOn(err)
	}
	if err != nil {
		return err
	}
	if s.dir == nil {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(s.dir.fd, &st); err != nil {
		return wrap(fault.CannotWrite, "stat", s.o.Dir, err)
	}
	if isOthers(st) {
		return NewFault(fault.CannotWrite, "open", s.o.Dir, fmt.Errorf("the state folder belongs to uid %d", st.Uid), "chown it to root after looking at what is in it")
	}
	if st.Mode&0o077 != 0 {
		err := s.disk.do(opChmod, s.o.Dir, func() error { return unix.Fchmod(s.dir.fd, 0o700) })
		if err = s.freezeOn(err); err != nil {
			return err
		}
	}
	for _, n := range []string{lockName, gensName} { // each other file is judged when it is read
		if err := checkOwner(s.dir, n); err != nil {
			return NewFault(fault.CannotWrite, "open", s.dir.name(n), err,
				"find out who made it; then move it away, or, if it is prelet's, chown it to root")
		}
	}
	s.lockFD, err = s.openLock()
	if err = s.freezeOn(err); err == nil && s.lockFD < 0 {
		s.lockFD, err = s.openFrozenLock()
	}
	return err
}

// isOthers says whether something belongs neither to root nor to this user.
func isOthers(st unix.Stat_t) bool { return st.Uid != 0 && st.Uid != uint32(unix.Geteuid()) }

// errOthers is that another user has made what has the name of a file of ours.
var errOthers = errors.New("the folder is root's")

// checkOwner refuses what others have put into the state folder while its mode let them: a journal is finished, and a
// generation comes back, without asking anybody. That the mode is right by now tells nothing: systemd-tmpfiles sets it.
func checkOwner(f *folder, name string) error {
	var st unix.Stat_t
	if unix.Fstatat(f.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && isOthers(st) { // else it went meanwhile
		return fmt.Errorf("it belongs to uid %d, and %w", st.Uid, errOthers)
	}

	return nil
}

// freezeOn takes a read-only file system for a store that cannot be written, and passes any other error on.
func (s *Store) freezeOn(err error) error {
	if !errors.Is(err, unix.EROFS) {
		return err
	}

	s.frozen = wrap(fault.CannotWrite, "write", s.o.Dir, unix.EROFS)
	s.disk.frozen = s.frozen

	return nil
}

// openFrozenLock opens the lock on a read-only file system, or the folder itself where there never was one: flock(2)
// asks for no right to write.
func (s *Store) openFrozenLock() (int, error) {
	fd, err := unix.Openat(s.dir.fd, lockName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		fd, err = unix.Openat(s.dir.fd, ".", openFolder, 0)
	}
	if err != nil {
		return -1, wrap(fault.CannotWrite, "open", s.dir.name(lockName), err)
	}

	return fd, nil
}

// ReadOnly is why nothing can be written: a Fault with fault.CannotWrite, the state folder and the next step. Nil
// when the store can be written, as far as could be seen when it was opened, and for one that was opened to look at.
func (s *Store) ReadOnly() error { return s.frozen }

func (s *Store) openLock() (int, error) {
	p := s.dir.name(lockName)
	fd, err := unix.Openat(s.dir.fd, lockName, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		err = s.disk.do(opCreate, p, func() (err error) {
			fd, err = unix.Openat(s.dir.fd, lockName, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
			return err
		})
	}
	if err != nil {
		return -1, wrap(fault.CannotWrite, "open", p, err)
	}
	return fd, nil
}

// makeReal makes a folder and those above it, outside of the target tree.
func (s *Store) makeReal(p string, mode uint32) (*folder, error) {
	up, err := openReal(filepath.Dir(p))
	if errors.Is(err, unix.ENOENT) {
		up, err = s.makeReal(filepath.Dir(p), 0o755)
	}
	if err != nil {
		return nil, err
	}
	defer up.close()
	if err := s.disk.mkdir(up, filepath.Base(p), mode); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	if err := s.disk.sync(up); err != nil {
		return nil, err
	}
	return openReal(p)
}

// openGens opens the folder of generations if it is there.
func (s *Store) openGens() error {
	if s.gens != nil || s.dir == nil {
		return nil
	}
	f, err := openIn(s.dir, gensName)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	s.gens = f
	return err
}

// Close gives the lock back and closes everything. The store is of no use afterwards.
func (s *Store) Close() error {
	var err error
	if s.lockFD >= 0 {
		err = unix.Close(s.lockFD)
	}
	s.lockFD, s.locked = -1, false
	for _, f := range []*folder{s.gens, s.dir, s.tree.root} {
		if f != nil {
			f.close()
		}
	}
	s.gens, s.dir = nil, nil
	s.tree.root = &folder{fd: -1, path: "/"}
	return wrap(fault.Internal, "close", s.o.Dir, err)
}

// Unlock lets other processes write. Until Relock nothing can be written here. To be called before waiting for anything.
func (s *Store) Unlock() error {
	if err := s.mayWrite("unlock"); err != nil {
		return err
	}
	s.locked = false
	if s.lockFD < 0 {
		return nil
	}
	return wrap(fault.Internal, "unlock", s.o.Dir, unix.Flock(s.lockFD, unix.LOCK_UN))
}

// Relock takes the lock again, waiting until ctx is done. What was known before may no longer be so: the caller compares the
// journal with the one that it judged.
func (s *Store) Relock(ctx context.Context) error {
	if s.lockFD < 0 && s.frozen != nil { // no folder, and nobody can make one
		s.locked = true
		return nil
	}
	if s.lockFD < 0 {
		return s.mayWrite("lock")
	}
	wait, began := 2*time.Millisecond, time.Now()
	for {
		err := unix.Flock(s.lockFD, unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			s.locked = true
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			return wrap(fault.CannotWrite, "lock", s.dir.name(lockName), err)
		}
		if s.o.Sleep(ctx, wait) != nil {
			return NewFault(fault.Locked, "lock", s.dir.name(lockName), &lockedError{s.holder(), time.Since(began), context.Cause(ctx)}, "wait until it has ended, and try again")
		}
		wait = min(wait*2, 50*time.Millisecond)
	}
}

// mayWrite refuses what needs the lock when it is not held.
func (s *Store) mayWrite(op string) error {
	if s.locked {
		return nil
	}
	return NewFault(fault.Internal, op, s.o.Dir, errors.New("the lock is not held"), "")
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // the clock is always there; zero only makes a start look later than it was
	}
	return ts.Nano() / 1000
}
