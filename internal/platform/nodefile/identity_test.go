package nodefile

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestIdentity compares the identities of states that differ in one field.
func TestIdentity(t *testing.T) {
	const path = "/usr/bin/kubelet"
	state := unix.Stat_t{Size: 84 << 20, Mtim: unix.Timespec{Sec: 1}, Ino: 7, Ctim: unix.Timespec{Sec: 5}}
	for name, c := range map[string]struct {
		path   string
		change func(*unix.Stat_t)
		want   bool
	}{
		"the same":          {path, func(*unix.Stat_t) {}, true},
		"read again":        {path, func(st *unix.Stat_t) { st.Atim.Sec++ }, true},
		"path":              {"/opt/bin/kubelet", func(*unix.Stat_t) {}, false},
		"size":              {path, func(st *unix.Stat_t) { st.Size++ }, false},
		"modification time": {path, func(st *unix.Stat_t) { st.Mtim.Nsec++ }, false},
		"inode":             {path, func(st *unix.Stat_t) { st.Ino++ }, false},
		"change time":       {path, func(st *unix.Stat_t) { st.Ctim.Nsec++ }, false},
	} {
		now := state
		c.change(&now)
		if got := Identify(c.path, &now) == Identify(path, &state); got != c.want {
			t.Errorf("%s: got the same identity %t, want %t", name, got, c.want)
		}
	}
}
