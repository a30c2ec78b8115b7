package value

import "strings"

// ellipsis is what every text of prelet has where it was cut.
const ellipsis = "…"

// minCut is the length in bytes from which a part of a secret beside an ellipsis is taken for one.
const minCut = 6

// cutParts hides what is left of a secret that was cut before the redactor saw it: the beginning of one before an ellipsis,
// the end of one after it. A quote may stand between.
func (f *forms) cutParts(s string) string {
	if f.none || !strings.Contains(s, ellipsis) {
		return s
	}
	parts := strings.Split(s, ellipsis)
	for i := range parts {
		if i < len(parts)-1 {
			text := strings.TrimRight(parts[i], "\"'`")
			if n := f.longestPart(text, strings.HasSuffix, func(form string, n int) string { return form[:n] }); n > 0 {
				parts[i] = text[:len(text)-n] + sensitiveText + parts[i][len(text):]
			}
		}
		if i > 0 {
			text := strings.TrimLeft(parts[i], "\"'`")
			if n := f.longestPart(text, strings.HasPrefix, func(form string, n int) string { return form[len(form)-n:] }); n > 0 {
				parts[i] = parts[i][:len(parts[i])-len(text)] + sensitiveText + text[n:]
			}
		}
	}
	return strings.Join(parts, ellipsis)
}

// longestPart is the length of the longest part of a form that a text has at an end.
func (f *forms) longestPart(text string, has func(s, part string) bool, part func(form string, n int) string) (longest int) {
	for _, all := range f.byFirst {
		for _, form := range all {
			for n := min(len(form)-1, len(text)); n >= max(minCut, longest+1); n-- {
				if has(text, part(form, n)) {
					longest = n
				}
			}
		}
	}
	return longest
}
