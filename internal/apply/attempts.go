package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/replace"
)

// Attempts counts the runs of this boot that failed in a row and that systemd tries again. It is kept in the run folder,
// because systemd 252 has no RestartSteps=: prelet itself waits, longer each time, before it tries again.
type Attempts struct{ Dir string }

const attemptsFile = "attempts"

// Failures is the count.
func (a Attempts) Failures() int {
	b, err := os.ReadFile(filepath.Join(a.Dir, attemptsFile))
	if err != nil {
		return 0
	}

	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 0 {
		return 0
	}

	return n
}

// Failed counts one more.
func (a Attempts) AddFailure() error {
	return replace.File(filepath.Join(a.Dir, attemptsFile), 0o644, fmt.Appendf(nil, "%d\n", a.Failures()+1))
}

// Clear begins anew.
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

// Wait is how long to wait after so many failures in a row: doubled each time up to five minutes. jitter in [0,1)
// spreads the nodes of a fleet, whose cluster came back a moment ago, over half of that.
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

// Slow says whether the run after one that ended so is to wait. Not after one that was stopped after COMMIT, which is
// to be finished at once, nor after what only a change on the node can mend (RestartPreventExitStatus= of the units).
func NeedsDelay(code fault.Code) bool {
	return code != "" && code != fault.Interrupted && code.IsRetried()
}

// Remember writes a small file of the state folder or the run folder whole, for root only, if it is not so already. What
// is in it can be asked again, so it is not made to survive a power cut.
func WriteIfChanged(name string, text []byte) error {
	if old, err := os.ReadFile(name); err == nil && string(old) == string(text) {
		return nil
	}

	return replace.File(name, 0o600, text)
}
