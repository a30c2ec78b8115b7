package commit

import (
	"bytes"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

const (
	firstWait = 3 * time.Second
	maxWait   = 5 * time.Minute
)

// RetryDelay returns the delay before a run that systemd has started again after this number of failures, because
// systemd 252 has no RestartSteps=: it doubles with each consecutive failure, up to five minutes. jitter in [0,1)
// spreads the nodes of a fleet over half of the delay, so that they do not all ask a recovered cluster at once.
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

// NeedsDelay reports whether the run after one with this code has to wait. It is false after a failure that only a
// change on the node can fix (RestartPreventExitStatus= of the units). A stop after the commit is finished at once,
// unless that has failed before.
func NeedsDelay(code fault.Code, restarts int) bool {
	if code == fault.Interrupted && restarts < 3 {
		return false
	}

	return code != "" && code.IsRetried()
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
