package world

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/prelet/prelet/internal/fault"
)

// HoldBack keeps secrets out of a recording, whichever way they came into an answer. holds reports whether any part of
// a text is a secret, and redact writes a text without. An answer with a secret is replaced by a failure with that
// reason, which a replay sees; a question with one is left out; in the site's files and in reasons the secret is
// redacted.
func (r *Recording) HoldBack(holds func(string) bool, redact func(string) string) {
	r.Header.Site = slices.Clone(r.Header.Site)
	for i, f := range r.Header.Site {
		r.Header.Site[i].Text = redact(f.Text)
	}

	r.Entries = slices.DeleteFunc(
		slices.Clone(r.Entries),
		func(e Entry) bool { return holdsJSON([]byte(e.Args), holds) },
	)
	for i := range r.Entries {
		a := &r.Entries[i].Answer
		a.Because = redact(a.Because)
		if f := a.Fault; f != nil {
			*a = Failure(f.Code, redact(a.Why()), redact(f.Next))
			continue
		}
		if holdsJSON(a.Value, holds) {
			*a = Failure(fault.Denied, "held back: it holds a secret of the node that was recorded", "")
		}
	}
}

// holdsJSON looks into each text of a document, member names included.
func holdsJSON(text []byte, holds func(string) bool) bool {
	isPlain := !bytes.ContainsRune(text, '\\') // each of its texts is in it as it is
	if isPlain && !holds(string(text)) {
		return false
	}

	var v any
	if json.Unmarshal(text, &v) != nil {
		return holds(string(text))
	}
	return HoldsIn(v, holds)
}

// HoldsIn reports whether holds is true for a text in a decoded document, member names included. It writes the document
// again as it is, so no other goroutine may use it meanwhile.
func HoldsIn(v any, holds func(string) bool) bool {
	isFound := false
	look := func(s string) string {
		isFound = isFound || holds(s)
		return s
	}
	rewrite(v, look, look)

	return isFound
}
