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

// Links says which links a look goes through.
type Links int

const (
	// FollowNone is for what prelet writes: a link at or above it is an error, one at the end is what is there.
	FollowNone Links = iota
	// FollowTrusted is for what is read: a link is followed where nobody but root and this user could have put it.
	FollowTrusted
	// FollowAll follows and judges every link; its caller refuses what is Loose.
	FollowAll
)

// mostLinks is how many links one path may lead through, as in the kernel.
const mostLinks = 40

// Look is what is at a path, found without opening it: no device is armed, no FIFO waited for. Close it.
type Look struct {
	Stat  unix.Stat_t
	Loose *Loose // the first place on the way, the end included, that others may change; nil: none
	Above *Loose // the same of the folders above it, the nearest one without the pardon of a sticky bit
	// Closed is what lies in a folder that not everybody may enter. The root itself does not count: a copy of a node may lie
	// where it likes. Nor does the kubelet's folder: it is 0750 by the kubelet and 0700 by kubeadm, whatever lies there.
	Closed bool

	fd   int
	path string
}

// Look finds what is at a path below the root, name by name, so that nothing on the way is a link unless links says so. A link
// stays below the root. An error is a *fs.PathError that names the place as the node does.
func (r Root) Look(name string, links Links) (*Look, error) {
	root := string(r)
	if root == "" {
		root = "/"
	}
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: "/", Err: err}
	}
	w := walker{links: links, left: mostLinks, levels: []level{{fd: fd, path: "/"}}}
	defer w.close()
	return w.walk(name)
}

// Find looks for a file of this machine, which may be named from the working folder.
func Find(name string, links Links) (*Look, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	return Root("").Look(name, links)
}

// level is a folder on the way, open by O_PATH.
type level struct {
	fd    int
	path  string
	stat  unix.Stat_t
	loose *Loose // it or a folder above it
}

// kubeletDir is made by the kubelet (pkg/kubelet/kubelet.go, setupDataDirs) and by kubeadm, each with a mode of its own.
const kubeletDir = "/var/lib/kubelet"

func (l level) isClosed() bool { return l.stat.Mode&0o001 == 0 && l.path != kubeletDir }

type walker struct {
	links  Links
	left   int // links that may still be followed
	levels []level
	loose  *Loose // the first on the whole way, links included
}

func (w *walker) close() {
	for _, l := range w.levels {
		_ = unix.Close(l.fd) // only passed through
	}
}

func (w *walker) walk(name string) (*Look, error) {
	if err := w.judgeRoot(); err != nil {
		return nil, err
	}
	rest := split(name)
	for {
		for len(rest) > 0 && (rest[0] == "." || rest[0] == "..") {
			w.up(rest[0] == "..")
			rest = rest[1:]
		}
		top := w.levels[len(w.levels)-1]
		if len(rest) == 0 { // the folder that was reached
			rest = []string{"."}
		}
		at := path.Join(top.path, rest[0])
		fd, err := unix.Openat(top.fd, rest[0], unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: at, Err: err}
		}
		look := &Look{fd: fd, path: at, Loose: top.loose, Above: top.loose}
		if err := unix.Fstat(fd, &look.Stat); err != nil {
			look.Close()
			return nil, &fs.PathError{Op: "stat", Path: at, Err: err}
		}
		last := len(rest) == 1
		isLink := look.Stat.Mode&unix.S_IFMT == unix.S_IFLNK
		if look.Loose == nil {
			look.Loose = Judge(fd, at, &look.Stat, !last)
		}

		switch {
		case isLink && !(last && w.links == FollowNone):
			to, err := w.follow(at, look)
			look.Close()
			if err != nil {
				return nil, &fs.PathError{Op: "open", Path: at, Err: err}
			}
			w.loose = cmp.Or(w.loose, look.Loose)
			for path.IsAbs(to) && len(w.levels) > 1 {
				w.up(true)
			}
			rest = append(split(to), rest[1:]...)
		case last:
			look.Loose = cmp.Or(w.loose, look.Loose)
			look.Closed = slices.ContainsFunc(w.levels[1:], level.isClosed)
			if look.Above == nil {
				look.Above = Judge(top.fd, top.path, &top.stat, false)
			}
			return look, nil
		case look.Stat.Mode&unix.S_IFMT != unix.S_IFDIR:
			look.Close()
			return nil, &fs.PathError{Op: "open", Path: at, Err: unix.ENOTDIR}
		default:
			w.levels = append(w.levels, level{fd, at, look.Stat, look.Loose})
			rest = rest[1:]
		}
	}
}

func (w *walker) judgeRoot() error {
	root := &w.levels[0]
	if err := unix.Fstat(root.fd, &root.stat); err != nil {
		return &fs.PathError{Op: "stat", Path: "/", Err: err}
	}
	root.loose = Judge(root.fd, "/", &root.stat, true)
	return nil
}

// up leaves the folder at the end, unless it is the root.
func (w *walker) up(leave bool) {
	if last := len(w.levels) - 1; leave && last > 0 {
		_ = unix.Close(w.levels[last].fd) // only passed through
		w.levels = w.levels[:last]
	}
}

// follow reads where the link at a path leads, if this look may go there.
func (w *walker) follow(at string, link *Look) (string, error) {
	switch {
	case w.links == FollowNone:
		return "", fmt.Errorf("%s is a link, and prelet follows none where it writes: name the real path in the site", at)
	case w.links == FollowTrusted && link.Loose != nil:
		return "", fmt.Errorf("it is a link that others may have put there, for %w", link.Loose)
	case w.left == 0:
		return "", unix.ELOOP
	}
	w.left--
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(link.fd, "", buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func split(p string) []string {
	return strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
}

// Close forgets what was found.
func (l *Look) Close() { _ = unix.Close(l.fd) } // never read from

// Mode is the kind of what was found, and its permissions.
func (l *Look) Mode() fs.FileMode {
	m := fs.FileMode(l.Stat.Mode & 0o777)
	for bit, v := range map[uint32]fs.FileMode{unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky} {
		if l.Stat.Mode&bit != 0 {
			m |= v
		}
	}
	switch l.Stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		m |= fs.ModeDir
	case unix.S_IFLNK:
		m |= fs.ModeSymlink
	case unix.S_IFIFO:
		m |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		m |= fs.ModeSocket
	default:
		m |= fs.ModeDevice
	}
	return m
}

// ReadFile reads a regular file of this machine, max bytes at most. Unlike os.ReadFile it never waits, as for the writer of a
// FIFO. Links are followed: it is for files of prelet's own, and for those that somebody named.
func ReadFile(name string, max int64) ([]byte, error) {
	look, err := Find(name, FollowAll)
	if err != nil {
		return nil, err
	}
	defer look.Close()
	return look.Read(max)
}

// Open opens the regular file that was found, and nothing else.
func (l *Look) Open() (*os.File, error) {
	if m := l.Mode(); !m.IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: l.path, Err: fmt.Errorf("it is a %s, not a file", KindOf(m))}
	}
	return l.reopen(unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY)
}

// Names lists the folder that was found, at most n names.
func (l *Look) Names(n int) ([]string, error) {
	f, err := l.reopen(unix.O_RDONLY | unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

// Read reads the regular file that was found: max bytes at most.
func (l *Look) Read(max int64) ([]byte, error) {
	f, err := l.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, max+1))
	switch {
	case err != nil:
		return nil, &fs.PathError{Op: "read", Path: l.path, Err: fileError(err)}
	case int64(len(b)) > max:
		return nil, &fs.PathError{Op: "read", Path: l.path, Err: fmt.Errorf("it has more than %d bytes", max)}
	}
	return b, nil
}

// reopen opens for reading what was found, whatever its name means by now.
func (l *Look) reopen(flags int) (*os.File, error) {
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(l.fd), flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: l.path, Err: err}
	}
	return os.NewFile(uintptr(fd), l.path), nil
}

// fileError is an error without the path in it.
func fileError(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
