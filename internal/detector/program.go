package pluginhost

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

// maxProgram is more than any detector has.
const maxProgram = 512 << 20

// openProgram opens a detector's program without waiting, whatever is there.
func openProgram(path string) (*os.File, error) {
	look, err := nodefile.Find(path, nodefile.FollowTrusted)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &fault.Fault{Code: fault.Absent, Summary: "not there", Why: path}
	}
	if err != nil {
		return nil, err
	}
	defer look.Close()
	f, err := look.Open()
	if err != nil {
		return nil, fmt.Errorf("%s is not a regular file of at most %d MiB", path, maxProgram>>20)
	}
	st, err := f.Stat()
	if err == nil && (!st.Mode().IsRegular() || st.Size() > maxProgram) {
		err = fmt.Errorf("%s is not a regular file of at most %d MiB", path, maxProgram>>20)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// hash reads by position: the descriptor is shared with who executes it.
func hash(f *os.File) string {
	d := sha256.New()
	if _, err := io.Copy(d, io.NewSectionReader(f, 0, maxProgram)); err != nil {
		return ""
	}
	return hex.EncodeToString(d.Sum(nil))
}
