package program

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"

	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/world"
)

// VersionCache is what apply keeps of what the kubelet's binary said, so that a boot need not start it. The answers are
// valid for one file: one path, size, modification time, change time and inode (docs/decisions/0011).
type VersionCache struct {
	Path    string            `json:"path"` // below the root
	Size    int64             `json:"size"`
	ModTime int64             `json:"mtime_ns"`
	Inode   uint64            `json:"inode"`
	Changed int64             `json:"ctime_ns"`
	Version string            `json:"version"`
	Accepts *world.AcceptsAns `json:"accepts,omitempty"`
}

// Marshal encodes the cache as it is kept.
func (c VersionCache) Marshal() ([]byte, error) { return json.Marshal(c) }

// isFile reports whether the answers are those of the file that now describes.
func (c VersionCache) isFile(now VersionCache) bool {
	c.Version, c.Accepts = now.Version, now.Accepts
	return c == now
}

// Binary is the kubelet on this image. Its file is described once, before it is asked anything.
type Binary struct {
	file string
	now  VersionCache  // without answers
	kept *VersionCache // nil: no answers of this file are kept
}

// dirs are where a kubelet is looked for, in this order.
func dirs() []string { return []string{"/usr/bin", "/usr/local/bin", "/opt/bin"} }

// Find returns the binary below a root, with what the file cache keeps of it; nil if there is none.
func Find(root, cache string) *Binary {
	for _, dir := range dirs() {
		p := filepath.Join(dir, "kubelet")
		file := filepath.Join("/", root, p)

		now, ok := describe(file)
		if !ok {
			continue
		}
		now.Path = p

		b := &Binary{file: file, now: now}
		var kept VersionCache
		text, err := readKept(cache)
		if err == nil && json.Unmarshal(text, &kept) == nil && kept.Version != "" && kept.isFile(now) {
			b.kept = &kept
		}

		return b
	}

	return nil
}

// readKept reads what is kept, unless others may have written it.
func readKept(cache string) ([]byte, error) {
	look, err := nodefile.FindTrusted(cache)
	if err != nil {
		return nil, err
	}
	defer look.Close()

	return look.Read(nodefile.Max)
}

// describe describes an executable file, links followed.
func describe(file string) (VersionCache, bool) {
	st, err := os.Stat(file)
	if err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return VersionCache{}, false
	}

	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return VersionCache{}, false
	}

	return VersionCache{
		Size: st.Size(), ModTime: st.ModTime().UnixNano(), Inode: sys.Ino, Changed: sys.Ctim.Nano(),
	}, true
}

// Path returns the binary's path below the root.
func (b *Binary) Path() string { return b.now.Path }

// Keep returns what is to be kept of what the binary said. It returns false if the file was replaced since it was found:
// nobody knows which of the two answered.
func (b *Binary) Keep(version string, accepts *world.AcceptsAns) (VersionCache, bool) {
	now, ok := describe(b.file)
	now.Path = b.now.Path
	ok = ok && b.now.isFile(now)

	now.Version, now.Accepts = version, accepts
	return now, ok
}
