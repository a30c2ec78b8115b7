package image

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// mount is one mount of /proc/self/mountinfo, see proc_pid_mountinfo(5).
type mount struct {
	device string // MAJOR:MINOR
	within string // the folder of the file system that is mounted
	place  string // where it is mounted
	kind   string // of the file system
}

// reaches reports whether the content of another mount is also below this one.
func (m mount) reaches(other mount) bool {
	return m.device == other.device && isBelow(other.within, m.within)
}

// mounts are the mounts of this machine, seen from an image.
type mounts struct {
	root string // of the image, absolute and without links
	all  []mount
}

// parseMounts reads the text of /proc/self/mountinfo. root "" is this machine's own root. Without text, as in a chroot
// without /proc, there are no mounts. A text that cannot be parsed is an error: its mounts are not known.
func parseMounts(root string, text []byte) (mounts, error) {
	m := mounts{root: "/"}
	if root != "" {
		m.root = root
		if real, err := filepath.EvalSymlinks(root); err == nil {
			m.root = real
		}
	}

	all, err := mountinfo.GetMountsFromReader(bytes.NewReader(text), nil)
	if err != nil {
		return m, fmt.Errorf("/proc/self/mountinfo: %w", err)
	}
	for _, one := range all {
		m.all = append(m.all, mount{
			device: fmt.Sprintf("%d:%d", one.Major, one.Minor),
			within: one.Root,
			place:  one.Mountpoint,
			kind:   one.FSType,
		})
	}

	return m, nil
}

// findForeign returns the place of a mount whose files may not belong to the image, so that a removal of the file
// would change them: one at the file or below it, or one that shows a folder of another place. It returns "" for none.
func (m mounts) findForeign(file string) string {
	at := path.Join(m.root, file)

	var found *mount
	for i, one := range m.all {
		switch {
		case isBelow(one.place, at):
			return one.place
		case isBelow(at, one.place) && (found == nil || isBelow(one.place, found.place)):
			found = &m.all[i]
		}
	}
	if found == nil || !m.isInside(*found) || m.isOwn(*found) {
		return ""
	}

	return found.place
}

// isInside reports whether a mount is in the image, below its root.
func (m mounts) isInside(one mount) bool {
	return one.place != m.root && isBelow(one.place, m.root)
}

// isOwn reports whether a mount in the image is a part of it: a file system of its own, as its /boot or a subvolume, or
// a folder that is also elsewhere in the image, as /var of OSTree; and neither is mounted outside of the image.
func (m mounts) isOwn(one mount) bool {
	isOwn := one.within == "/" || one.kind == "btrfs"
	for _, other := range m.all {
		switch {
		case other == one || !other.reaches(one):
		case isBelow(other.place, m.root):
			isOwn = true
		default:
			return false
		}
	}

	return isOwn
}

// isBelow reports whether a path is a folder or below it.
func isBelow(file, folder string) bool {
	return file == folder || folder == "/" || strings.HasPrefix(file, folder+"/")
}
