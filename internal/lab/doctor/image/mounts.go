package image

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// mount is one mount of /proc/self/mountinfo, see proc_pid_mountinfo(5).
type mount struct {
	device  string // MAJOR:MINOR
	within  string // the folder of the file system that is mounted
	place   string // where it is mounted
	isLocal bool   // no other machine has this file system, as far as its kind shows
}

// mounts are the mounts of this machine, seen from an image.
type mounts struct {
	root    string // of the image, absolute and without links
	isWhole bool   // all are visible, see Subject.OnMachine
	all     []mount
}

// parseMounts reads the text of /proc/self/mountinfo. root "" is this machine's own root. Without text there are no
// mounts. A text that cannot be parsed is an error: its mounts are not known.
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
	// File systems without a block device of their own that are always of this machine. Others without one, as NFS or
	// virtiofs, may be of another machine.
	local := []string{"btrfs", "overlay", "tmpfs", "zfs"}
	for _, one := range all {
		m.all = append(m.all, mount{
			device:  fmt.Sprintf("%d:%d", one.Major, one.Minor),
			within:  one.Root,
			place:   one.Mountpoint,
			isLocal: one.Major != 0 || slices.Contains(local, one.FSType),
		})
	}

	return m, nil
}

// findForeign returns the place of a mount whose files may not belong to the image, so that a removal of the file
// would change them: a mount at the file or below it, or a mount that shows a folder of another place. It returns ""
// without such a mount.
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

// isOfOthers reports whether a file system that may be of another machine, or of the kernel, is mounted at a folder of
// the image.
func (m mounts) isOfOthers(folder string) bool {
	at := path.Join(m.root, folder)

	return slices.ContainsFunc(m.all, func(one mount) bool { return one.place == at && !one.isLocal })
}

// isInside reports whether a mount is in the image, below its root.
func (m mounts) isInside(one mount) bool {
	return one.place != m.root && isBelow(one.place, m.root)
}

// isOwn reports whether a mount in the image is certainly a part of it: a folder of the image itself; on a machine that
// is sealed from inside, a local file system; in another folder, a whole local file system, as the image's /boot, or a
// subvolume of the image's own, and no part of it is mounted outside of the image. A container or a chroot does not see
// the mounts outside of it.
func (m mounts) isOwn(one mount) bool {
	root := m.findRoot()
	if root.device == one.device && isBelow(one.within, root.within) {
		return true
	}
	isOutside := slices.ContainsFunc(m.all, func(other mount) bool {
		return other.device == one.device && !isBelow(other.place, m.root)
	})
	if !m.isWhole || !one.isLocal || isOutside {
		return false
	}

	return m.root == "/" || one.within == "/" || one.device == root.device
}

// findRoot returns the mount at the root of the image, of several the upper one; an empty one if the root is a folder.
func (m mounts) findRoot() (root mount) {
	for _, one := range m.all {
		if one.place == m.root {
			root = one
		}
	}

	return root
}

// isBelow reports whether a path is a folder or below it.
func isBelow(file, folder string) bool {
	return file == folder || folder == "/" || strings.HasPrefix(file, folder+"/")
}
