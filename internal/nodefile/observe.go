package nodefile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// State is what is at a path: nothing, a folder or a regular file.
type State struct {
	Exists   bool
	Dir      bool   // a folder
	Empty    bool   // a folder that has no entries
	Mode     uint32 // permissions, with the setuid, setgid and sticky bits of stat(2)
	UID, GID int
	SHA256   string // of a file's content, hexadecimal
}

// Observe looks at a path of the node, and does not follow a link at its end. A file of at most limit bytes is returned
// with its content. Anything but a folder or a regular file, or a larger file, is an error. With an error, State has
// what was found out before it; the error wraps fs.ErrPermission if this user may not look.
func (r Root) Observe(path string, limit int64) (State, []byte, error) {
	p := r.Path(path)
	st, err := os.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil, nil
	}
	if err != nil {
		return State{}, nil, err
	}

	out := State{Exists: true, Mode: modeBits(st.Mode())}
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		out.UID, out.GID = int(s.Uid), int(s.Gid)
	}

	switch {
	case st.IsDir():
		entries, err := os.ReadDir(p)
		out.Dir, out.Empty = true, err == nil && len(entries) == 0
		return out, nil, nil
	case !st.Mode().IsRegular():
		return out, nil, fmt.Errorf("it is a %s: prelet replaces files and folders only, and follows no links. "+
			"Remove it, or name another path", KindOf(st.Mode()))
	case st.Size() > limit:
		return out, nil, fmt.Errorf("it has %d bytes, more than a configuration file may have", st.Size())
	}

	b, err := os.ReadFile(p)
	if err != nil {
		return out, nil, err
	}
	h := sha256.Sum256(b)
	out.SHA256 = hex.EncodeToString(h[:])

	return out, b, nil
}

// modeBits returns a mode as stat(2) has it, without the type of the file.
func modeBits(m fs.FileMode) uint32 {
	out := uint32(m.Perm())
	for bit, v := range map[fs.FileMode]uint32{
		fs.ModeSetuid: syscall.S_ISUID, fs.ModeSetgid: syscall.S_ISGID, fs.ModeSticky: syscall.S_ISVTX,
	} {
		if m&bit != 0 {
			out |= v
		}
	}
	return out
}
