package nodefile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
)

// State is what is at a path: nothing, a folder or a regular file.
type State struct {
	Exists   bool
	Dir      bool   // a folder
	Empty    bool   // a folder that has no entries
	Closed   bool   // in a folder that not everybody may enter
	Mode     uint32 // permissions, with the setuid, setgid and sticky bits of stat(2)
	UID, GID int
	SHA256   string // of a file's content, hexadecimal
}

// Observe looks at a path of the node, and follows no link. What is in a folder that others may write to is not
// read. A file of at most limit bytes is returned
// with its content. Anything but a folder or a regular file, or a larger file, is an error. With an error, State has
// what was found out before it; the error wraps fs.ErrPermission if this user may not look.
func (r Root) Observe(path string, limit int64) (State, []byte, error) {
	look, err := r.Look(path, FollowNone)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil, nil
	}
	if err != nil {
		return State{}, nil, err
	}
	defer look.Close()

	st := look.Stat
	out := State{Exists: true, Closed: look.Closed, Mode: st.Mode & 0o7777, UID: int(st.Uid), GID: int(st.Gid)}
	switch m := look.Mode(); {
	case look.Above != nil:
		out.Dir = m.IsDir()
		return out, nil, fmt.Errorf("the folder %w, who could replace it. %s, or name another path", look.Above, look.Above.Fix)
	case m.IsDir():
		names, err := look.Names(1)
		out.Dir, out.Empty = true, err == nil && len(names) == 0
		return out, nil, nil
	case !m.IsRegular():
		return out, nil, fmt.Errorf("it is a %s: prelet replaces files and folders only, and follows no links. "+
			"Remove it, or name another path", KindOf(m))
	case st.Size > limit:
		return out, nil, fmt.Errorf("it has %d bytes, more than a configuration file may have", st.Size)
	}

	b, err := look.Read(limit)
	if err != nil {
		return out, nil, err
	}
	h := sha256.Sum256(b)
	out.SHA256 = hex.EncodeToString(h[:])

	return out, b, nil
}
