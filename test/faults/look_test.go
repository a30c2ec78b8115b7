package faults

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// node is one thing in a tree, as one generation differs from another by it.
type node struct {
	mode     fs.FileMode
	uid, gid uint32
	content  string
	xattrs   string
}

// inode contains what stays the same only if the file was not touched.
type inode struct {
	node
	ino   uint64
	mtime time.Time
}

// tree is everything below a root by its path there.
type tree map[string]inode

const stateDir = "/var/lib/prelet"

// look reads a tree whole.
func look(root string) (tree, error) {
	out := tree{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		st := i.Sys().(*syscall.Stat_t)
		n := inode{node: node{mode: i.Mode(), uid: st.Uid, gid: st.Gid}, ino: st.Ino, mtime: i.ModTime()}
		if i.Mode().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			n.content = string(b)
			if n.xattrs, err = xattrs(p); err != nil {
				return err
			}
		}
		out["/"+strings.TrimPrefix(strings.TrimPrefix(p, root), "/")] = n
		return nil
	})
	return out, err
}

func xattrs(p string) (string, error) {
	buf := make([]byte, 4096)
	n, err := unix.Llistxattr(p, buf)
	if err != nil || n == 0 {
		return "", err
	}
	names := strings.Split(strings.TrimRight(string(buf[:n]), "\x00"), "\x00")
	slices.Sort(names)
	var out []string
	for _, name := range names {
		v := make([]byte, 4096)
		n, err := unix.Lgetxattr(p, name, v)
		if err != nil {
			return "", err
		}
		out = append(out, fmt.Sprintf("%s=%q", name, v[:n]))
	}
	return strings.Join(out, " "), nil
}

func ours(p string) bool { return p == stateDir || strings.HasPrefix(p, stateDir+"/") }

// targets is the tree without prelet's own folder.
func (t tree) targets() map[string]node {
	out := map[string]node{}
	for p, n := range t {
		if !ours(p) && p != "/" && p != "/var" && p != "/var/lib" {
			out[p] = n.node
		}
	}
	return out
}

// state is all of it without what every mount and every copy changes.
func (t tree) state() string {
	var b bytes.Buffer
	for _, p := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(&b, "%s %+v\n", p, t[p].node)
	}
	return b.String()
}

var temporary = regexp.MustCompile(`/\.prelet-[0-9]+-[0-9]+\.tmp$`)

// litter is what a commit makes to take away again.
func (t tree) litter() (out []string) {
	for p := range t {
		if temporary.MatchString(p) || ours(p) && (strings.HasSuffix(p, ".tmp") || strings.HasSuffix(p, ".staged")) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// holding lists the files that contain a text.
func (t tree) holding(text string) (out []string) {
	for p, n := range t {
		if strings.Contains(n.content, text) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// differ describes in a few lines how two sets of targets differ.
func differ(a, b map[string]node) string {
	var out []string
	for p, n := range a {
		switch m, ok := b[p]; {
		case !ok:
			out = append(out, "- "+p)
		case m != n:
			out = append(out, fmt.Sprintf("~ %s: %.80q and %.80q", p, fmt.Sprint(n), fmt.Sprint(m)))
		}
	}
	for p := range b {
		if _, ok := a[p]; !ok {
			out = append(out, "+ "+p)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
