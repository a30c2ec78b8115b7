package secret

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// minSecret is the least length in bytes of a secret that is redacted. A shorter one occurs in ordinary text by chance:
// redacting it would hide other text, and would show the secret by the places that are hidden.
const minSecret = 4

// Redactor removes the live secrets from all output: libraries put values into their diagnostics, and people put
// secrets into the wrong places. It finds each as it is, in base64 (standard and URL alphabet, with and without
// padding, at each of the three alignments inside of a longer text), in hexadecimal, and escaped as in JSON, in Go
// and in URLs, where every character is escaped or only those that have to be; long lines of a secret with several also
// alone. Overlapping matches become one "(sensitive)". Secrets
// of fewer than four bytes are ignored; those of less than eight small letters are found as whole words only. The
// secret half of a text that looks like a bootstrap token is always hidden.
//
// All methods are safe for concurrent use. [NewRedactor] makes a Redactor; the zero value is not usable.
type Redactor struct {
	parent *Redactor // also gets each secret; nil: none

	mu    sync.RWMutex
	known map[string]bool // a secret; hiddenKey and a text that is only hidden
	forms *forms
	given *forms // of secrets that were added, and not only hidden
	long  *forms // of these that are long enough for Holds
}

const hiddenKey = "hidden:"

// NewRedactor returns a redactor without secrets.
func NewRedactor() *Redactor {
	return &Redactor{
		known: map[string]bool{},
		forms: newForms(nil),
		given: newForms(nil),
		long:  newForms(nil),
	}
}

// NewChild returns a redactor without secrets whose secrets are also added to r. It is for one of several plans that a
// command makes: the output must contain no secret of any plan, and the secret of one must not change another.
func (r *Redactor) NewChild() *Redactor {
	child := NewRedactor()
	child.parent = r

	return child
}

func (r *Redactor) Add(secret []byte) {
	if r.parent != nil {
		r.parent.Add(secret)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[string(secret)] { // each part of a run that reads a credential adds it
		return
	}

	r.known[string(secret)] = true
	add := secretForms(secret)
	r.forms = newForms(append(r.forms.all, add...))
	r.given = newForms(append(r.given.all, add...))
	if len(bytes.TrimRight(secret, "\r\n")) >= minHeld {
		r.long = newForms(append(r.long.all, add...))
	}
}

// Hide adds a text that is a secret by its purpose, such as the value of a flag, and that the plan is made from: all
// output is without it, and [Redactor.Holds] does not report it. A word of less than eight small letters is ignored: it
// may be an ordinary word, such as true, and hiding it everywhere would reveal it.
func (r *Redactor) Hide(text string) {
	if isOrdinaryWord(text) || !isValue(text) {
		return
	}
	if r.parent != nil {
		r.parent.Hide(text)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if key := hiddenKey + text; !r.known[text] && !r.known[key] {
		r.known[key] = true
		r.forms = newForms(append(r.forms.all, secretForms([]byte(text))...))
	}
}

// Hidden returns the texts of Hide.
func (r *Redactor) Hidden() (out []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for key := range r.known {
		if text, isHidden := strings.CutPrefix(key, hiddenKey); isHidden {
			out = append(out, text)
		}
	}

	return out
}

// HideEvident hides the evident secrets of a text also where they occur without the context that makes them evident. A
// bootstrap token needs no context.
func (r *Redactor) HideEvident(text string) {
	for _, e := range FindEvident(text) {
		if e.What != aToken {
			r.Hide(text[e.Start:e.End])
		}
	}
}

// Given returns s without the secrets that were added, for a recording of the node's own.
func (r *Redactor) Given(s string) string {
	r.mu.RLock()
	f := r.given
	r.mu.RUnlock()

	return f.hideRest(s, f.replace(s))
}

// String returns s without secrets.
func (r *Redactor) String(s string) string {
	r.mu.RLock()
	f := r.forms
	r.mu.RUnlock()

	return f.hideRest(s, f.hide(f.cutParts(s)))
}

// forms is an immutable set of texts to look for.
type forms struct {
	all     []string
	byFirst [256][]string // longest first
	words   *forms        // those that may be ordinary words; nil in words
}

func newForms(all []string) *forms {
	f := indexForms(all)
	f.words = indexForms(slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !isOrdinaryWord(s) }))

	return f
}

func indexForms(all []string) *forms {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b string) int { return len(b) - len(a) })
	f := &forms{all: slices.Clip(all)}
	for _, s := range all {
		f.byFirst[s[0]] = append(f.byFirst[s[0]], s)
	}

	return f
}

// longest returns the length of the longest form at an offset of a text; 0 for none. A form that may be an ordinary
// word is found as a whole word only: "other" is not a part of "another".
func (f *forms) longest(s string, at int) int {
	for _, form := range f.byFirst[s[at]] {
		end := at + len(form)
		if !strings.HasPrefix(s[at:], form) {
			continue
		}
		isEscape := at > 1 && s[at-2] == '\\' && strings.IndexByte("nrt", s[at-1]) >= 0
		isPart := at > 0 && isLetter(s[at-1]) && !isEscape || end < len(s) && isLetter(s[end])
		if !isPart || !isOrdinaryWord(form) {
			return len(form)
		}
	}

	return 0
}

// isOrdinaryWord reports whether a text may be a word of any sentence.
func isOrdinaryWord(text string) bool {
	return len(text) < minHeld && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz") == ""
}

// isLetter reports whether a byte is a part of a word of letters.
func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// any reports whether a text contains a form.
func (f *forms) any(s string) bool {
	for i := range len(s) {
		if f.longest(s, i) > 0 {
			return true
		}
	}

	return false
}

// replace returns a text with one "(sensitive)" in place of each secret, or of secrets that overlap.
func (f *forms) replace(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); {
		end := i + f.longest(s, i)
		if end == i {
			out.WriteByte(s[i])
			i++
			continue
		}
		for j := i + 1; j < end; j++ {
			end = max(end, j+f.longest(s, j))
		}
		out.WriteString(sensitiveText)
		i = end
	}

	return out.String()
}

// hideRest returns the hidden form of a text without the words that became whole words when what they stood next to was
// hidden.
func (f *forms) hideRest(s, hidden string) string {
	if hidden == s || len(f.words.all) == 0 {
		return hidden
	}

	return f.words.replace(hidden)
}

// hide returns a text with one "(sensitive)" in place of each secret, or of secrets that overlap, and without the
// secret halves of tokens.
func (f *forms) hide(s string) string {
	evident := map[int]int{} // the end of each, by its start
	for _, e := range FindEvident(s) {
		if e.What != aToken {
			evident[e.Start] = e.End
		}
	}
	longest := func(i int) int { return max(f.longest(s, i), evident[i]-i) }
	cover := func(start, end int) int {
		for i := start; i < end; i++ {
			end = max(end, i+longest(i))
		}

		return end
	}

	var out strings.Builder
	for i := 0; i < len(s); {
		switch end := i + tokenSize; {
		case longest(i) > 0:
			out.WriteString(sensitiveText)
			i = cover(i, i+1)
		case isToken(s, i) && f.any(s[i:end]): // even the id is a part of something
			out.WriteString(sensitiveText)
			i = cover(i, end)
		case isToken(s, i):
			out.WriteString(s[i:i+tokenID+1] + hiddenText)
			i = cover(i, end)
		default:
			out.WriteByte(s[i])
			i++
		}
	}

	return out.String()
}
