package secret

// minHeld is the least length in bytes of a secret that Holds finds. A shorter one may be an ordinary word: a label
// with it must not stop a boot.
const minHeld = 8

// Holds reports whether a text contains a known secret, in any of its forms. Callers refuse such a text, while String
// hides a part of it.
func (r *Redactor) Holds(s string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()

	return r.long.any(s)
}
