package systemd

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/prelet/prelet/internal/lang/value"
)

// notifyTimeout is how long a message waits for a service manager whose queue of messages is full.
const notifyTimeout = time.Second

// Notifier reports to the service manager over $NOTIFY_SOCKET of this process. Without that variable it does nothing
// and returns no error. Callers log its errors and continue: what prelet does never depends on the service manager
// listening.
type Notifier struct{}

// Status sets the line that systemctl status shows. A oneshot unit needs NotifyAccess=main for it, and the line
// outlives the process only with RemainAfterExit=.
func (n Notifier) Status(line string) error {
	// Each line of the message is an assignment of its own: text of a stage must not be able to add one.
	return n.send("STATUS=" + value.Visible(strings.Join(strings.Fields(line), " ")))
}

// Ready reports that the service is up. Only units with Type=notify wait for it.
func (n Notifier) Ready() error { return n.send(daemon.SdNotifyReady) }

// Extend moves the end of TimeoutStartSec= or RuntimeMaxSec= of this unit to d from now. It works in a oneshot unit.
func (n Notifier) Extend(d time.Duration) error {
	return n.send(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()))
}

// send is daemon.SdNotify, which waits for ever for a service manager that does not read, with a deadline. A message that
// was given up may still arrive later. Each message waits anew: one that extends a timeout must not be dropped because
// the manager was busy before.
func (n Notifier) send(state string) error {
	sent := make(chan error, 1)

	go func() {
		_, err := daemon.SdNotify(false, state)
		sent <- err
	}()

	if err := waitSent(sent, notifyTimeout); err != nil {
		return fmt.Errorf("notify socket: %w", err)
	}

	return nil
}

// waitSent returns what arrives in sent, or after the limit an os.ErrDeadlineExceeded.
func waitSent(sent <-chan error, limit time.Duration) error {
	select {
	case err := <-sent:
		return err
	case <-time.After(limit):
		return fmt.Errorf("nothing was read in %v: %w", limit, os.ErrDeadlineExceeded)
	}
}
