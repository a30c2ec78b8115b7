package systemd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
)

// Keys of log attributes that become special fields. Any other key k becomes PRELET_K.
const (
	KeyStage      = "stage"      // PRELET_STAGE: the stage's address, or "gate", "commit", "verify"
	KeyGeneration = "generation" // PRELET_GENERATION
	KeyMessage    = "message_id" // MESSAGE_ID: 32 hexadecimal digits that name a kind of message
	KeyUnit       = "unit"       // OBJECT_SYSTEMD_UNIT: journalctl -u of that unit shows the entry too
)

// JournalSend sends one entry to journald, as journal.Send of go-systemd does.
type JournalSend func(message string, priority journal.Priority, fields map[string]string) error

// JournalHandler writes log records as journald entries with fields. It redacts every text.
type JournalHandler struct {
	send   JournalSend
	redact func(string) string
	level  slog.Leveler
	fields map[string]string
	prefix string // of open groups, "A_B_"
}

// journalTimeout is how long an entry waits for a journald whose queue of messages is full.
const journalTimeout = time.Second

// NewJournalHandler returns a handler for slog.New. If send does not return within a second, the entry is an error, and
// so is each later entry until send has returned.
func NewJournalHandler(send JournalSend, redact func(string) string, level slog.Leveler) *JournalHandler {
	return &JournalHandler{
		send:   (&journalQueue{send: send}).put,
		redact: redact,
		level:  level,
		fields: map[string]string{"SYSLOG_IDENTIFIER": "prelet"},
	}
}

// NewJournalLogger returns a logger that writes entries with fields to the journal, from level info on. It returns nil
// if journald does not run. redact is applied to each text.
func NewJournalLogger(redact func(string) string) *slog.Logger {
	if !journal.Enabled() {
		return nil
	}

	return slog.New(NewJournalHandler(journal.Send, redact, slog.LevelInfo))
}

// journalStream is where services have their standard output, each with a line for each setting of theirs.
const journalStream = "/run/systemd/journal/stdout"

// PrintOnConsole writes a line to the journal and to the console of the machine, as StandardOutput=journal+console
// does. For a program in a unit with PrivateDevices=yes there is no other way to the console.
func PrintOnConsole(line string) error {
	err := sendWithin(journalTimeout, func() error {
		c, err := net.Dial("unix", journalStream)
		if err != nil {
			return err
		}
		defer c.Close()

		// Identifier, unit (that of this process), priority (err), level prefix, forward to syslog, kmsg and console.
		const header = "prelet\n\n3\n0\n0\n0\n1\n"
		_, err = io.WriteString(c, header+strings.Join(strings.Fields(line), " ")+"\n")

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
	send JournalSend

	mu   sync.Mutex
	late <-chan struct{} // closed when an entry that timed out has been sent; nil if there is none
}

// put sends an entry. It drops the entry while an earlier one waits, so that all entries together wait for one second.
func (q *journalQueue) put(message string, priority journal.Priority, fields map[string]string) error {
	q.mu.Lock()
	defer q.mu.Unlock()

	select {
	case <-q.late:
		q.late = nil
	default:
	}
	if q.late != nil {
		return fmt.Errorf(
			"journal: dropped, because an earlier entry was not read: %w",
			os.ErrDeadlineExceeded,
		)
	}

	done := make(chan struct{})
	err := sendWithin(journalTimeout, func() error {
		defer close(done)
		return q.send(message, priority, fields)
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		q.late = done
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}

	return nil
}

// Enabled implements slog.Handler.
func (h *JournalHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.level.Level()
}

// Handle implements slog.Handler. Its error is for a second handler, if there is one. A failed log entry never stops
// prelet.
func (h *JournalHandler) Handle(_ context.Context, record slog.Record) error {
	fields := maps.Clone(h.fields)
	record.Attrs(func(attr slog.Attr) bool {
		h.addField(fields, h.prefix, attr)
		return true
	})

	return h.send(h.redact(record.Message), journalPriority(record.Level), fields)
}

// WithAttrs implements slog.Handler.
func (h *JournalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.fields = maps.Clone(h.fields)
	for _, attr := range attrs {
		h.addField(next.fields, h.prefix, attr)
	}

	return &next
}

// WithGroup implements slog.Handler.
func (h *JournalHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	next := *h
	next.prefix = h.prefix + name + "_"

	return &next
}

func (h *JournalHandler) addField(fields map[string]string, prefix string, attr slog.Attr) {
	value := attr.Value.Resolve()
	switch {
	case value.Kind() == slog.KindGroup:
		if attr.Key != "" {
			prefix += attr.Key + "_"
		}
		for _, member := range value.Group() {
			h.addField(fields, prefix, member)
		}
	case attr.Key != "":
		fields[fieldName(prefix+attr.Key)] = h.redact(value.String())
	}
}

// fieldName returns a name that journald accepts: upper-case letters, digits and "_", at most 64. go-systemd only warns
// about other names on stderr and sends them.
func fieldName(key string) string {
	switch key {
	case KeyMessage:
		return "MESSAGE_ID"
	case KeyUnit:
		return "OBJECT_SYSTEMD_UNIT"
	}

	name := "PRELET_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, key)

	return name[:min(len(name), 64)]
}

func journalPriority(level slog.Level) journal.Priority {
	switch {
	case level >= slog.LevelError:
		return journal.PriErr
	case level >= slog.LevelWarn:
		return journal.PriWarning
	case level >= slog.LevelInfo:
		return journal.PriInfo
	}

	return journal.PriDebug
}
