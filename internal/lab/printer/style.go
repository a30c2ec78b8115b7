// Package printer formats results, such as diagnostics, plans and facts, as text and pages for people and as JSON for
// programs. It is apart from cmd, because its output is tested without a process and is the same for all commands. Its
// caller writes to a Screen, which redacts secrets and keeps control characters from the terminal. It has no other side
// effects.
package printer

import (
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/prelet/prelet/internal/model/texts"
)

// Style is the format of text: colour and width.
type Style struct {
	Colour bool
	Width  int
	screen *Screen // nil in tests
}

// StyleOf returns the style for a writer: colour only on a terminal, never with NO_COLOR or TERM=dumb. It sends no
// query to the terminal.
func StyleOf(w io.Writer, getenv func(string) string) Style {
	screen, _ := w.(*Screen)
	isPlain := getenv("NO_COLOR") != "" || getenv("TERM") == "dumb"

	return Style{
		Colour: IsTerminal(w) && !isPlain,
		Width:  WidthOf(w, getenv),
		screen: screen,
	}
}

// Widths of text, in columns.
const (
	endless    = math.MaxInt32 // not a terminal: a line ends only where its writer ends it
	plainWidth = 80
	minWidth   = 40
)

// WidthOf returns how many columns text for a writer fills: those of a terminal, which COLUMNS overrides. Elsewhere no
// line is broken, so that other programs find a sentence in one line.
func WidthOf(w io.Writer, getenv func(string) string) int {
	f, isFile := Unscreened(w).(*os.File)
	if !isFile || !IsTerminal(w) {
		return endless
	}

	columns, err := strconv.Atoi(getenv("COLUMNS"))
	if err != nil || columns <= 0 {
		columns, _, err = term.GetSize(int(f.Fd()))
	}
	if err != nil || columns <= 0 { // as on a serial console
		return plainWidth
	}

	return max(columns, minWidth)
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

// clean redacts a text and makes control characters visible, so that it can be measured and cut.
func (s Style) clean(t string) string {
	if s.screen != nil {
		t = s.screen.redactor.String(t)
	}

	return texts.Escape(t)
}

// cell is clean for a text in one line.
func (s Style) cell(t string) string { return texts.EscapeLine(s.clean(t)) }

func (s Style) bold(t string) string   { return s.paint("1", t) }
func (s Style) green(t string) string  { return s.paint("32", t) }
func (s Style) red(t string) string    { return s.paint("31", t) }
func (s Style) yellow(t string) string { return s.paint("33", t) }
func (s Style) dim(t string) string    { return s.paint("2", t) }

// pad fills a text to a width in characters.
func pad(t string, width int) string {
	return t + strings.Repeat(" ", max(0, width-columns(t)))
}

// Reflow breaks the paragraphs of a text at a width. Empty lines separate paragraphs. Where the width has no end, the
// text keeps its own lines.
func Reflow(t string, width int) string {
	if width > endless/2 {
		return t
	}

	var out []string
	for _, paragraph := range strings.Split(t, "\n\n") {
		line := strings.ReplaceAll(paragraph, "\n", " ")
		out = append(out, strings.Join(breakAt(line, width), "\n"))
	}

	return strings.Join(out, "\n\n")
}

// verbatim is the prefix of a line with a command to paste, which is never broken.
const verbatim = "    "

// wrap cleans a text and breaks it at spaces.
func (s Style) wrap(t string, width int) []string {
	return breakAt(s.clean(t), width)
}

// breakAt breaks the lines of a text at spaces.
func breakAt(t string, width int) (out []string) {
	for _, paragraph := range strings.Split(t, "\n") {
		if strings.HasPrefix(paragraph, verbatim) {
			out = append(out, paragraph)
			continue
		}

		line := ""
		for _, word := range strings.Fields(paragraph) {
			if line != "" && columns(line)+1+columns(word) > width {
				out = append(out, line)
				line = ""
			}
			line = joinParts(" ", line, word)
		}
		out = append(out, line)
	}

	return out
}
