// Package present is how results look: diagnostics, plans, facts, as text for people and as JSON for programs. It
// knows no command and reads nothing; its caller writes to a Screen, which knows secrets and keeps texts from acting on a
// terminal.
package present

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/lang/value"
)

// Style is how text may look.
type Style struct {
	Colour bool
	Width  int
	screen *Screen // nil: none, as in tests
}

// StyleOf is the style for a writer: colour only on a terminal, never with NO_COLOR or TERM=dumb. The terminal is
// asked nothing.
func StyleOf(w io.Writer, getenv func(string) string) Style {
	s := Style{Width: 80}
	s.screen, _ = w.(*Screen)
	s.Colour = IsTerminal(w) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
	return s
}

func (s Style) paint(code, text string) string {
	if !s.Colour {
		return text
	}
	pen := "\x1b"
	if s.screen != nil {
		pen = s.screen.pen
	}
	return pen + "[" + code + "m" + text + pen + "[0m"
}

// clean is a text as it may be laid out: what is cut or broken afterwards holds no part of a secret, and is as wide as it
// will be seen.
func (s Style) clean(t string) string {
	if s.screen != nil {
		t = s.screen.redactor.String(t)
	}
	return value.Visible(t)
}

// cell is clean for what stands in one line.
func (s Style) cell(t string) string { return value.VisibleLine(s.clean(t)) }

func (s Style) bold(t string) string   { return s.paint("1", t) }
func (s Style) green(t string) string  { return s.paint("32", t) }
func (s Style) red(t string) string    { return s.paint("31", t) }
func (s Style) yellow(t string) string { return s.paint("33", t) }
func (s Style) dim(t string) string    { return s.paint("2", t) }

// pad fills a text to a width in characters.
func pad(t string, n int) string {
	if w := utf8.RuneCountInString(t); w < n {
		return t + strings.Repeat(" ", n-w)
	}
	return t
}

// Reflow breaks the paragraphs of a text, which empty lines part, at a width.
func Reflow(t string, width int) string {
	var out []string
	for _, para := range strings.Split(t, "\n\n") {
		out = append(out, strings.Join(breakAt(strings.ReplaceAll(para, "\n", " "), width), "\n"))
	}
	return strings.Join(out, "\n\n")
}

// verbatim begins a line that is a command to paste: it is never broken.
const verbatim = "    "

// wrap cleans a text and breaks it at spaces.
func (s Style) wrap(t string, width int) []string { return breakAt(s.clean(t), width) }

// breakAt breaks a text at spaces.
func breakAt(t string, width int) []string {
	var out []string
	for _, para := range strings.Split(t, "\n") {
		if strings.HasPrefix(para, verbatim) {
			out = append(out, para)
			continue
		}
		line := ""
		for _, w := range strings.Fields(para) {
			switch {
			case line == "":
				line = w
			case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(w) > width:
				out = append(out, line)
				line = w
			default:
				line += " " + w
			}
		}
		out = append(out, line)
	}
	return out
}
