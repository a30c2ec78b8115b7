package present

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

// Screen is the one way to a terminal, a pipe or the journal. What is written loses the secrets that its redactor knows, and
// what would act on a terminal, or is not seen there, is written as an escape. Colours are exempt, because they are painted
// with a pen that no input can hold. The escapes are also those of JSON.
type Screen struct {
	to       io.Writer
	redactor *value.Redactor
	pen      string

	mu   sync.Mutex
	held []byte // the beginning of a character
}

// NewScreen puts a screen before a writer.
func NewScreen(to io.Writer, r *value.Redactor) *Screen {
	return &Screen{to: to, redactor: r, pen: "\x1b" + rand.Text()}
}

// IsTerminal says whether a writer, or what is behind a screen, is a terminal.
func IsTerminal(w io.Writer) bool {
	if s, ok := w.(*Screen); ok {
		w = s.to
	}
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// Write implements io.Writer. A character that is cut in two is written with its other part.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := append(s.held, p...)
	n := whole(all)
	s.held = append([]byte(nil), all[n:]...)
	if err := s.put(string(all[:n])); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes what is held, and leaves the writer below open.
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

// whole is how many bytes of p are whole characters, or can be none.
func whole(p []byte) int {
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
