package value

import (
	"bytes"
	"io"
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
// and in URLs; long lines of a secret with several also alone. Overlapping matches become one "(sensitive)". Secrets
// of fewer than four bytes are ignored. The secret half of a text that looks like a bootstrap token is always hidden.
//
// All methods are safe for concurrent use. [NewRedactor] makes a Redactor; the zero value is not usable.
type Redactor struct {
	parent *Redactor // also gets each secret; nil: none

	mu    sync.RWMutex
	known map[string]bool
	all   []string
	forms *forms
	long  *forms // of secrets that are long enough for Holds
	held  []string
}

// NewRedactor returns a redactor without secrets.
func NewRedactor() *Redactor {
	return &Redactor{
		known: map[string]bool{},
		forms: newForms(nil),
		long:  newForms(nil),
	}
}

// NewChild returns a redactor without secrets whose secrets are also added to r. It is for one of several plans that a
// command makes: what is printed must contain no secret of any plan, and the secret of one must not change another.
func (r *Redactor) NewChild() *Redactor {
	child := NewRedactor()
	child.parent = r

	return child
}

// Add adds a secret, also for writers that exist already.
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

// String returns s without secrets.
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

// Writer returns a writer to w without secrets, also those split over several calls of Write. It delays the end of the
// text only while that may be the beginning of a secret; Close writes the delayed text and leaves w open.
func (r *Redactor) Writer(w io.Writer) io.WriteCloser {
	return &redactingWriter{r: r, w: w}
}

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

// Close writes the delayed text.
func (w *redactingWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pass(nil, true)
}

func (w *redactingWriter) pass(p []byte, last bool) error {
	var out bytes.Buffer
	text := append(w.held, p...)
	w.r.current().cut(text, &w.cutState, last, &out)
	if out.Len() == 0 {
		return nil
	}
	_, err := w.w.Write(out.Bytes())
	return err
}

// cutState is the state between two calls of cut: delayed bytes, and how many of the first of them are a part of a
// secret for which "(sensitive)" has already been written.
type cutState struct {
	held    []byte
	covered int
	before  byte // the byte before the first of them; 0 at the beginning
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
		slices.SortStableFunc(ss, func(a, b string) int {
			return len(b) - len(a)
		})
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

// cut writes buf without secrets. Unless buf is the last part of the text, it stops where a form may begin that is
// longer than the rest, and leaves the rest in st. The output does not depend on how the text is split.
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
