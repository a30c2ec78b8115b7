// Package present is how results look: diagnostics, plans, facts, as text for people and as JSON for programs. It
// knows no command and reads nothing; its caller puts a redactor behind every writer.
package present

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
)

// Style is how text may look.
type Style struct {
	Colour bool
	Width  int
}

// StyleOf is the style for a writer: colour only on a terminal, never with NO_COLOR or TERM=dumb. The terminal is
// asked nothing.
func StyleOf(w io.Writer, getenv func(string) string) Style {
	s := Style{Width: 80}
	f, ok := w.(*os.File)
	s.Colour = ok && isatty.IsTerminal(f.Fd()) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
	return s
}

func (s Style) paint(code, text string) string {
	if !s.Colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

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
		out = append(out, strings.Join(wrap(strings.ReplaceAll(para, "\n", " "), width), "\n"))
	}
	return strings.Join(out, "\n\n")
}

// verbatim begins a line that is a command to paste: it is never broken.
const verbatim = "    "

// wrap breaks a text at spaces.
func wrap(t string, width int) []string {
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
