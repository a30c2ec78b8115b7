package hangfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// SpoilFile makes a file unreadable until the test ends or end is called, as a bad sector or a flipped byte on Btrfs
// does: it can be looked up and replaced, and each open of it fails with EIO. It skips a test that may not mount.
//
// The folder of the file becomes an overlay in which the file has its content in another layer, and no digest of that.
func SpoilFile(t testing.TB, file string) (end func()) {
	t.Helper()

	return SpoilFileIn(t, filepath.Dir(file), file)
}

// SpoilFileIn is SpoilFile where a folder above the file becomes the overlay, so that the folders between can be moved
// and removed.
func SpoilFileIn(t testing.TB, folder, file string) (end func()) {
	t.Helper()
	layers := t.TempDir()
	content := layers + "/content"
	err := errors.Join(
		os.Mkdir(layers+"/upper", 0o755), os.Mkdir(layers+"/work", 0o755), os.Mkdir(content, 0o755),
		os.WriteFile(content+"/file", nil, 0o600),
		unix.Setxattr(file, "trusted.overlay.metacopy", nil, 0),
		unix.Setxattr(file, "trusted.overlay.redirect", []byte("/file"), 0),
	)
	if err == nil {
		escape := strings.NewReplacer(",", `\,`, ":", `\:`).Replace
		options := fmt.Sprintf("lowerdir=%s::%s,upperdir=%[3]s/upper,workdir=%[3]s/work,metacopy=on,verity=require",
			escape(folder), escape(content), escape(layers))
		err = unix.Mount("spoilt", folder, "overlay", 0, options)
	}
	isRefused := errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOTSUP)
	if isRefused || errors.Is(err, unix.EINVAL) {
		t.Skip("needs root, and overlay file systems of Linux 6.6:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		if err := unix.Unmount(folder, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	if _, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0); !errors.Is(err, unix.EIO) {
		t.Fatalf("open of %s: got %v, want EIO", file, err)
	}

	return end
}
