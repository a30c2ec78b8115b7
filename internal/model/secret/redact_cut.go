package secret

import (
	"strings"
	"unicode/utf8"
)

// ellipsis ends every text that prelet cuts.
const ellipsis = "…"

// Cut shortens a line to a width in characters; an ellipsis replaces the rest.
func Cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}

	return string([]rune(text)[:width-1]) + ellipsis
}

// Tail is a writer that keeps the last Most bytes of an output, for messages: a secret may be at the cut.
type Tail struct {
	Most  int
	kept  []byte
	isCut bool
}

// Write implements io.Writer.
func (t *Tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	t.isCut = t.isCut || len(t.kept) > t.Most
	if len(t.kept) > 2*t.Most {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.Most:]...)
	}

	return len(p), nil
}

// Text returns the last bytes, after an ellipsis if there were more, by which a redactor finds the end of a secret.
func (t *Tail) Text() string {
	if !t.isCut {
		return string(t.kept)
	}
	last := t.kept[len(t.kept)-t.Most:]
	for len(last) > 0 && !utf8.RuneStart(last[0]) {
		last = last[1:]
	}

	return ellipsis + string(last)
}

// minCut is the length in bytes from which a text next to an ellipsis counts as a part of a secret.
const minCut = 6

const quotes = "\"'`"

// cutParts hides parts of secrets that were cut before the redactor saw them: the beginning of a secret before an
// ellipsis, the end of one after it. A quote may be in between.
func (f *forms) cutParts(s string) string {
	if !strings.Contains(s, ellipsis) {
		return s
	}

	parts := strings.Split(s, ellipsis)
	for i := range parts {
		if i < len(parts)-1 {
			text := strings.TrimRight(parts[i], quotes)
			quote := parts[i][len(text):]
			isBeginning := func(form string, n int) bool { return strings.HasSuffix(text, form[:n]) }
			if n := f.longestPart(len(text), isBeginning); n > 0 {
				parts[i] = text[:len(text)-n] + sensitiveText + quote
			}
		}
		if i > 0 {
			text := strings.TrimLeft(parts[i], quotes)
			quote := parts[i][:len(parts[i])-len(text)]
			isEnd := func(form string, n int) bool { return strings.HasPrefix(text, form[len(form)-n:]) }
			if n := f.longestPart(len(text), isEnd); n > 0 {
				parts[i] = quote + sensitiveText + text[n:]
			}
		}
	}

	return strings.Join(parts, ellipsis)
}

// longestPart returns the largest n, at most limit, for which a form matches.
func (f *forms) longestPart(limit int, matches func(form string, n int) bool) (longest int) {
	for _, form := range f.all {
		for n := min(len(form)-1, limit); n >= max(minCut, longest+1); n-- {
			if matches(form, n) {
				longest = n
			}
		}
	}

	return longest
}
