package server

import (
	"bytes"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/apparentlymart/go-textseg/v15/textseg"
	"github.com/hashicorp/hcl/v2"
)

// offsetOf returns the byte of a position in a text. A position outside of the text is moved to its line's end, or to
// the end of the text: clients send positions of a text that has changed in the meantime.
func offsetOf(text string, p position) int {
	start := 0
	for line := 0; line < p.Line; line++ {
		n := strings.IndexByte(text[start:], '\n')
		if n < 0 {
			return len(text)
		}
		start += n + 1
	}

	end := len(text)
	if n := strings.IndexByte(text[start:], '\n'); n >= 0 {
		end = start + n
		if end > start && text[end-1] == '\r' {
			end--
		}
	}
	at, units := start, 0
	for at < end && units < p.Character {
		r, size := utf8.DecodeRuneInString(text[at:])
		at += size
		units += utf16Units(r)
	}

	return at
}

// positionOf returns the position of a byte in a text. A byte outside of the text is moved to its end, and one between
// CR and LF to the end of the line.
func positionOf(text string, offset int) position {
	offset = min(max(offset, 0), len(text))
	before := text[:offset]
	if strings.HasPrefix(text[offset:], "\n") {
		before = strings.TrimSuffix(before, "\r")
	}
	start := strings.LastIndexByte(before, '\n') + 1
	p := position{Line: strings.Count(before, "\n")}
	for _, r := range before[start:] {
		p.Character += utf16Units(r)
	}

	return p
}

func utf16Units(r rune) int {
	if r > 0xffff {
		return 2
	}

	return 1
}

// spanOf returns a range of HCL, which counts bytes.
func spanOf(text string, r hcl.Range) span {
	return span{
		Start: positionOf(text, r.Start.Byte),
		End:   positionOf(text, max(r.End.Byte, r.Start.Byte)),
	}
}

// posOf returns a byte as a position of HCL, whose columns are grapheme clusters.
func posOf(text string, offset int) hcl.Pos {
	before := []byte(text[:offset])
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	column, err := textseg.TokenCount(line, textseg.ScanGraphemeClusters)
	if err != nil {
		column = len(line)
	}

	return hcl.Pos{
		Line:   bytes.Count(before, []byte("\n")) + 1,
		Column: column + 1,
		Byte:   offset,
	}
}

// pathOf returns the file that a URI names. Other schemes, such as that of a text without a name, have none.
func pathOf(uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || !path.IsAbs(u.Path) {
		return "", false
	}

	return path.Clean(u.Path), true
}

func uriOf(file string) string {
	u := url.URL{Scheme: "file", Path: file}

	return u.String()
}

// lastLine returns the part of the line before a byte.
func lastLine(text string, offset int) string {
	before := text[:offset]

	return before[strings.LastIndexByte(before, '\n')+1:]
}

// restOfLine returns the part of the line behind a byte, without its end.
func restOfLine(text string, offset int) string {
	rest, _, _ := strings.Cut(text[offset:], "\n")

	return strings.TrimSuffix(rest, "\r")
}
