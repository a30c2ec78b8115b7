package systemd

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/prelet/prelet/internal/model/texts"
)

// notifyTimeout is how long a message waits for a service manager whose queue of messages is full.
const notifyTimeout = time.Second

// Notifier reports to the service manager over $NOTIFY_SOCKET of this process. Without that variable it does nothing
// and returns no error. Callers log its errors and continue.
type Notifier struct{}

// Status sets the line that systemctl status shows. A oneshot unit needs NotifyAccess=main for it, and the line
// outlives the process only with RemainAfterExit=.
func (n Notifier) Status(line string) error {
	// Each line of a message is an assignment. The text of a stage must not be able to add one.
	return n.send("STATUS=" + texts.Escape(strings.Join(strings.Fields(line), " ")))
}

// Ready reports that the service is running. Only units with Type=notify wait for it.
func (n Notifier) Ready() error {
	return n.send(daemon.SdNotifyReady)
}

// Extend moves the end of TimeoutStartSec= or RuntimeMaxSec= of this unit to d from now. It works in a oneshot unit.
func (n Notifier) Extend(d time.Duration) error {
	return n.send(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()))
}

// send is daemon.SdNotify with a deadline. A message that timed out may still arrive later. Each message waits again,
// because an extension of a timeout must not be dropped just because the manager was busy before.
func (n Notifier) send(state string) error {
	err := sendWithin(notifyTimeout, func() error {
		_, err := daemon.SdNotify(false, state)
		return err
	})
	if err != nil {
		return fmt.Errorf("notify socket: %w", err)
	}

	return nil
}

// sendWithin runs send in a goroutine. If send does not return in time, the error is os.ErrDeadlineExceeded and send
// continues in the background.
func sendWithin(limit time.Duration, send func() error) error {
	sent := make(chan error, 1)
	go func() { sent <- send() }()

	select {
	case err := <-sent:
		return err
	case <-time.After(limit):
		return fmt.Errorf("not read within %v: %w", limit, os.ErrDeadlineExceeded)
	}
}
