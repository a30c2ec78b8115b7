package kubelet

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Flags is a text of the kubelet's flags. It is split into words as systemd does (Argv), and the words are read as
// pflag does; a change replaces only the words of its flag.
//
// pflag reads `--name=value`, `--name value`, `-v=4`, `-v 4` and `-v4`; a boolean flag takes no word after it; _ in a
// name equals -; nothing after a lone `--` is a flag. A flag that needs a value takes the next word, whatever that is.
type Flags struct {
	raw   string
	env   bool // raw is the spelling of an environment file, not a plain value
	words []word
	uses  []Use
	end   int // the index of the lone `--`; without one, the number of words
}

// word is one argument and its place in raw.
type word struct {
	Word
	start, end int
	in         context
}

// Use is one flag on a command line.
type Use struct {
	Name      string // without dashes, with - for _
	Value     string
	From      string // the place of its word, see Word
	Assumed   bool
	NoValue   bool // it needs a value, and is the last word
	TakesFlag bool // its value is the next word, which looks like a flag

	form  form
	first int // index of its word
	last  int // index of its value's word: first, or the next one
}

type form byte

const (
	alone    form = iota // --name
	equals               // --name=value
	spaced               // --name value
	attached             // -v4
)

// ParseFlags parses a plain value, as in the environment of a process. EnvFile.Get parses a value in its file. It
// fails for a text that systemd rejects and for more than maxEnvFile.
func ParseFlags(value string) (*Flags, error) {
	if err := checkText(value, "flags"); err != nil {
		return nil, err
	}
	return newFlags(value, false), nil
}

// FlagsOf reads the arguments of a command line. They cannot be changed. It leaves out an open word, and a flag whose
// value that may be.
func FlagsOf(words []Word) *Flags {
	f := &Flags{}
	for _, w := range words {
		f.words = append(f.words, word{Word: w})
	}
	f.uses, f.end = readUses(f.words)

	return f
}

// JoinFlag returns the value that the kubelet uses for a flag that is set twice.
func JoinFlag(name, first, second string) string {
	if !isListFlag(FlagName(name)) || first == "" || second == "" {
		return cmp.Or(second, first)
	}

	return first + "," + second
}

func newFlags(raw string, env bool) *Flags {
	f := &Flags{raw: raw, env: env}
	f.words = readWords(raw, env)
	f.uses, f.end = readUses(f.words)
	return f
}

func readWords(raw string, env bool) []word {
	if !env {
		return splitWords(raw)
	}
	value, cells, _ := decodeEnvValue(raw, 0)
	words := splitWords(value)
	for i, w := range words {
		words[i] = locateWord(w, cells)
	}

	return words
}

// locateWord returns a word of a value with its place in the environment file.
func locateWord(w word, cells []cell) word {
	own := cells[w.start:w.end]
	first, last := own[0], own[len(own)-1]
	located := word{w.Word, first.start, last.end, first.in}
	isOther := func(c cell) bool { return c.in != first.in }
	if slices.ContainsFunc(own, isOther) {
		located.in = mixed
	}

	return located
}

func readUses(words []word) (uses []Use, end int) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w.Text == "--" && !w.Open {
			return uses, i
		}
		u, ok := readUse(w.Text)
		if !ok || w.Open {
			continue
		}
		u.From, u.Assumed, u.first, u.last = w.From, w.Assumed, i, i
		switch {
		case u.form != alone:
		case isBoolFlag(u.Name):
			u.Value = "true"
		case i+1 == len(words): // pflag: flag needs an argument
			u.NoValue = true
		case words[i+1].Open:
			continue
		default:
			i++
			u.form, u.Value, u.last = spaced, words[i].Text, i
			u.TakesFlag = !isValueWord(u.Value)
		}
		uses = append(uses, u)
	}

	return uses, len(words)
}

// readUse reads one word as a flag; false if it is not one.
func readUse(text string) (Use, bool) {
	if len(text) < 2 || text[0] != '-' {
		return Use{}, false
	}
	if strings.HasPrefix(text, "--") {
		name, value, has := strings.Cut(text[2:], "=")
		if name == "" || name[0] == '-' { // pflag: bad flag syntax
			return Use{}, false
		}
		u := Use{Name: FlagName(name), Value: value}
		if has {
			u.form = equals
		}
		return u, true
	}
	if c := text[1] | 0x20; c < 'a' || c > 'z' {
		return Use{}, false
	}
	u := Use{Name: text[1:2]} // a shorthand; the kubelet has v and h
	switch rest := text[2:]; {
	case strings.HasPrefix(rest, "="):
		u.form, u.Value = equals, rest[1:]
	case rest != "":
		u.form, u.Value = attached, rest
	}
	return u, true
}

// Argv returns the words as the kubelet gets them from systemd.
func (f *Flags) Argv() []string {
	argv := make([]string, len(f.words))
	for i, w := range f.words {
		argv[i] = w.Text
	}

	return argv
}

// Names returns each flag once, in the order of first use, without dashes.
func (f *Flags) Names() []string {
	var names []string
	for _, u := range f.uses {
		if !slices.Contains(names, u.Name) {
			names = append(names, u.Name)
		}
	}
	return names
}

// Stray returns the words that are neither flags nor values of flags. The kubelet exits for the first of them ("unknown
// command"); the usual cause is a line with # within the quotes, which is not a comment.
func (f *Flags) Stray() (stray []Word) {
	taken := make([]bool, len(f.words))
	for _, u := range f.uses {
		taken[u.first], taken[u.last] = true, true
	}

	for i, w := range f.words {
		mayBeValue := i > 0 && i < f.end && f.words[i-1].Open
		_, isFlag := readUse(w.Text)
		isOfOpen := isFlag && i < f.end && i+1 < len(f.words) && f.words[i+1].Open
		if !taken[i] && !w.Open && !mayBeValue && !isOfOpen && i != f.end {
			stray = append(stray, w.Word)
		}
	}

	return stray
}

// MayHave reports whether a word that is not known may be a flag, or have its value.
func (f *Flags) MayHave(name string) bool {
	isValue := false // of the flag before it
	for i, w := range f.words[:f.end] {
		u, isUse := readUse(w.Text)
		isNamed := isUse && !strings.Contains(u.Name, "$")
		takesOpen := isNamed && u.form == alone && !isBoolFlag(u.Name) && i+1 < f.end && f.words[i+1].Open
		switch isMany := strings.HasPrefix(w.Text, "$") && !strings.HasPrefix(w.Text, "${"); {
		case isNamed && (w.Open || takesOpen) && u.Name == name:
			return true
		case w.Open && !isNamed && (isMany || !isValue):
			return true
		}
		isValue = takesOpen
	}

	return false
}

// Uses returns all flags, in their order.
func (f *Flags) Uses() []Use { return f.uses }

// LacksValue reports whether the only use of a flag that needs a value has none: the kubelet does not start.
func (f *Flags) LacksValue(name string) bool {
	uses := f.usesOf(FlagName(name))

	return len(uses) == 1 && uses[0].NoValue
}

// BySource splits flags that follow each other into those of one place each.
func (f *Flags) BySource() (all []*Flags) {
	for i, u := range f.uses {
		words := f.words[u.first : u.last+1]
		if i == 0 || u.From != f.uses[i-1].From {
			all = append(all, &Flags{})
		}
		part := all[len(all)-1]
		u.first = len(part.words)
		u.last = u.first + len(words) - 1
		part.words = append(part.words, words...)
		part.uses = append(part.uses, u)
		part.end = len(part.words)
	}

	return all
}

// From returns the place of the first word; "" without words.
func (f *Flags) From() string {
	if len(f.words) == 0 {
		return ""
	}

	return f.words[0].From
}

// Lookup returns the value that the kubelet uses for a flag, whose name may have dashes: the last one, or all values
// of a list flag (node-labels, feature-gates, …), joined by commas. A boolean flag without a value is "true", another
// one "".
func (f *Flags) Lookup(name string) (value string, ok bool) {
	for _, u := range f.usesOf(FlagName(name)) {
		if isListFlag(u.Name) {
			u.Value = JoinFlag(u.Name, value, u.Value)
		}
		value, ok = u.Value, true
	}

	return value, ok
}

// LookupPath returns the path that a flag names; see FlagPath.
func (f *Flags) LookupPath(folder, name string) string {
	value, _ := f.Lookup(name)

	return FlagPath(folder, value)
}

// FlagPath returns the path in the value of a flag; "" for an empty value, which names no file and no folder. folder is
// the working folder of the unit; "" is the root.
func FlagPath(folder, value string) string {
	switch {
	case value == "":
		return ""
	case path.IsAbs(value):
		return path.Clean(value)
	}

	return path.Join("/", folder, value)
}

// Earlier returns the values of a flag that the kubelet parses and does not use: those before the last one, but not of
// a list flag.
func (f *Flags) Earlier(name string) (values []string) {
	for _, u := range f.Parsed() {
		if u.Name == FlagName(name) {
			values = append(values, u.Value)
		}
	}

	return slices.Clip(values[:max(0, len(values)-1)])
}

// Parsed returns each use of which the kubelet parses the value alone, and those of a list flag, which it adds up, as
// one.
func (f *Flags) Parsed() (all []Use) {
	for _, u := range f.uses {
		isSame := func(other Use) bool { return other.Name == u.Name && isListFlag(u.Name) }
		if i := slices.IndexFunc(all, isSame); i >= 0 {
			u.Value = JoinFlag(u.Name, all[i].Value, u.Value)
			u.NoValue = u.NoValue || all[i].NoValue
			u.TakesFlag = u.TakesFlag || all[i].TakesFlag
			all = slices.Delete(all, i, i+1)
		}
		all = append(all, u)
	}

	return all
}

// Spellings returns each value of a flag twice: as the kubelet gets it, and as the text has it, quoted or escaped.
func (f *Flags) Spellings(name string) (values []string) {
	for _, u := range f.usesOf(FlagName(name)) {
		last := f.words[u.last]
		written := f.raw[last.start:last.end]
		switch u.form {
		case alone:
			continue
		case equals:
			_, written, _ = strings.Cut(written, "=")
		}
		values = append(values, u.Value, written)
	}

	return values
}

// FlagName returns the canonical name of a flag: without leading dashes, and with - for _, as the kubelet's parser does
// (component-base, cli/flag, WordSepNormalizeFunc).
func FlagName(name string) string { return strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-") }

func (f *Flags) usesOf(name string) (found []Use) {
	for _, u := range f.uses {
		if u.Name == name {
			found = append(found, u)
		}
	}
	return found
}

// CheckFlag rejects names and values that a unit cannot pass to the kubelet.
func CheckFlag(name, value string) error {
	isValid := name != "" && strings.Trim(name, letters+digits+"-.") == ""
	if !isValid || name[0] == '-' || name[0] == '.' {
		return fmt.Errorf("invalid flag name %q: want letters, digits, - and ., a letter first", name)
	}
	if findInvalidText(value) >= 0 || strings.ContainsAny(value, "\r\n") {
		return fmt.Errorf(
			"flag --%s: the value has a line break or an invalid byte, which a unit cannot pass: remove it",
			name,
		)
	}
	if len(value) > maxEnvFile {
		return fmt.Errorf("flag --%s: a value of %d bytes, the limit is %d", name, len(value), maxEnvFile)
	}

	return nil
}
