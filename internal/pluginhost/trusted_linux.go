package pluginhost

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// openTrusted opens a regular file that nobody but root and this user may write, nor put another into its folder.
func openTrusted(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	var file, folder unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &file); err == nil {
		err = unix.Stat(filepath.Dir(path), &folder)
	}
	switch {
	case err != nil:
	case file.Mode&unix.S_IFMT != unix.S_IFREG:
		err = fmt.Errorf("it is no regular file")
	case !trusted(file):
		err = fmt.Errorf("others than root may write it (mode %04o, user %d)", file.Mode&0o7777, file.Uid)
	case !trusted(folder):
		err = fmt.Errorf("others than root may replace it: its folder has mode %04o and belongs to user %d", folder.Mode&0o7777, folder.Uid)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// unchanging refuses, as root, a program that others may write: they could change it between its hash and its start. Who runs
// detectors as himself answers for his own files.
func unchanging(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if os.Geteuid() == 0 && !trusted(st) {
		return fmt.Errorf("others than root may write it (mode %04o, user %d)", st.Mode&0o7777, st.Uid)
	}
	return nil
}

func trusted(st unix.Stat_t) bool {
	return (st.Uid == 0 || int(st.Uid) == os.Geteuid()) && st.Mode&0o022 == 0
}
