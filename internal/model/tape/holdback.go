package tape

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/prelet/prelet/internal/fault"
)

// HoldBack keeps secrets out of a recording, whichever way they came into an answer. holds reports whether any part of
// a text is a secret, and redact writes a text without. An answer with a secret is replaced by a failure with that
// reason, which a replay sees; a question with one is left out; in the site's files and in reasons the secret is
// redacted. hide writes a text of an answer without values that the plan is made from and that may be secrets; the hash
// of a file is that of its text then, so that a replay finds the file as planned.
func (r *Recording) HoldBack(holds func(string) bool, redact, hide func(string) string) {
	r.Header.Site = slices.Clone(r.Header.Site)
	for i, f := range r.Header.Site {
		r.Header.Site[i].Text = redact(f.Text)
	}

	r.Entries = slices.DeleteFunc(
		slices.Clone(r.Entries),
		func(e Entry) bool { return holdsJSON([]byte(e.Args), holds) },
	)
	for i := range r.Entries {
		e := &r.Entries[i]
		if v, isChanged := hideIn([]byte(e.Args), hide); isChanged {
			if args, err := json.Marshal(v); err == nil {
				e.Args = string(args)
			}
		}
		a := &e.Answer
		a.Because = hide(redact(a.Because))
		if f := a.Fault; f != nil {
			*a = Failure(f.Code, hide(redact(a.Why())), hide(redact(f.Next)))
			continue
		}
		if holdsJSON(a.Value, holds) {
			*a = Failure(fault.Denied, "held back: it holds a secret of the node that was recorded", "")
			continue
		}
		a.hide(hide)
	}
}

// hide changes the texts of an answer.
func (a *Answer) hide(hide func(string) string) {
	v, isChanged := hideIn(a.Value, hide)
	if !isChanged {
		return
	}
	if file, isFile := v.(map[string]any); isFile && file["sha256"] != nil {
		text, _ := file["text"].(string)
		sum := sha256.Sum256([]byte(text))
		file["sha256"] = hex.EncodeToString(sum[:])
	}
	if changed, err := json.Marshal(v); err == nil {
		a.Value = changed
	}
}

// hideIn returns a document with its texts changed, and whether any of them was: most stay as they are, byte for byte.
func hideIn(document []byte, hide func(string) string) (v any, isChanged bool) {
	if json.Unmarshal(document, &v) != nil {
		return nil, false
	}
	keep := func(key string) string { return key }
	v = rewrite(v, keep, func(s string) string {
		changed := hide(s)
		isChanged = isChanged || changed != s

		return changed
	})

	return v, isChanged
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
