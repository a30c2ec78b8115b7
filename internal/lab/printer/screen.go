package printer

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-isatty"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/texts"
)

// Screen writes to a terminal, a pipe or the journal. It redacts the secrets that its redactor knows, and escapes
// control and invisible characters as JSON does, and workflow commands of a GitHub runner. Colours are kept: they begin
// with a random pen, which no input can contain.
type Screen struct {
	to       io.Writer
	redactor *secret.Redactor
	pen      string
	// Hold, unless it is nil, is called with each text before it is written, and the function that it returns
	// afterwards.
	Hold func(text string) (release func())

	mu   sync.Mutex
	held []byte // an incomplete character
	line lineHead
}

// lineHead is the beginning of a line, over several writes.
type lineHead struct {
	colons int // at its begin; -1: something else
	hashes int // in a row
}

func NewScreen(to io.Writer, r *secret.Redactor) *Screen {
	return &Screen{
		to:       to,
		redactor: r,
		pen:      "\x1b" + rand.Text(),
	}
}

// Unscreened returns the writer below a screen, for a file that a command writes to its standard output. Its bytes must
// not change, so its content was redacted before.
func Unscreened(w io.Writer) io.Writer {
	if s, ok := w.(*Screen); ok {
		return s.to
	}

	return w
}

// IsTerminal reports whether a writer, or the writer of a screen, is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := Unscreened(w).(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// Write implements io.Writer. An incomplete character is kept until its other bytes are written.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := append(s.held, p...)
	n := countWhole(all)
	s.held = append([]byte(nil), all[n:]...)
	if err := s.put(string(all[:n])); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes an incomplete character, and leaves the writer below open.
func (s *Screen) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := string(s.held)
	s.held = nil
	return s.put(held)
}

func (s *Screen) put(text string) error {
	if text == "" {
		return nil
	}
	text = s.line.disarm(s.show(text), `\u%04x`)

	return writeExact(s, text)
}

// writeExact writes a text to the writer below a screen, as it is.
func writeExact(w io.Writer, text string) error {
	if s, ok := w.(*Screen); ok && s.Hold != nil {
		defer s.Hold(text)()
	}
	_, err := io.WriteString(Unscreened(w), text)

	return err
}

// show redacts and escapes a text, and puts colours into it.
func (s *Screen) show(text string) string {
	var out []string
	for _, part := range strings.Split(s.redactor.String(text), s.pen) {
		out = append(out, texts.Escape(part))
	}

	return strings.Join(out, "\x1b")
}

// disarm escapes "::" at the begin of a line and "##[" anywhere: GitHub's runner takes them as commands of a workflow,
// such as ::stop-commands::, also in the text of a recording or a site (actions/runner, ActionCommand.TryParse).
// format is that of an escape.
func (l *lineHead) disarm(text, format string) string {
	var b strings.Builder
	for _, r := range text {
		isSecondColon := r == ':' && l.colons == 1
		isCommand := r == '[' && l.hashes >= 2
		if isSecondColon || isCommand {
			fmt.Fprintf(&b, format, r)
		} else {
			b.WriteRune(r)
		}

		l.add(r)
	}

	return b.String()
}

func (l *lineHead) add(r rune) {
	switch {
	case r == '\n':
		l.colons = 0
	case l.colons >= 0 && r == ':':
		l.colons++
	case l.colons > 0 || !unicode.IsSpace(r):
		l.colons = -1
	}

	if r == '#' {
		l.hashes++
	} else {
		l.hashes = 0
	}
}

// Commands returns the writer for commands of a workflow that prelet itself gives: Screen would escape them.
func Commands(w io.Writer) io.Writer {
	if s, ok := w.(*Screen); ok {
		return commandWriter{s}
	}

	return w
}

type commandWriter struct{ screen *Screen }

// Write implements io.Writer. It gets whole lines.
func (c commandWriter) Write(p []byte) (int, error) {
	c.screen.mu.Lock()
	defer c.screen.mu.Unlock()
	if err := writeExact(c.screen, c.screen.show(string(p))); err != nil {
		return 0, err
	}

	return len(p), nil
}

// countWhole returns the number of bytes of p without an incomplete character at the end.
func countWhole(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if at := len(p) - n; utf8.RuneStart(p[at]) {
			if utf8.FullRune(p[at:]) {
				break
			}
			return at
		}
	}
	return len(p)
}
