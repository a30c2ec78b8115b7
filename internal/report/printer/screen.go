package printer

import (
	"crypto/rand"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/mattn/go-isatty"

	"github.com/prelet/prelet/internal/lang/value"
)

// Screen writes to a terminal, a pipe or the journal. It redacts the secrets that its redactor knows, and escapes
// control and invisible characters as JSON does. Colours are kept: they begin with a random pen, which no input can
// contain.
type Screen struct {
	to       io.Writer
	redactor *value.Redactor
	pen      string

	mu   sync.Mutex
	held []byte // an incomplete character
}

// NewScreen returns a screen that writes to a writer.
func NewScreen(to io.Writer, r *value.Redactor) *Screen {
	return &Screen{
		to:       to,
		redactor: r,
		pen:      "\x1b" + rand.Text(),
	}
}

// Unscreened returns the writer below a screen, for a file that a command writes to its standard output. Its bytes must
// not change, so what is in it was redacted before.
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
	var out []string
	for _, part := range strings.Split(s.redactor.String(text), s.pen) {
		out = append(out, value.Visible(part))
	}
	_, err := io.WriteString(s.to, strings.Join(out, "\x1b"))
	return err
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
