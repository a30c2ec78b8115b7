package kubelet

import "strings"

// Replace returns the words with other values of some flags. replace returns the new value of a use of a flag, by its
// name without dashes.
func (f *Flags) Replace(replace func(name, value string) string) []string {
	out := f.Argv()
	for _, u := range f.uses {
		value := replace(u.Name, u.Value)
		if value == u.Value {
			continue
		}
		switch u.form {
		case alone, equals: // alone: a boolean flag
			name, _, _ := strings.Cut(out[u.first], "=")
			out[u.first] = name + "=" + value
		case spaced:
			out[u.last] = value
		case attached:
			out[u.first] = out[u.first][:2] + value
		}
	}

	return out
}

// DropOpen returns words without those that are not known before their unit starts, and without a flag whose value is
// not known.
func DropOpen(words []Word) (known []Word) {
	for _, w := range words {
		uses := FlagsOf(known).Uses()
		switch {
		case !w.Open:
			known = append(known, w)
		case len(uses) == 0 || strings.HasPrefix(w.Text, "-"):
		case uses[len(uses)-1].NoValue:
			known = known[:len(known)-1]
		}
	}

	return known
}
