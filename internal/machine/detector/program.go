package detector

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// maxProgram is larger than any detector.
const maxProgram = 512 << 20

// openProgram opens a detector's program. It does not block, whatever kind of file it is.
func openProgram(path string) (*os.File, error) {
	found, err := nodefile.Find(path, nodefile.FollowTrusted)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &fault.Fault{
			Code:    fault.Absent,
			Summary: "not there",
			Why:     path,
		}
	}
	if err != nil {
		return nil, err
	}
	defer found.Close()

	if !found.Mode().IsRegular() || found.Stat.Size > maxProgram {
		return nil, fmt.Errorf("%s is not a regular file of at most %d MiB", path, maxProgram>>20)
	}

	return found.Open()
}

// hashProgram returns the sha256 of an open program, or nothing if it cannot be read. It reads by position, because
// the process that executes the program shares the descriptor.
func hashProgram(f *os.File) string {
	d := sha256.New()
	_, err := io.Copy(d, io.NewSectionReader(f, 0, maxProgram))
	if err != nil {
		return ""
	}

	return hex.EncodeToString(d.Sum(nil))
}
