package pluginhost

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// openTrusted opens a regular file that nobody but root and this user may write, nor put another into its place.
func openTrusted(path string) (*os.File, error) {
	look, err := nodefile.Find(path, nodefile.FollowAll)
	if err != nil {
		return nil, err
	}
	defer look.Close()
	switch {
	case !look.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case look.Loose != nil:
		return nil, fmt.Errorf("others than root may change it: %w", look.Loose)
	}
	return look.Open()
}

// unchanging refuses, as root, a program that others may write: they could change it between its hash and its start. Who runs
// detectors as himself answers for his own files.
func unchanging(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if loose := nodefile.Judge(int(f.Fd()), f.Name(), &st, false); os.Geteuid() == 0 && loose != nil {
		return fmt.Errorf("others than root may write it: %w", loose)
	}
	return nil
}
