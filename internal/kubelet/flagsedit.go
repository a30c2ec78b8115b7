package kubelet

import (
	"slices"
	"strings"
)

// A change is an edit of the text where it says the word, read back at once: the words must then be the planned
// ones. Where the surroundings do not allow it (a ' inside of '…', one word over two quoted parts) all words are
// spelled anew. So a change is minimal where it can be, and right always.

// replacement puts words in the place of words first to last of the text; first == last+1 inserts.
type replacement struct {
	first, last int
	words       []string
}

// apply returns flags whose words are f's with one replacement.
func (f *Flags) apply(r replacement) *Flags {
	argv := slices.Concat(f.Argv()[:r.first], r.words, f.Argv()[r.last+1:])
	if raw, ok := f.splice(r); ok {
		if next := newFlags(raw, f.env); slices.Equal(next.Argv(), argv) {
			return next
		}
	}
	return newFlags(f.spellOut(argv), f.env)
}

// spellOut spells all words anew.
func (f *Flags) spellOut(argv []string) string {
	if f.env {
		return quoteAssignment(argv)
	}
	spelled := make([]string, len(argv))
	for i, w := range argv {
		spelled[i] = quoteWord(w, `""`)
	}
	return strings.Join(spelled, " ")
}

func (f *Flags) splice(r replacement) (raw string, ok bool) {
	if len(f.words) == 0 {
		return "", false
	}
	switch {
	case len(r.words) == 0:
		return f.cut(r.first, r.last), true
	case r.first > r.last:
		if r.first == 0 {
			return "", false
		}
		before := f.words[r.first-1]
		gap := f.gapBefore(r.first)
		return f.raw[:before.end] + gap + f.spell(r.words, before.in) + f.raw[before.end:], before.in != mixed
	default:
		first, last := f.words[r.first], f.words[r.last]
		return f.raw[:first.start] + f.spell(r.words, first.in) + f.raw[last.end:], first.in != mixed && first.in == last.in
	}
}

// cut takes words out, with the space before them; of the first words the space behind.
func (f *Flags) cut(first, last int) string {
	if first > 0 {
		return f.raw[:f.words[first-1].end] + f.raw[f.words[last].end:]
	}
	end := f.words[last].end
	if last+1 < len(f.words) {
		end = f.words[last+1].start
	}
	return f.raw[:f.words[0].start] + f.raw[end:]
}

func (f *Flags) spell(words []string, in context) string {
	empty := `""`
	if in == double {
		empty = `''`
	}
	spelled := make([]string, len(words))
	for i, w := range words {
		spelled[i] = encodeEnv(quoteWord(w, empty), in)
	}
	return strings.Join(spelled, " ")
}

// gapBefore is what a new flag behind word i-1 is separated by: as the last flag before it is from its
// predecessor, so that a base with one flag a line stays one.
func (f *Flags) gapBefore(i int) string {
	for j := len(f.uses) - 1; j >= 0; j-- {
		u := f.uses[j]
		if u.last >= i || u.first == 0 || f.words[u.first-1].in != f.words[u.first].in {
			continue
		}
		gap := f.raw[f.words[u.first-1].end:f.words[u.first].start]
		if strings.Trim(gap, " \t\r\n\\") == "" {
			return gap
		}
		break
	}
	return " "
}

// Set gives a flag a value, alters only its own token, and leaves the text untouched when the flag has that value
// already. A flag that is there keeps its spelling (`--a b` stays in two words); a new one goes behind the others,
// spelled as most of them are. It is always `--a=b` for register-with-taints (an empty or forgotten word after it
// would empty the taints of the configuration), for boolean flags, and where `--a b` would read otherwise.
// Of several uses the one that counts is altered; of flags that add up, the last is and the others go.
// It fails for a name or value that no command line can hold, and changes nothing then.
func (f *Flags) Set(name, value string) error {
	name = FlagName(name)
	if err := checkNew(name, value); err != nil {
		return err
	}
	if old, ok := f.Lookup(name); ok && old == value {
		return nil
	}
	if isListFlag(name) {
		for uses := f.usesOf(name); len(uses) > 1; uses = f.usesOf(name) {
			*f = *f.apply(replacement{first: uses[0].first, last: uses[0].last})
		}
	}
	uses := f.usesOf(name)
	if len(uses) == 0 {
		f.add(name, value)
		return nil
	}
	u := uses[len(uses)-1]
	spelled := f.words[u.first].text
	switch {
	case u.form == spaced && spaceable(name, value):
		*f = *f.apply(replacement{u.last, u.last, []string{value}})
		return nil
	case u.form == attached && value != "" && value[0] != '=':
		spelled = spelled[:2] + value
	case u.form == attached:
		spelled = spelled[:2] + "=" + value
	case u.form == equals:
		spelled = spelled[:strings.IndexByte(spelled, '=')+1] + value
	default:
		spelled += "=" + value
	}
	*f = *f.apply(replacement{u.first, u.last, []string{spelled}})
	return nil
}

// spaceable says whether `--name value` in two words reads as meant.
func spaceable(name, value string) bool {
	return name != "register-with-taints" && !isBoolFlag(name) && isValueWord(value)
}

func (f *Flags) add(name, value string) {
	words := []string{"--" + name + "=" + value}
	if f.prefersSpace() && spaceable(name, value) {
		words = []string{"--" + name, value}
	}
	at := slices.IndexFunc(f.words, func(w word) bool { return w.text == "--" })
	if at < 0 {
		at = len(f.words)
	}
	*f = *f.apply(replacement{at, at - 1, words})
}

func (f *Flags) prefersSpace() bool {
	balance := 0
	for _, u := range f.uses {
		switch u.form {
		case spaced:
			balance++
		case equals:
			balance--
		}
	}
	return balance > 0
}
