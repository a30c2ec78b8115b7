// Package manual writes manual pages: the text of a page as roff, which man(1) formats. It knows the Markdown of
// prelet's reference pages, and no other package of prelet.
package manual

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Page is a manual page.
type Page struct {
	Name    string // prelet-plan
	Section int    // of the manual: 5 for files, 8 for commands of an administrator
	Short   string // one line, for whatis
	Date    time.Time
	Version string
	body    strings.Builder
}

// String returns the page as roff.
func (p *Page) String() string {
	title := fmt.Sprintf(".TH %q \"%d\" %q %q %q\n", strings.ToUpper(p.Name), p.Section,
		p.Date.UTC().Format("Jan 2006"), p.Version, "prelet")
	hyphenation := ".nh\n.ad l\n" // of options and paths
	name := ".SH NAME\n" + Escape(p.Name) + " \\- " + Escape(p.Short) + "\n"

	return title + hyphenation + name + p.body.String()
}

// AddHeading begins a section.
func (p *Page) AddHeading(title string) {
	p.body.WriteString(".SH " + Escape(strings.ToUpper(title)) + "\n")
}

// AddItem adds a name with its description: an option, an argument, a command.
func (p *Page) AddItem(name, text string) {
	p.body.WriteString(".TP\n" + name + "\n" + protect(text) + "\n")
}

// AddText adds paragraphs of Markdown.
func (p *Page) AddText(markdown string) {
	lines := strings.Split(strings.TrimSpace(markdown), "\n")
	for len(lines) > 0 {
		n := p.addPart(lines)
		lines = lines[n:]
	}
}

// addPart adds the first part of some lines: a heading, a block of code, a table or a line of text. It returns how many
// lines that is.
func (p *Page) addPart(lines []string) int {
	line := lines[0]
	level, title, _ := strings.Cut(line, " ")
	switch {
	case line == "":
		p.body.WriteString(".PP\n")
	case level == "#":
		p.AddHeading(title)
	case level == "##", level == "###":
		p.body.WriteString(".SS " + Escape(strings.ReplaceAll(title, "`", "")) + "\n")
	case strings.HasPrefix(line, "```"):
		n := count(lines[1:], func(l string) bool {
			return l != "```"
		})
		p.AddLiteral(lines[1 : n+1])
		return min(n+2, len(lines)) // the end may be missing
	case strings.HasPrefix(line, "|"):
		n := count(lines, func(l string) bool {
			return strings.HasPrefix(l, "|")
		})
		p.addTable(lines[:n])
		return n
	case strings.HasPrefix(line, "- [") && strings.HasSuffix(line, ")"):
		// A table of contents: a manual page has no links.
	case strings.HasPrefix(line, "- "):
		p.body.WriteString(".IP \\(bu 2\n" + Inline(line[2:]) + "\n")
	default:
		p.body.WriteString(protect(Inline(strings.TrimLeft(line, " "))) + "\n")
	}

	return 1
}

func count(lines []string, holds func(string) bool) (n int) {
	for n < len(lines) && holds(lines[n]) {
		n++
	}

	return n
}

// AddLiteral adds lines that are kept as they are: commands, a part of a file.
func (p *Page) AddLiteral(lines []string) {
	p.body.WriteString(".PP\n.RS 2\n.nf\n")
	for _, l := range lines {
		p.body.WriteString(protect(Escape(l)) + "\n")
	}
	p.body.WriteString(".fi\n.RE\n")
}

// addTable adds a table as a list. The first cell of a row is the name; the cell of the column without a heading, or
// else the second one, is the description; the others follow the name.
func (p *Page) addTable(lines []string) {
	head := splitRow(lines[0])
	described := 1
	for i, title := range head {
		if title == "" {
			described = i
		}
	}

	for _, line := range lines[min(2, len(lines)):] {
		cells := splitRow(line)
		var others []string
		for i := 1; i < min(len(cells), len(head)); i++ {
			if i != described && cells[i] != "" && cells[i] != "-" {
				others = append(others, head[i]+" "+cells[i])
			}
		}
		name := "\\fB" + Inline(strings.ReplaceAll(cells[0], "`", "")) + "\\fR"
		if len(others) > 0 {
			name += " (" + Inline(strings.Join(others, ", ")) + ")"
		}
		text := ""
		if described < len(cells) {
			text = Inline(cells[described])
		}
		p.AddItem(name, text)
	}
}

// splitRow returns the cells of a row of a table.
func splitRow(line string) []string {
	const bar = "\x00"
	line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, bar)
	line = strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|")
	cells := strings.Split(line, "|")
	for i, c := range cells {
		cells[i] = strings.TrimSpace(strings.ReplaceAll(c, bar, "|"))
	}

	return cells
}

var (
	linkPattern = regexp.MustCompile(`\[([^\]]+)\]\([^)]*\)`)
	markPattern = regexp.MustCompile("\\*\\*([^*]+)\\*\\*|`([^`]+)`")
)

// Inline returns a line of Markdown as roff: code and strong text are bold, and of a link its text is left.
func Inline(text string) string {
	text = linkPattern.ReplaceAllString(text, "$1")
	var b strings.Builder
	last := 0
	for _, m := range markPattern.FindAllStringSubmatchIndex(text, -1) {
		inner := text[max(m[2], m[4]):max(m[3], m[5])]
		b.WriteString(Escape(text[last:m[0]]) + "\\fB" + Escape(inner) + "\\fR")
		last = m[1]
	}

	return b.String() + Escape(text[last:])
}

var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`)

// Escape returns a text in which no character has a meaning in roff, except at the beginning of a line: see protect.
func Escape(text string) string { return escapes.Replace(text) }

// protect keeps lines that begin with a dot or a quote from being requests.
func protect(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}

	return strings.Join(lines, "\n")
}
