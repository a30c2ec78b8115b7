package value

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"sync"
)

// minSecret is the length in bytes from which a secret is looked for. A shorter one stands in ordinary text by
// chance: redacting it would hide what it is not, and by showing where, tell what it is.
const minSecret = 4

// Redactor knows the live secrets and takes them out of whatever is printed or written: libraries put values into
// their diagnostics, and people put them where they should not be. Each is looked for as it is, in base64 (standard
// and URL alphabet, with and without padding, at each of the three alignments inside of a longer text), in
// hexadecimal, and escaped as in JSON, in Go and in URLs; long lines of one with several also by themselves.
// Overlapping finds become one "(sensitive)". Secrets of fewer than four bytes are not looked for. Of what looks like a
// bootstrap token, though nobody said that it is one, the secret half is hidden as well.
//
// All methods can be called at the same time. The zero Redactor is not usable; call [NewRedactor].
type Redactor struct {
	mu    sync.RWMutex
	known map[string]bool
	all   []string
	forms *forms
	long  *forms // those of secrets that are long enough for Holds
	held  []string
}

// NewRedactor is a redactor that knows no secret yet.
func NewRedactor() *Redactor {
	return &Redactor{known: map[string]bool{}, forms: newForms(nil), long: newForms(nil)}
}

// Add makes the redactor look for a secret from now on, also in writers that were made before.
func (r *Redactor) Add(secret []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[string(secret)] { // each part of a run that reads a credential adds it
		return
	}
	r.known[string(secret)] = true
	if add := secretForms(secret); len(add) > 0 {
		r.all = append(r.all, add...)
		r.forms = newForms(r.all)
		if len(bytes.TrimRight(secret, "\r\n")) >= minHeld {
			r.held = append(r.held, add...)
			r.long = newForms(r.held)
		}
	}
}

func (r *Redactor) current() *forms {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.forms
}

// String is s without the secrets.
func (r *Redactor) String(s string) string {
	f := r.current()
	s = f.cutParts(s)
	if !f.any(s) && !anyToken(s) {
		return s
	}
	var b strings.Builder
	f.cut([]byte(s), &cutState{}, true, &b)
	return b.String()
}

// Writer is w behind the redactor, also for secrets that are split over several calls of Write. It holds back the
// end of what was written only while that may be the beginning of a secret; Close writes what is held back, and
// leaves w open.
func (r *Redactor) Writer(w io.Writer) io.WriteCloser { return &redactingWriter{r: r, w: w} }

type redactingWriter struct {
	r  *Redactor
	w  io.Writer
	mu sync.Mutex
	cutState
}

func (w *redactingWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.pass(p, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes what is held back.
func (w *redactingWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pass(nil, true)
}

func (w *redactingWriter) pass(p []byte, last bool) error {
	var out bytes.Buffer
	w.r.current().cut(append(w.held, p...), &w.cutState, last, &out)
	if out.Len() == 0 {
		return nil
	}
	_, err := w.w.Write(out.Bytes())
	return err
}

// cutState is what lies between two calls of cut: bytes held back, and how many of the first of them are a part of a
// secret for which "(sensitive)" has already been written.
type cutState struct {
	held    []byte
	covered int
	before  byte // what stood before the first of them; 0 at the beginning
}

// forms is an immutable set of texts to look for.
type forms struct {
	byFirst [256][]string // longest first
	none    bool
}

func newForms(all []string) *forms {
	all = slices.Clone(all)
	slices.Sort(all)
	f := &forms{none: len(all) == 0}
	for _, s := range slices.Compact(all) {
		f.byFirst[s[0]] = append(f.byFirst[s[0]], s)
	}
	for _, ss := range f.byFirst {
		slices.SortStableFunc(ss, func(a, b string) int { return len(b) - len(a) })
	}
	return f
}

func (f *forms) any(s string) bool {
	if f.none {
		return false
	}
	for i := range len(s) {
		for _, form := range f.byFirst[s[i]] {
			if strings.HasPrefix(s[i:], form) {
				return true
			}
		}
	}
	return false
}

type stringWriter interface {
	io.Writer
	io.StringWriter
}

// cut writes buf without the secrets. Unless this is the last of it, it stops where a form may have begun of which buf
// does not hold the end, and leaves the rest in st. Where it is cut into pieces makes no difference to what it writes.
func (f *forms) cut(buf []byte, st *cutState, last bool, out stringWriter) {
	end := st.covered // all before it is a secret's, and "(sensitive)" is written for it
	i := 0
	for ; i < len(buf); i++ {
		rest := buf[i:]
		match, wait := 0, false
		for _, form := range f.byFirst[buf[i]] {
			switch {
			case len(form) > len(rest):
				wait = wait || !last && form[:len(rest)] == string(rest)
			case match == 0 && form == string(rest[:len(form)]):
				match = len(form)
			}
		}
		token := false
		if !wait && match == 0 && i >= end {
			before := st.before
			if i > 0 {
				before = buf[i-1]
			}
			token, wait = tokenAt(buf, i, before, last)
		}
		if wait {
			break
		}
		switch {
		case token && f.any(string(rest[1:tokenSize])): // even the id is a part of something
			_, _ = out.WriteString(sensitiveText)
			end = i + tokenSize
		case token:
			_, _ = out.Write(rest[:tokenID+1])
			_, _ = out.WriteString(hiddenText)
			end = i + tokenSize
		case match > 0 && i >= end:
			_, _ = out.WriteString(sensitiveText) // into memory: no error
			end = i + match
		case match > 0:
			end = max(end, i+match)
		case i >= end:
			_, _ = out.Write(buf[i : i+1])
		}
	}
	if i > 0 {
		st.before = buf[i-1]
	}
	st.held, st.covered = bytes.Clone(buf[i:]), max(0, end-i)
}
