package measure

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"syscall"
)

// LayOver mounts the files of a recorded machine over /sys and /proc, in a mount namespace of the calling thread, to
// which the caller stays locked. With --hardware prelet would read a copy, which costs more than a boot. It needs
// root.
func LayOver(machine string) error {
	runtime.LockOSThread() // never unlocked: this thread alone is in the namespace, and the children that it starts

	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("new mount namespace: %w", err)
	}
	const private = syscall.MS_REC | syscall.MS_PRIVATE
	if err := syscall.Mount("", "/", "", private, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}

	// procfs takes no new names, so what this kernel does not have is left out.
	for _, name := range []string{"sys", "proc/cpuinfo", "proc/meminfo", "proc/driver"} {
		err := syscall.Mount(filepath.Join(machine, name), "/"+name, "", syscall.MS_BIND, "")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("mount /%s: %w", name, err)
		}
	}

	return nil
}
