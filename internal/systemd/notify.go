package systemd

import (
	"fmt"
	"net"
	"strings"
	"time"
)

// Notifier speaks to the notify socket of the unit that runs this process. The zero Notifier, of a process that no unit runs,
// says nothing and fails never. Errors are for the log: what prelet does never depends on who listens.
type Notifier struct{ socket string }

// NewNotifier takes the socket's address from $NOTIFY_SOCKET, as getenv knows it.
func NewNotifier(getenv func(string) string) Notifier {
	return Notifier{socket: getenv("NOTIFY_SOCKET")}
}

// Status shows one line in systemctl status. A oneshot needs NotifyAccess=main for it, and keeps it after its end only with
// RemainAfterExit=.
func (n Notifier) Status(line string) error {
	// A newline would begin an assignment of its own, and a stage's message is not ours.
	return n.send("STATUS=" + strings.Join(strings.Fields(line), " "))
}

// Ready says that the service is up. It means something to Type=notify only.
func (n Notifier) Ready() error { return n.send("READY=1") }

// Extend asks for d more before TimeoutStartSec= or RuntimeMaxSec= ends this unit, counted from now. It works in a oneshot.
func (n Notifier) Extend(d time.Duration) error {
	return n.send(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()))
}

func (n Notifier) send(state string) error {
	if n.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"}) // "@" is the abstract namespace
	if err != nil {
		return fmt.Errorf("notify socket: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify socket: %w", err)
	}
	return nil
}
