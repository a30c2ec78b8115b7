package detector

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// openTrusted opens a regular file that only root and this user can write or replace.
func openTrusted(path string) (*os.File, error) {
	found, err := nodefile.Find(path, nodefile.FollowAll)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	switch {
	case !found.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case found.Loose != nil:
		return nil, fmt.Errorf("other users than root can change it: %w", found.Loose)
	}

	return found.Open()
}

// checkWriters rejects, as root, a program that other users can write: they could change it between its hash and its
// start. Without root a user runs his own programs at his own risk.
func checkWriters(f *os.File) error {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	if err != nil {
		return err
	}
	loose := nodefile.Judge(int(f.Fd()), f.Name(), &st, false)
	if os.Geteuid() == 0 && loose != nil {
		return fmt.Errorf("other users than root can write it: %w", loose)
	}

	return nil
}
