package nodefile

import "golang.org/x/sys/unix"

// Identity describes a file. Results that depend on its content may be cached for as long as the identity stays the
// same (docs/develop/decisions/0011).
type Identity struct {
	Path    string `json:"path"`
	Size    int64  `json:"size"`
	ModTime int64  `json:"mtime_ns"`
	Inode   uint64 `json:"inode"`
	Changed int64  `json:"ctime_ns"`
}

// Identify returns the identity of the file with a path and a state.
func Identify(path string, st *unix.Stat_t) Identity {
	return Identity{
		Path:    path,
		Size:    st.Size,
		ModTime: st.Mtim.Nano(),
		Inode:   st.Ino,
		Changed: st.Ctim.Nano(),
	}
}
