package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
)

// JournalLog writes an entry with fields to the journal. Its priority is that of syslog(3), from 7 (debug), which is
// left out, to 0.
type JournalLog func(priority int, message string, fields map[string]string)

// journalSend sends one entry to journald, as journal.Send of go-systemd does.
type journalSend func(message string, priority journal.Priority, fields map[string]string) error

// journalTimeout is how long an entry waits for a journald whose queue of messages is full.
const journalTimeout = time.Second

// NewJournalLog returns a function that writes entries to the journal, or nil if journald does not run. redact is
// applied to each text. An entry that journald does not read within a second is dropped, and so is each later entry
// until it has.
func NewJournalLog(redact func(string) string) JournalLog {
	if !journal.Enabled() {
		return nil
	}

	return newJournalLog(journal.Send, redact)
}

func newJournalLog(send journalSend, redact func(string) string) JournalLog {
	q := &journalQueue{send: send}

	return func(priority int, message string, fields map[string]string) {
		if priority > int(journal.PriInfo) {
			return
		}

		all := map[string]string{"SYSLOG_IDENTIFIER": "prelet"}
		for name, text := range fields {
			all[name] = redact(text)
		}
		q.put(redact(message), journal.Priority(priority), all)
	}
}

// journalStream is where services have their standard output, each with a line for each setting of theirs.
const journalStream = "/run/systemd/journal/stdout"

// PrintOnConsole writes a line to the journal and to the console of the machine, as StandardOutput=journal+console
// does, with a priority of the journal. For a program in a unit with PrivateDevices=yes this is the only way to the
// console.
func PrintOnConsole(priority int, line string) error {
	err := sendWithin(journalTimeout, func() error {
		c, err := net.Dial("unix", journalStream)
		if err != nil {
			return err
		}
		defer c.Close()

		// Identifier, unit (that of this process), priority, level prefix, forward to syslog, kmsg and console.
		_, err = fmt.Fprintf(c, "prelet\n\n%d\n0\n0\n0\n1\n%s\n", priority, strings.Join(strings.Fields(line), " "))

		return err
	})
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}

	return nil
}

// journalQueue stops waiting for a journald that does not read, because journal.Send has no deadline. It is safe for
// concurrent use.
type journalQueue struct {
	send journalSend

	mu   sync.Mutex
	late <-chan struct{} // closed when an entry that timed out has been sent; nil if there is none
}

// put sends an entry. It drops the entry while an earlier one waits, so that all entries together wait for one second.
// A failed entry never stops prelet.
func (q *journalQueue) put(message string, priority journal.Priority, fields map[string]string) {
	q.mu.Lock()
	defer q.mu.Unlock()

	select {
	case <-q.late:
		q.late = nil
	default:
	}
	if q.late != nil {
		return
	}

	done := make(chan struct{})
	err := sendWithin(journalTimeout, func() error {
		defer close(done)
		return q.send(message, priority, fields)
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		q.late = done
	}
}
