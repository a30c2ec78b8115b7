package systemd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
)

// Keys of log attributes that become fields with a meaning. Any other key k becomes PRELET_K.
const (
	KeyStage      = "stage"      // PRELET_STAGE: the stage's address, or "gate", "commit", "verify"
	KeyGeneration = "generation" // PRELET_GENERATION
	KeyMessage    = "message_id" // MESSAGE_ID: 32 hexadecimal digits that name a kind of message
	KeyUnit       = "unit"       // OBJECT_SYSTEMD_UNIT: systemctl status and journalctl -u of that unit show the entry as well
)

// JournalSend hands one entry to journald; journal.Send of go-systemd is the real one.
type JournalSend func(message string, priority journal.Priority, fields map[string]string) error

// JournalHandler writes log records as journald entries with fields. Redact stands before every byte that leaves.
type JournalHandler struct {
	send   JournalSend
	redact func(string) string
	level  slog.Leveler
	fields map[string]string
	prefix string // of open groups, "A_B_"
}

// journalTimeout is how long an entry waits for a journald whose queue of messages is full.
const journalTimeout = time.Second

// NewJournalHandler returns a handler for slog.New. Pass journal.Send as send where JournalEnabled says so. An entry
// that send does not hand over within a second is an error, and so is, at once, every other until it has.
func NewJournalHandler(send JournalSend, redact func(string) string, level slog.Leveler) *JournalHandler {
	return &JournalHandler{send: (&journalQueue{send: send}).put, redact: redact, level: level, fields: map[string]string{"SYSLOG_IDENTIFIER": "prelet"}}
}

// journalQueue gives up waiting for a journald that does not read; journal.Send has no deadline. It is safe for
// concurrent use.
type journalQueue struct {
	send JournalSend

	mu   sync.Mutex
	late <-chan struct{} // closed when an entry that was given up has arrived after all; nil for none
}

// put sends an entry. While an earlier one waits it drops the entry, so that all of them together wait for a second.
func (q *journalQueue) put(message string, priority journal.Priority, fields map[string]string) error {
	q.mu.Lock()
	defer q.mu.Unlock()

	select {
	case <-q.late:
		q.late = nil
	default:
	}

	if q.late != nil {
		return fmt.Errorf("journal: dropped, because an earlier entry was not read: %w", os.ErrDeadlineExceeded)
	}

	sent, done := make(chan error, 1), make(chan struct{})

	go func() {
		defer close(done)
		sent <- q.send(message, priority, fields)
	}()

	err := waitSent(sent, journalTimeout)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		q.late = done
	}

	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}

	return nil
}

// NewJournalLogger returns a logger that writes entries with fields to the journal, from level info on. It returns nil
// if no journald listens. redact is applied to each text.
func NewJournalLogger(redact func(string) string) *slog.Logger {
	if !JournalEnabled() {
		return nil
	}
	return slog.New(NewJournalHandler(journal.Send, redact, slog.LevelInfo))
}

// JournalEnabled says whether a journald listens on this machine.
func JournalEnabled() bool { return journal.Enabled() }

// Enabled implements slog.Handler.
func (h *JournalHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.level.Level()
}

// Handle implements slog.Handler. Its error is for a second handler, if there is one: logging never decides anything.
func (h *JournalHandler) Handle(_ context.Context, record slog.Record) error {
	fields := make(map[string]string, len(h.fields)+record.NumAttrs())
	for name, value := range h.fields {
		fields[name] = value
	}
	record.Attrs(func(attr slog.Attr) bool {
		h.put(fields, h.prefix, attr)
		return true
	})
	return h.send(h.redact(record.Message), priority(record.Level), fields)
}

// WithAttrs implements slog.Handler.
func (h *JournalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.fields = make(map[string]string, len(h.fields)+len(attrs))
	for name, value := range h.fields {
		next.fields[name] = value
	}
	for _, attr := range attrs {
		h.put(next.fields, h.prefix, attr)
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

func (h *JournalHandler) put(fields map[string]string, prefix string, attr slog.Attr) {
	value := attr.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if attr.Key != "" {
			prefix += attr.Key + "_"
		}
		for _, member := range value.Group() {
			h.put(fields, prefix, member)
		}
		return
	}
	if attr.Key == "" {
		return
	}
	fields[fieldName(prefix+attr.Key)] = h.redact(value.String())
}

// fieldName makes a name that journald takes: upper-case letters, digits and "_", at most 64. go-systemd only complains
// of others on stderr and sends them all the same, so none may reach it.
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

func priority(level slog.Level) journal.Priority {
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
