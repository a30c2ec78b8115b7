package live

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prelet/prelet/internal/world"
)

// VersionCache is what apply keeps of what the kubelet's binary said, so that a boot need not start it. The answers are
// those of one path, size, time and content. Inode and Changed are of the file that the content was last read from: while
// they are the same, nobody wrote to it, and it is not read again (docs/decisions/0011).
type VersionCache struct {
	Path    string            `json:"path"` // below the root
	Size    int64             `json:"size"`
	ModTime int64             `json:"mtime_ns"`
	SHA256  string            `json:"sha256"` // of the whole
	Inode   uint64            `json:"inode"`
	Changed int64             `json:"ctime_ns"`
	Version string            `json:"version"`
	Accepts *world.AcceptsAns `json:"accepts,omitempty"`
}

// Marshal is the cache as it is kept.
func (c VersionCache) Marshal() ([]byte, error) { return json.Marshal(c) }

// same says whether a file may be the one that was kept: whether it is, its content tells.
func (c VersionCache) same(now VersionCache) bool {
	return c.Path == now.Path && c.Size == now.Size && c.ModTime == now.ModTime
}

// untouched says whether it is the very file that was kept, and nobody wrote to it since. The change time is the kernel's
// own, and cannot be set. File systems of images (erofs, squashfs, and overlays over them, as composefs and systemd-sysext are)
// have none, and give the modification time for it, and who makes an ext4 from a folder (mke2fs -d) gives one that it chooses: both
// in whole seconds and often the same in every image. There it says nothing.
func (c VersionCache) untouched(now VersionCache) bool {
	const second = int64(time.Second)
	return c.same(now) && c.Inode == now.Inode && c.Changed == now.Changed && now.Changed%second != 0
}

// Binary is the kubelet on this image. Its file is described once, before it is asked anything.
type Binary struct {
	file string
	now  VersionCache // without answers
	kept VersionCache // without a Version: nothing is kept of a file like this

	once sync.Once
	done chan struct{} // closed when sum and err are there
	sum  string
	err  error

	left atomic.Bool // nobody waits for them any more
}

// kubeletDirs are where a kubelet is looked for, in this order.
func kubeletDirs() []string { return []string{"/usr/bin", "/usr/local/bin", "/opt/bin"} }

// FindKubelet is the binary below a root, with what is kept of it in a file; nil: there is none.
func FindKubelet(root, cache string) *Binary {
	for _, dir := range kubeletDirs() {
		p := filepath.Join(dir, "kubelet")
		file := filepath.Join("/", root, p)
		now, ok := described(file)
		if !ok {
			continue
		}
		now.Path = p
		b := &Binary{file: file, now: now, done: make(chan struct{})}
		var kept VersionCache
		if text, err := os.ReadFile(cache); err == nil && json.Unmarshal(text, &kept) == nil && kept.same(now) && kept.SHA256 != "" {
			b.kept = kept
		}
		return b
	}
	return nil
}

// described is a program as its file system describes it.
func described(file string) (VersionCache, bool) {
	st, err := os.Stat(file)
	if err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return VersionCache{}, false
	}
	return describe(st)
}

func describe(st fs.FileInfo) (VersionCache, bool) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return VersionCache{}, false
	}
	return VersionCache{Size: st.Size(), ModTime: st.ModTime().UnixNano(), Inode: sys.Ino, Changed: sys.Ctim.Nano()}, true
}

// Path is where it stands below the root.
func (b *Binary) Path() string { return b.now.Path }

// Close ends the reading, if it is still going on.
func (b *Binary) Close() { b.left.Store(true) }

// held is what is kept of it, if that is of this content.
func (b *Binary) held(ctx context.Context) (VersionCache, bool) {
	if b.kept.Version == "" {
		return VersionCache{}, false
	}
	if b.kept.untouched(b.now) {
		return b.kept, true
	}
	sum, err := b.hash(ctx)
	return b.kept, err == nil && sum == b.kept.SHA256
}

// read begins to read it whole, beside whatever else is done meanwhile.
func (b *Binary) read() {
	b.once.Do(func() {
		go func() {
			defer close(b.done)
			b.sum, b.err = b.whole()
		}()
	})
}

// hash is the SHA-256 of the whole, read once.
func (b *Binary) hash(ctx context.Context) (string, error) {
	b.read()
	select {
	case <-b.done:
	case <-ctx.Done():
		select {
		case <-b.done: // it is there all the same
		default:
			return "", ctx.Err()
		}
	}
	return b.sum, b.err
}

func (b *Binary) whole() (string, error) {
	f, err := os.Open(b.file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, reading{f, &b.left}); err != nil {
		return "", err
	}
	if st, err := f.Stat(); err != nil {
		return "", err
	} else if now, ok := describe(st); !ok || !b.is(now) {
		return "", errors.New("it was replaced while it was read")
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// is says whether a file is still the one that was found.
func (b *Binary) is(now VersionCache) bool {
	now.Path = b.now.Path
	return now == b.now
}

// reading is a file until it is left.
type reading struct {
	f    *os.File
	left *atomic.Bool
}

func (r reading) Read(p []byte) (int, error) {
	if r.left.Load() {
		return 0, errors.New("nobody waits for it any more")
	}
	return r.f.Read(p)
}

// Keep is what is to be kept of what it said. Nothing is where it was replaced since it was found, for then another one may
// have been asked, or where this user may not read it.
func (b *Binary) Keep(ctx context.Context, version string, accepts *world.AcceptsAns) (VersionCache, bool) {
	out := b.now
	if held, ok := b.held(ctx); ok {
		out.SHA256 = held.SHA256
	} else if sum, err := b.hash(ctx); err == nil {
		out.SHA256 = sum
	}
	out.Version, out.Accepts = version, accepts
	now, ok := described(b.file)
	return out, ok && out.SHA256 != "" && b.is(now)
}
