package kubelet

import (
	"slices"
	"strings"
)

// A change edits the word in the text and parses the result. If the words then differ from the wanted ones (a '
// within '…', one word over two quoted parts), all words are written again. So a change is minimal if possible, and
// always right.

// replacement replaces the words from first to last; first == last+1 inserts.
type replacement struct {
	first, last int
	words       []string
}

func (f *Flags) apply(r replacement) *Flags {
	before, after := f.Argv()[:r.first], f.Argv()[r.last+1:]
	argv := slices.Concat(before, r.words, after)
	if raw, ok := f.splice(r); ok {
		if next := newFlags(raw, f.env); slices.Equal(next.Argv(), argv) {
			return next
		}
	}
	return newFlags(f.spellOut(argv), f.env)
}

// spellOut writes all words again.
func (f *Flags) spellOut(argv []string) string {
	if f.env {
		return quoteAssignment(argv)
	}

	return joinQuoted(argv, `""`)
}

func (f *Flags) splice(r replacement) (raw string, ok bool) {
	if len(f.words) == 0 {
		return "", false
	}
	switch {
	case len(r.words) == 0:
		return f.removeWords(r.first, r.last), true
	case r.first > r.last:
		if r.first == 0 {
			return "", false
		}
		before := f.words[r.first-1]
		inserted := f.gapBefore(r.first) + f.spell(r.words, before.in)

		head, tail := f.raw[:before.end], f.raw[before.end:]
		return head + inserted + tail, before.in != mixed
	}

	first := f.words[r.first]
	last := f.words[r.last]
	isUniform := first.in != mixed && first.in == last.in

	inserted := f.spell(r.words, first.in)

	return f.raw[:first.start] + inserted + f.raw[last.end:], isUniform
}

// removeWords removes words and the space before them; for the first words, the space after them.
func (f *Flags) removeWords(first, last int) string {
	if first > 0 {
		before := f.words[first-1]
		return f.raw[:before.end] + f.raw[f.words[last].end:]
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

	return encodeEnv(joinQuoted(words, empty), in)
}

// gapBefore returns the separator for a new flag after word i-1: the one before the last flag, so that a base with
// one flag per line keeps this form.
func (f *Flags) gapBefore(i int) string {
	for _, u := range slices.Backward(f.uses) {
		if u.last >= i || u.first == 0 {
			continue
		}
		before := f.words[u.first-1]
		own := f.words[u.first]
		if before.in != own.in {
			continue
		}
		gap := f.raw[before.end:own.start]
		if strings.Trim(gap, " \t\r\n\\") == "" {
			return gap
		}
		break
	}
	return " "
}

// Set sets a flag and changes only its words; it changes nothing if the flag has the value. An existing flag keeps
// its form (`--a b` stays two words); a new one follows the others in their prevailing form. The form is always
// `--a=b` for boolean flags, for register-with-taints, where an empty word would remove the configuration's taints,
// and if `--a b` would have another meaning. Of several uses the last one is changed; those of a list flag become
// one. It fails, and changes nothing, for a name or value that a command line cannot have.
func (f *Flags) Set(name, value string) error {
	name = FlagName(name)
	if err := CheckFlag(name, value); err != nil {
		return err
	}
	if old, ok := f.Lookup(name); ok && old == value {
		return nil
	}
	if isListFlag(name) {
		for uses := f.usesOf(name); len(uses) > 1; uses = f.usesOf(name) {
			removal := replacement{first: uses[0].first, last: uses[0].last}
			*f = *f.apply(removal)
		}
	}
	uses := f.usesOf(name)
	if len(uses) == 0 {
		f.add(name, value)
		return nil
	}
	u := uses[len(uses)-1]
	spelled := f.words[u.first].Text
	switch {
	case u.form == spaced && canBeSpaced(name, value):
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

// canBeSpaced reports whether people and the kubelet read `--name value` in two words as this flag.
func canBeSpaced(name, value string) bool {
	return name != "register-with-taints" && !isBoolFlag(name) && isValueWord(value)
}

func (f *Flags) add(name, value string) {
	words := []string{"--" + name + "=" + value}
	if f.prefersSpace() && canBeSpaced(name, value) {
		words = []string{"--" + name, value}
	}
	at := f.end
	if f.isWithoutValue(at - 1) {
		at--
	}
	*f = *f.apply(replacement{at, at - 1, words})
}

// isWithoutValue reports whether a word is a flag without a value. The kubelet would take the next word as its value,
// whatever that is.
func (f *Flags) isWithoutValue(at int) bool {
	return slices.ContainsFunc(f.uses, func(u Use) bool {
		return u.first == at && u.NoValue
	})
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

// isValueWord reports whether a word looks like the value of the flag before it.
func isValueWord(text string) bool {
	if !strings.HasPrefix(text, "-") || text == "-" {
		return true
	}
	return text[1] >= '0' && text[1] <= '9' // --oom-score-adj -999
}
