package kubeletbin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"

	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/world"
)

// VersionCache is the output of the kubelet's binary that apply keeps, so that a boot need not start it. It is valid
// for one file: one path, size, modification time, change time and inode (docs/decisions/0011).
type VersionCache struct {
	Path    string            `json:"path"` // below the root
	Size    int64             `json:"size"`
	ModTime int64             `json:"mtime_ns"`
	Inode   uint64            `json:"inode"`
	Changed int64             `json:"ctime_ns"`
	Version string            `json:"version"`
	Accepts *world.AcceptsAns `json:"accepts,omitempty"`
}

// Marshal encodes the cache.
func (c VersionCache) Marshal() ([]byte, error) { return json.Marshal(c) }

// isFile reports whether the cache is of the file that now describes.
func (c VersionCache) isFile(now VersionCache) bool {
	c.Version = now.Version
	c.Accepts = now.Accepts

	return c == now
}

// Binary is the kubelet on this image.
type Binary struct {
	file string
	now  VersionCache  // the file, without its output
	kept *VersionCache // the cache of this file; nil: none
}

// dirs returns the folders that are searched for a kubelet that the unit does not name, in this order.
func dirs() []string {
	return []string{"/usr/bin", "/usr/local/bin", "/opt/bin"}
}

// Find returns the binary below a root, with its part of the cache file; nil if there is none. command has the words
// with which the kubelet's unit starts it, nil if they are not known. A program of another name, such as a shell, is
// not the kubelet and must not be started.
func Find(root, cache string, command []string) *Binary {
	var paths []string
	if len(command) > 0 && filepath.IsAbs(command[0]) && filepath.Base(command[0]) == "kubelet" {
		paths = append(paths, filepath.Clean(command[0]))
	}
	for _, dir := range dirs() {
		paths = append(paths, filepath.Join(dir, "kubelet"))
	}

	for _, p := range paths {
		file, ok := locate(root, p)
		if !ok {
			continue
		}
		now, ok := describe(file)
		if !ok {
			continue
		}
		now.Path = p

		return &Binary{
			file: file,
			now:  now,
			kept: readKept(cache, now),
		}
	}

	return nil
}

// locate returns the file of a path below a root. A link there leads to another file below it; it is not ok if there is
// none.
func locate(root, p string) (file string, ok bool) {
	if root == "" {
		return p, true
	}
	look, err := nodefile.Root(root).Look(p, nodefile.FollowAll)
	if err != nil {
		return "", false
	}
	defer look.Close()

	return filepath.Join(root, look.Path()), true
}

// readKept reads the cache of a file. It returns nil for the cache of another file, and if other users may have
// written it.
func readKept(cache string, now VersionCache) *VersionCache {
	look, err := nodefile.FindTrusted(cache)
	if err != nil {
		return nil
	}
	defer look.Close()

	var kept VersionCache

	text, err := look.Read(nodefile.Max)
	if err != nil || json.Unmarshal(text, &kept) != nil {
		return nil
	}

	if kept.Version == "" || !kept.isFile(now) {
		return nil
	}

	return &kept
}

// describe describes an executable file. It follows links.
func describe(file string) (VersionCache, bool) {
	st, err := os.Stat(file)
	if err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return VersionCache{}, false
	}

	sys, isUnix := st.Sys().(*syscall.Stat_t)
	if !isUnix {
		return VersionCache{}, false
	}

	return VersionCache{
		Size:    sys.Size,
		ModTime: sys.Mtim.Nano(),
		Inode:   sys.Ino,
		Changed: sys.Ctim.Nano(),
	}, true
}

// Path returns the binary's path below the root.
func (b *Binary) Path() string { return b.now.Path }

// Keep returns the new cache for an output of the binary. It returns false if the file was replaced since Find,
// because the output may be of either file.
func (b *Binary) Keep(version string, accepts *world.AcceptsAns) (VersionCache, bool) {
	now, ok := describe(b.file)
	now.Path = b.now.Path
	ok = ok && b.now.isFile(now)

	now.Version = version
	now.Accepts = accepts

	return now, ok
}
