package nodefile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
)

// State is the state of a path: missing, a folder or a regular file.
type State struct {
	Exists   bool
	Dir      bool   // a folder
	Empty    bool   // a folder without entries
	Public   bool   // everyone may read it, see Look.IsPublic
	Mode     uint32 // permissions, with the setuid, setgid and sticky bits of stat(2)
	UID, GID int
	SHA256   string // of a file's content, hexadecimal
	// Attributes are the extended attributes of a file that prelet does not keep in each case, see HowKept.
	Attributes []string
}

// Observe returns the state of a path of the node, and the content of a file of at most limit bytes. It follows no
// link, and reads nothing in a folder that other users may write to. Anything but a folder or a regular file, or a
// larger file, is an error. With an error, State contains the part that is known; the error wraps fs.ErrPermission if
// this user may not read the path.
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
	mode := look.Mode()
	out := State{
		Exists: true,
		Dir:    mode.IsDir(),
		Public: look.IsPublic,
		Mode:   st.Mode & 0o7777,
		UID:    int(st.Uid),
		GID:    int(st.Gid),
	}
	switch {
	case look.Above != nil:
		return out, nil, fmt.Errorf(
			"the folder %w, who could replace it. %s, or name another path",
			look.Above,
			look.Above.Fix,
		)
	case mode.IsDir():
		names, err := look.Names(1)
		out.Empty = err == nil && len(names) == 0
		return out, nil, nil
	case !mode.IsRegular():
		return out, nil, fmt.Errorf(
			"it is a %s: prelet replaces files and folders only, and follows no links. "+
				"Remove it, or name another path",
			KindOf(mode),
		)
	case st.Size > limit:
		return out, nil, fmt.Errorf("it has %d bytes, more than a configuration file may have", st.Size)
	}

	b, err := look.Read(limit)
	if err != nil {
		return out, nil, err
	}
	h := sha256.Sum256(b)
	out.SHA256 = hex.EncodeToString(h[:])
	out.Attributes = look.listAttributes()

	return out, b, nil
}
