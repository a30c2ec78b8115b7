package live

import (
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Joined says whether this machine belongs to the cluster already, and why (not).
func (l *Live) Joined() (bool, string) {
	k := l.node()
	return k.Joined, k.JoinedWhy
}

// KubeletBinary is what a version that the kubelet's binary told is remembered under, without the version. A binary that
// was replaced since before may be another one than was asked: then there is none, and the next run asks again.
func KubeletBinary(root string, before time.Time) (VersionCache, bool) {
	for _, dir := range []string{"/usr/bin", "/usr/local/bin", "/opt/bin"} {
		p := filepath.Join(root, dir, "kubelet")
		st, err := os.Stat(p)
		if err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
			continue
		}
		sys, ok := st.Sys().(*syscall.Stat_t)
		// The change time: a package sets the modification time back to when it was built.
		if !ok || !time.Unix(sys.Ctim.Unix()).Before(before) {
			return VersionCache{}, false
		}
		return VersionCache{Path: p, Size: st.Size(), ModTime: st.ModTime().UnixNano()}, true
	}
	return VersionCache{}, false
}
