package commit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Attempts counts the consecutive failed runs of this boot that systemd restarts. The count is in the run folder.
// systemd 252 has no RestartSteps=, so prelet itself waits before the next run, longer each time.
type Attempts struct{ Dir string }

const attemptsFile = "attempts"

// Failures returns the count.
func (a Attempts) Failures() int {
	b, err := nodefile.ReadFile(filepath.Join(a.Dir, attemptsFile), nodefile.Max)
	if err != nil {
		return 0
	}

	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 0 {
		return 0
	}

	return n
}

// AddFailure adds one to the count.
func (a Attempts) AddFailure() error {
	path := filepath.Join(a.Dir, attemptsFile)
	count := fmt.Appendf(nil, "%d\n", a.Failures()+1)

	return atomicfile.File(path, 0o644, count)
}

// Clear sets the count to 0.
func (a Attempts) Clear() error {
	err := os.Remove(filepath.Join(a.Dir, attemptsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}

const (
	firstWait = 3 * time.Second
	maxWait   = 5 * time.Minute
)

// RetryDelay returns the delay before the next run: it doubles with each consecutive failure, up to five minutes.
// jitter in [0,1) spreads the nodes of a fleet over half of the delay, so that they do not all ask a recovered cluster
// at once.
func RetryDelay(failures int, jitter float64) time.Duration {
	if failures <= 0 {
		return 0
	}

	d := maxWait
	if failures < 8 {
		d = min(maxWait, firstWait<<(failures-1))
	}

	return d/2 + time.Duration(jitter*float64(d/2))
}

// NeedsDelay reports whether the run after one with this code has to wait. It is false after a stop after the commit,
// which is finished at once, and after a failure that only a change on the node can fix (RestartPreventExitStatus= of
// the units).
func NeedsDelay(code fault.Code) bool {
	return code != "" && code != fault.Interrupted && code.IsRetried()
}

// WriteIfChanged replaces a small file of the state folder or the run folder with mode 0600, if its content differs.
// The content can be obtained again, so the file is not synced to disk.
func WriteIfChanged(name string, text []byte) error {
	old, err := nodefile.ReadFile(name, nodefile.Max)
	if err == nil && bytes.Equal(old, text) {
		return nil
	}

	return atomicfile.File(name, 0o600, text)
}
