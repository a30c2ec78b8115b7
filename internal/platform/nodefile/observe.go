package nodefile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

// Kind is the kind of a managed file. The zero Kind is "absent".
type Kind string

// The kinds of a managed file. Everything else (links, pipes, devices) is refused.
const (
	Absent Kind = ""
	File   Kind = "file"
	Dir    Kind = "dir"
)

// FileState is the state of a managed file: as it was, is, or is planned. The zero FileState is "absent".
type FileState struct {
	Kind   Kind              `json:"kind,omitempty"`
	SHA256 string            `json:"sha256,omitempty"` // of a file's content, 64 hex digits
	Size   int64             `json:"size,omitempty"`   // of a file, bytes
	Mode   uint32            `json:"mode,omitempty"`   // permission bits with setuid, setgid, sticky: 07777
	UID    int               `json:"uid,omitempty"`
	GID    int               `json:"gid,omitempty"`
	Xattrs map[string][]byte `json:"xattrs,omitempty"` // of a file
}

// Equal reports whether both have the same kind, content, mode and owner. It does not compare extended attributes.
func (s FileState) Equal(o FileState) bool {
	return s.HasContentOf(o) && s.Mode == o.Mode && s.HasOwnerOf(o)
}

// HasContentOf reports whether both have the same kind and, for files, the same bytes.
func (s FileState) HasContentOf(o FileState) bool {
	return s.Kind == o.Kind && s.SHA256 == o.SHA256
}

// HasOwnerOf reports whether both have the same owner and group.
func (s FileState) HasOwnerOf(o FileState) bool {
	return s.UID == o.UID && s.GID == o.GID
}

// IsUnreadable reports whether it is a file whose content could not be read: see UnreadableError.
func (s FileState) IsUnreadable() bool { return s.Kind == File && s.SHA256 == "" }

// UnreadableError is in the error of a file that exists and whose content cannot be read, as of a bad sector. A new
// file can take its name.
type UnreadableError struct{ Err error }

func (e *UnreadableError) Error() string { return "its content cannot be read: " + e.Err.Error() }

func (e *UnreadableError) Unwrap() error { return e.Err }

// markUnreadable makes the error of reading a regular file that was found an UnreadableError, unless it is about this
// process, or the file system does not answer.
func markUnreadable(path string, err error) error {
	for _, other := range []error{
		fs.ErrPermission, fs.ErrNotExist, ErrNoProc, ErrTooLarge,
		unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EINTR, unix.EAGAIN,
	} {
		if errors.Is(err, other) {
			return err
		}
	}
	if errors.As(err, new(*NoAnswerError)) {
		return err
	}

	return pathError("read", path, &UnreadableError{stripPath(err)})
}

// Checksum returns the SHA-256 of contents, in hex.
func Checksum(b []byte) string {
	h := sha256.Sum256(b)

	return hex.EncodeToString(h[:])
}

// State returns the state of the file that was found, without its content. A link or a device counts as a file.
func (l *Look) State() FileState {
	kind := File
	if l.Mode().IsDir() {
		kind = Dir
	}

	return FileState{
		Kind: kind,
		Mode: l.Stat.Mode & 0o7777,
		UID:  int(l.Stat.Uid),
		GID:  int(l.Stat.Gid),
	}
}

// Observe returns the state of the found file, and the content of a file of at most limit bytes. Anything but a folder
// or a regular file, a larger file, and an unreadable file are errors, with the part of the state that is known.
func (l *Look) Observe(limit int64) (FileState, []byte, error) {
	out := l.State()
	mode := l.Mode()
	switch {
	case mode.IsDir():
		return out, nil, nil
	case !mode.IsRegular():
		return out, nil, fmt.Errorf(
			"it is a %s: prelet replaces files and folders only, and follows no links. "+
				"Remove it, or name another path",
			KindOf(mode),
		)
	case l.Stat.Size > limit:
		return out, nil, fmt.Errorf("it has %d bytes, more than a configuration file may have", l.Stat.Size)
	}

	type content struct {
		text       []byte
		attributes map[string][]byte
	}
	read, err := inLook(l, func() (c content, err error) {
		f, err := l.open()
		if err != nil {
			return c, err
		}
		defer f.Close()
		if c.text, err = l.readAll(f, limit); err != nil {
			return c, err
		}
		if c.attributes, err = listAttributes(int(f.Fd())); err != nil {
			return c, pathError("read attributes of", l.path, err)
		}

		return c, nil
	})
	if err != nil {
		return out, nil, markUnreadable(l.path, err)
	}
	out.SHA256 = Checksum(read.text)
	out.Size = int64(len(read.text))
	out.Xattrs = read.attributes

	return out, read.text, nil
}

// Observed is a managed file as plans see it.
type Observed struct {
	FileState
	Content []byte
	Empty   bool // a folder without entries
	Public  bool // everyone may read it, see Look.IsPublic
	// Attributes are the extended attributes of a file that prelet does not keep in each case, see HowKept.
	Attributes []string
}

// Observe returns a path of the node as it is, with the content of a file of at most limit bytes. It follows no link,
// and reads nothing in a folder that other users may write to. With an error, the result has the part that is known;
// the error wraps fs.ErrPermission if this user may not read the path.
func (r Root) Observe(path string, limit int64) (o Observed, err error) {
	look, err := r.Look(path, FollowNone)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	defer look.Close()

	o.Public = look.IsPublic()
	if look.Above != nil {
		o.FileState = look.State()
		return o, fmt.Errorf(
			"the folder %w, who could replace it. %s, or name another path",
			look.Above,
			look.Above.Fix,
		)
	}
	o.FileState, o.Content, err = look.Observe(limit)
	if o.Kind == Dir {
		names, err := look.Names(1)
		o.Empty = err == nil && len(names) == 0
	}
	for name := range o.Xattrs {
		if isLost, capability := HowKept(name); isLost || capability != "" {
			o.Attributes = append(o.Attributes, name)
		}
	}
	slices.Sort(o.Attributes)

	return o, err
}
