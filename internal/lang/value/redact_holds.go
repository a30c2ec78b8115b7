package value

import "strings"

// minHeld is the length in bytes from which a secret inside of a text is taken for that secret. A shorter one may be a word
// that the text has anyway: it counts only where it is the whole text.
const minHeld = 8

// Holds reports whether a text holds a secret that the redactor knows, in any of the forms that it looks for. It is for
// refusing a text, where String hides a part of one.
func (r *Redactor) Holds(s string) bool {
	r.mu.RLock()
	long, short := r.long, r.known[strings.TrimRight(s, "\r\n")] || r.known[strings.TrimSpace(s)]
	r.mu.RUnlock()
	return short && len(strings.TrimSpace(s)) >= minSecret || long.any(s)
}

// HoldsToken reports whether a text holds what looks like a bootstrap token.
func HoldsToken(s string) bool { return anyToken(s) }
