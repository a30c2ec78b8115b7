package nodefile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Links determines which links a look follows.
type Links int

const (
	// FollowNone is for files that prelet writes: a link above the path is an error, and one at its end is the result.
	FollowNone Links = iota
	// FollowAbove follows and checks every link above the path; one at its end is the result.
	FollowAbove
	// FollowTrusted is for files that prelet reads: it follows a link that only root or this user could have made.
	FollowTrusted
	// FollowAll follows and checks every link. The caller refuses a result that is Loose.
	FollowAll
)

// maxLinks is how many links one path may lead through, as in the kernel.
const maxLinks = 40

// Look is the file or folder at a path, found without opening it, so that no device is touched and no FIFO waits. The
// caller closes it.
type Look struct {
	Stat  unix.Stat_t
	Loose *Loose  // the first place of the path, its end included, that other users may change; nil: none
	Above *Loose  // the same of the folders above; in the nearest one a sticky bit does not help
	above []level // the folders that the path leads through, the root first
	fd    int
	root  Root
	path  string
}

// Look finds the file at a path below the root, name by name, and follows links as links allows. A link stays below the
// root. An error is a *fs.PathError with the path on the node.
func (r Root) Look(name string, links Links) (*Look, error) {
	return within(r.Path(name), name, func(c *call) (*Look, error) {
		return r.look(name, links, c)
	})
}

func (r Root) look(name string, links Links, reached *call) (*Look, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err := unix.Open(cmp.Or(string(r), "/"), flags, 0)
	if err != nil {
		return nil, pathError("open", "/", err)
	}
	w := walker{
		root:   r,
		call:   reached,
		links:  links,
		left:   maxLinks,
		levels: []level{{fd: fd, path: "/"}},
	}

	root := w.top()
	if err := unix.Fstat(root.fd, &root.stat); err != nil {
		w.close()
		return nil, pathError("stat", "/", err)
	}
	root.loose = FindLoose(root.fd, "/", &root.stat, true)

	look, err := w.walk(name)
	if err != nil {
		w.close()
		return nil, err
	}
	look.above = w.levels
	look.Loose = look.Loose.below(r)
	look.Above = look.Above.below(r)

	return look, nil
}

// Find looks for a file of this machine. The name may be relative to the working folder.
func Find(name string, links Links) (*Look, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}

	return Root("").Look(name, links)
}

// level is a folder of the path, opened with O_PATH.
type level struct {
	fd    int
	path  string
	stat  unix.Stat_t
	loose *Loose // the folder or one above it
}

// kubeletDir is created by the kubelet (pkg/kubelet/kubelet.go, setupDataDirs) and by kubeadm, with different modes.
const kubeletDir = "/var/lib/kubelet"

func (l level) close() { _ = unix.Close(l.fd) }

// isClosed reports whether somebody may not pass a folder.
func (l level) isClosed() bool {
	return l.path != kubeletDir && !isForAll(l.fd, &l.stat, aclExecute)
}

// walker walks a path below a root.
type walker struct {
	root   Root
	call   *call
	links  Links
	left   int // links that may still be followed
	levels []level
	loose  *Loose // the first of the whole path, links included
}

func (w *walker) close() {
	for _, l := range w.levels {
		l.close()
	}
}

func (w *walker) top() *level {
	return &w.levels[len(w.levels)-1]
}

func (w *walker) walk(name string) (*Look, error) {
	rest := splitPath(name)
	for {
		for len(rest) > 0 && (rest[0] == "." || rest[0] == "..") {
			if rest[0] == ".." {
				w.leave()
			}
			rest = rest[1:]
		}
		if len(rest) == 0 { // the path ends at this folder
			rest = []string{"."}
		}

		isLast := len(rest) == 1
		look, err := w.find(rest[0], isLast)
		if err != nil {
			return nil, err
		}

		kind := look.Stat.Mode & unix.S_IFMT
		isResult := isLast && (kind != unix.S_IFLNK || w.links <= FollowAbove)
		switch {
		case isResult:
			look.Loose = cmp.Or(w.loose, look.Loose)
			if look.Above == nil {
				top := w.top()
				look.Above = FindLoose(top.fd, top.path, &top.stat, false)
			}
			return look, nil
		case kind == unix.S_IFLNK:
			to, err := w.follow(look)
			look.Close()
			if err != nil {
				return nil, pathError("open", look.path, err)
			}
			rest = append(splitPath(to), rest[1:]...)
		case kind == unix.S_IFDIR:
			next := level{look.fd, look.path, look.Stat, look.Loose}
			w.levels = append(w.levels, next)
			rest = rest[1:]
		default:
			look.Close()
			return nil, pathError("open", look.path, unix.ENOTDIR)
		}
	}
}

// find finds a name in the present folder.
func (w *walker) find(name string, isLast bool) (*Look, error) {
	top := w.top()
	at := path.Join(top.path, name)
	unanswered.reach(w.call, w.root.Path(at))
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(top.fd, name, flags, 0)
	if err != nil {
		return nil, pathError("open", at, err)
	}

	look := &Look{
		fd:    fd,
		root:  w.root,
		path:  at,
		Loose: top.loose,
		Above: top.loose,
	}
	if err := unix.Fstat(fd, &look.Stat); err != nil {
		look.Close()
		return nil, pathError("stat", at, err)
	}
	if look.Loose == nil {
		look.Loose = FindLoose(fd, at, &look.Stat, !isLast)
	}

	return look, nil
}

// leave returns to the folder above, unless this is the root.
func (w *walker) leave() {
	if len(w.levels) > 1 {
		w.top().close()
		w.levels = w.levels[:len(w.levels)-1]
	}
}

// follow returns the target of a link, if it may be followed. For an absolute target it returns to the root.
func (w *walker) follow(link *Look) (string, error) {
	switch {
	case w.links == FollowNone:
		return "", linkError(link.path)
	case w.links == FollowTrusted && link.Loose != nil:
		return "", fmt.Errorf("it is a link that other users may have made, because %w", link.Loose)
	case w.left == 0:
		return "", unix.ELOOP
	}
	w.left--
	w.loose = cmp.Or(w.loose, link.Loose)

	to, err := link.readLink()
	if err != nil {
		return "", stripPath(err)
	}
	for path.IsAbs(to) && len(w.levels) > 1 {
		w.leave()
	}

	return to, nil
}

// linkError is unix.ELOOP for the path of a link that is not followed.
type linkError string

func (e linkError) Error() string {
	return string(e) + " is a link, and prelet writes through none: name the real path in the site"
}

// Is implements errors.Is.
func (linkError) Is(target error) bool { return target == unix.ELOOP }

func splitPath(p string) []string {
	return strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
}

// Close releases the file.
func (l *Look) Close() {
	_ = unix.Close(l.fd)
	for _, above := range l.above {
		above.close()
	}
}

// IsPublic reports whether each user of the node may read the file, so that its content may be shown and recorded:
// everyone may read it, and pass each folder above it. The root itself does not count, because a copy of a node may be
// in any folder. Neither does the kubelet's folder, which the kubelet makes 0750 and kubeadm 0700.
func (l *Look) IsPublic() bool {
	isPublic, err := inLook(l, func() (bool, error) {
		return isForAll(l.fd, &l.Stat, aclRead) && !slices.ContainsFunc(l.above[1:], level.isClosed), nil
	})

	return err == nil && isPublic
}

// FindLooseFolders checks each folder of a path to a folder. plan changes the state of those that are planned
// otherwise.
func (l *Look) FindLooseFolders(plan func(path string, st *unix.Stat_t)) (loose []*Loose) {
	all := append(slices.Clone(l.above), level{fd: l.fd, path: l.path, stat: l.Stat})
	for i, folder := range all {
		plan(folder.path, &folder.stat)
		isPassed := i < len(all)-1
		if one := FindLoose(folder.fd, folder.path, &folder.stat, isPassed); one != nil {
			loose = append(loose, one)
		}
	}

	return loose
}

// OpenFolder opens the folder that was found.
func (l *Look) OpenFolder() (fd int, err error) { return inLook(l, l.openFolder) }

func (l *Look) openFolder() (fd int, err error) {
	if l.Mode()&fs.ModeSymlink != 0 {
		return -1, pathError("open", l.path, linkError(l.path))
	}
	fd, err = unix.Openat(l.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, pathError("open", l.path, stripPath(err))
	}

	return fd, nil
}

// Path returns the path on the node, without the links that were followed.
func (l *Look) Path() string { return l.path }

// Target returns where the link that was found leads.
func (l *Look) Target() (string, error) { return inLook(l, l.readLink) }

func (l *Look) readLink() (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(l.fd, "", buf)
	if err != nil {
		return "", pathError("readlink", l.path, err)
	}

	return string(buf[:n]), nil
}

// Mode returns the kind of the file and its permissions.
func (l *Look) Mode() fs.FileMode {
	m := fs.FileMode(l.Stat.Mode & 0o777)
	bits := map[uint32]fs.FileMode{
		unix.S_ISUID: fs.ModeSetuid,
		unix.S_ISGID: fs.ModeSetgid,
		unix.S_ISVTX: fs.ModeSticky,
	}
	for bit, v := range bits {
		if l.Stat.Mode&bit != 0 {
			m |= v
		}
	}

	switch l.Stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return m
	case unix.S_IFDIR:
		return m | fs.ModeDir
	case unix.S_IFLNK:
		return m | fs.ModeSymlink
	case unix.S_IFIFO:
		return m | fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return m | fs.ModeSocket
	}

	return m | fs.ModeDevice
}

// ReadFile reads a regular file of this machine, at most limit bytes. Unlike os.ReadFile it never waits, for example
// for the writer of a FIFO. It follows links, and is meant for prelet's own files and for those that a user named.
func ReadFile(name string, limit int64) ([]byte, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}

	return Root("").ReadFile(name, limit)
}

// ReadFile is the function ReadFile for a file below the root. A link stays below the root.
func (r Root) ReadFile(name string, limit int64) ([]byte, error) {
	look, err := r.Look(name, FollowAll)
	if err != nil {
		return nil, err
	}
	defer look.Close()

	return look.Read(limit)
}

// ErrNoFile is the end of the error for a path that is neither a file nor a link to one, such as a folder.
var ErrNoFile = errors.New("not a file")

// Open opens the file that was found if it is a regular file. Reads of it are not bounded, so the caller reads it in
// Within.
func (l *Look) Open() (*os.File, error) { return inLook(l, l.open) }

func (l *Look) open() (*os.File, error) {
	if m := l.Mode(); !m.IsRegular() {
		return nil, pathError(
			"open",
			l.path,
			fmt.Errorf("it is a %s, %w", KindOf(m), ErrNoFile),
		)
	}

	return l.reopen()
}

// Names returns at most n names in the folder that was found.
func (l *Look) Names(n int) ([]string, error) {
	return inLook(l, func() ([]string, error) { return l.names(n) })
}

func (l *Look) names(n int) ([]string, error) {
	fd, err := l.openFolder()
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), l.path)
	defer f.Close()

	names, err := f.Readdirnames(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}

	return names, err
}

// Names returns at most n names in a folder below the root. It follows all links, also those of other users.
func (r Root) Names(dir string, n int) ([]string, error) {
	look, err := r.Look(dir, FollowAll)
	if err != nil {
		return nil, err
	}
	defer look.Close()

	return look.Names(n)
}

// ErrTooLarge is in the error of a file that has more bytes than its limit.
var ErrTooLarge = errors.New("it has more than")

// Read reads the regular file that was found, at most limit bytes.
func (l *Look) Read(limit int64) ([]byte, error) {
	return inLook(l, func() ([]byte, error) { return l.read(limit) })
}

func (l *Look) read(limit int64) ([]byte, error) {
	f, err := l.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()

	return l.readAll(f, limit)
}

// readAll reads the opened file, at most limit bytes.
func (l *Look) readAll(f *os.File, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%w %d bytes", ErrTooLarge, limit)
	}
	if err != nil {
		return nil, pathError("read", l.path, stripPath(err))
	}

	return b, nil
}

// ErrNoProc is in the error of a file that exists and cannot be opened because /proc is not mounted.
var ErrNoProc = errors.New("/proc is not mounted")

// reopen opens the file that was found for reading, even if its name means another file by now.
func (l *Look) reopen() (*os.File, error) {
	const folder = "/proc/self/fd/"
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Open(folder+strconv.Itoa(l.fd), flags, 0)
	if errors.Is(err, unix.ENOENT) && unix.Access(folder, unix.F_OK) != nil {
		err = ErrNoProc // not a missing file
	}
	if err != nil {
		return nil, pathError("open", l.path, stripPath(err))
	}

	return os.NewFile(uintptr(fd), l.path), nil
}

// inLook reads the found file, within Patience.
func inLook[T any](l *Look, read func() (T, error)) (T, error) {
	return within(l.root.Path(l.path), l.path, func(*call) (T, error) { return read() })
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}
