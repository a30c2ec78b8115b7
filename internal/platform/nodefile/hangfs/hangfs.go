// Package hangfs mounts a file system for tests that never answers, as a dead network mount does.
package hangfs

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// Mount is MountOn for a new folder.
func Mount(t testing.TB) (folder string) {
	t.Helper()
	folder = t.TempDir()
	MountOn(t, folder)

	return folder
}

// MountOn mounts it on a folder, until the test ends. It skips a test that may not mount.
//
// No server ever reads the kernel's first call, so each read of the folder, and of everything below it, waits. Such a
// wait ends when its process is killed; it would not if a call had been read and not answered.
func MountOn(t testing.TB, folder string) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
		err = unix.Mount("hangfs", folder, "fuse", unix.MS_NODEV|unix.MS_NOSUID, options)
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
		t.Skip("needs /dev/fuse and the right to mount:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.Close(fd), unix.Unmount(folder, unix.MNT_DETACH)); err != nil {
			t.Error(err)
		}
	})
}
