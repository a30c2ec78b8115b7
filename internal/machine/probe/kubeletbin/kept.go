package kubeletbin

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// VersionCache is the output of the kubelet's binary that apply keeps, so that a boot need not start it. It is valid
// for one file.
type VersionCache struct {
	nodefile.Identity                  // the path is below the root
	Version           string           `json:"version"`
	Accepts           *tape.AcceptsAns `json:"accepts,omitempty"`
	// Accepted is the digest of the words and files in place, which this binary accepts: see DryRun.
	Accepted string `json:"accepted,omitempty"`
}

// Marshal encodes the cache.
func (c VersionCache) Marshal() ([]byte, error) { return json.Marshal(c) }

// Binary is the kubelet on this image.
type Binary struct {
	file       string
	now        nodefile.Identity
	kept       *VersionCache // the cache of this file; nil: none
	isConfined bool          // the program of another root
}

// dirs returns the folders that are searched for a kubelet that the unit does not name, in this order.
func dirs() []string {
	return []string{"/usr/bin", "/usr/local/bin", "/opt/bin"}
}

// Find returns the binary below a root, with its part of the cache file; nil if there is none. command has the words
// with which the kubelet's unit starts it, nil if they are not known. A program of another name, such as a shell, is
// not the kubelet and must not be started.
func Find(root, cache string, command []string) *Binary {
	found, _ := find(root, cache, "kubelet", command)

	return found
}

// FindRuntime is Find for containerd. It fails if the unit starts another program: a script may start any containerd,
// with options of its own.
func FindRuntime(root string, command []string) (*Binary, error) {
	const name = "containerd"
	if len(command) > 0 && filepath.Base(command[0]) != name {
		return nil, fmt.Errorf("it starts %s, and not containerd itself, which alone is asked", command[0])
	}
	found, _ := find(root, "", name, command)

	return found, nil
}

// find is Find. unread is the error of a place where there may be one, on a file system that does not answer.
func find(root, cache, name string, command []string) (found *Binary, unread error) {
	var paths []string
	if len(command) > 0 && filepath.IsAbs(command[0]) && filepath.Base(command[0]) == name {
		paths = append(paths, filepath.Clean(command[0]))
	}
	for _, dir := range dirs() {
		paths = append(paths, filepath.Join(dir, name))
	}

	for _, p := range paths {
		file, err := locate(root, p)
		var now nodefile.Identity
		if err == nil {
			now, err = describe(file, p)
		}
		if err != nil {
			if errors.As(err, new(*nodefile.NoAnswerError)) {
				unread = err
			}
			continue
		}

		return &Binary{
			file:       file,
			now:        now,
			kept:       readKept(cache, now),
			isConfined: root != "",
		}, nil
	}

	return nil, unread
}

// At returns the binary at a path of this machine. It is not looked up in a cache.
func At(name string) (*Binary, error) {
	file, err := filepath.Abs(name) // it is started in another folder
	if err != nil {
		return nil, err
	}
	now, err := describe(file, name)
	if err != nil {
		return nil, err
	}

	return &Binary{file: file, now: now}, nil
}

// locate returns the file of a path below a root. A link there leads to another file below it; it fails if there is
// none.
func locate(root, p string) (file string, err error) {
	if root == "" {
		return p, nil
	}
	look, err := nodefile.Root(root).Look(p, nodefile.FollowAll)
	if err != nil {
		return "", err
	}
	defer look.Close()

	return filepath.Join(root, look.Path()), nil
}

// readKept reads the cache of a file. It returns nil for the cache of another file, and if other users may have
// written it.
func readKept(cache string, now nodefile.Identity) *VersionCache {
	look, err := nodefile.FindTrusted(cache)
	if err != nil {
		return nil
	}
	defer look.Close()

	var kept VersionCache

	text, err := look.Read(nodefile.Max)
	if err != nil || json.Unmarshal(text, &kept) != nil {
		return nil
	}

	if kept.Version == "" || kept.Identity != now {
		return nil
	}

	return &kept
}

// describe describes an executable file, which has a path below the root. It follows links. It opens the file, too: the
// kernel may have the state of a file on a mount that does not answer, and nothing bounds the start of such a program.
func describe(file, path string) (nodefile.Identity, error) {
	st, err := nodefile.Within(file, func() (st unix.Stat_t, err error) {
		err = unix.Stat(file, &st)
		if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			return st, err
		}
		fd, failed := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if failed == nil { // a program may be executable only
			_, _ = unix.Pread(fd, make([]byte, 1), 0)
			_ = unix.Close(fd)
		}

		return st, nil
	})
	switch {
	case err != nil:
		return nodefile.Identity{}, err
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nodefile.Identity{}, errors.New("not a program: it is not a regular file")
	case st.Mode&0o111 == 0:
		return nodefile.Identity{}, errors.New("not a program: it is not executable")
	}

	return nodefile.Identify(path, &st), nil
}

// Accepted returns the digest of the words and files in place, if this file accepts them; "" for none.
func (b *Binary) Accepted() string {
	if b.kept == nil {
		return ""
	}

	return b.kept.Accepted
}

// File returns the binary's path on this machine.
func (b *Binary) File() string { return b.file }

// Path returns the binary's path below the root.
func (b *Binary) Path() string { return b.now.Path }

// Keep returns the new cache for an output of the binary. It returns false if the file was replaced since Find,
// because the output may be of either file.
func (b *Binary) Keep(version string, accepts *tape.AcceptsAns) (VersionCache, bool) {
	return VersionCache{b.now, version, accepts, b.Accepted()}, !b.IsReplaced()
}

// IsReplaced reports whether the file is another one than at Find.
func (b *Binary) IsReplaced() bool {
	now, err := describe(b.file, b.now.Path)

	return err != nil || now != b.now
}
