package kubelet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Flags is the kubelet's flags as one text, kept as it was written. Reading follows systemd for the words (Argv)
// and pflag for what the words mean; writing replaces the one token that a change is about.
//
// What pflag makes of words: `--name=value`, `--name value`, `-v=4`, `-v 4`, `-v4`; a boolean flag takes no word
// after it; _ in a name is the same as -; everything behind a lone `--` is no flag.
// In one thing this package is kinder: where a flag that wants a value is followed by a word that begins with
// "-" and is no number, pflag would take that word as the value, and nobody means that; it is read as a flag.
type Flags struct {
	raw   string
	env   bool // raw is spelled as in an environment file, not a bare value
	words []word
	uses  []use
}

// word is one argument and where raw says it.
type word struct {
	text       string
	start, end int
	in         context
}

// use is one flag on the command line.
type use struct {
	name  string // without dashes, with - for _
	value string
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

// ParseFlags reads a bare value, as it stands in the process's environment after systemd has read the file.
// For a value inside its file use EnvFile.Get. It fails for text that systemd refuses and for more than 1 MiB.
func ParseFlags(value string) (*Flags, error) {
	if err := checkText(value, "flags"); err != nil {
		return nil, err
	}
	return newFlags(value, false), nil
}

// FlagsOf reads the words of a command line, behind the program. They cannot be changed.
func FlagsOf(argv []string) *Flags {
	f := &Flags{}
	for _, text := range argv {
		f.words = append(f.words, word{text: text})
	}
	f.uses = readUses(f.words)

	return f
}

// JoinFlag returns the value that the kubelet takes for a flag which is given twice.
func JoinFlag(name, first, second string) string {
	if !isListFlag(FlagName(name)) || first == "" || second == "" {
		return cmp.Or(second, first)
	}

	return first + "," + second
}

func newFlags(raw string, env bool) *Flags {
	f := &Flags{raw: raw, env: env}
	f.words = readWords(raw, env)
	f.uses = readUses(f.words)
	return f
}

func readWords(raw string, env bool) []word {
	value, cells := raw, []cell(nil)
	if env {
		value, cells, _ = decodeEnvValue(raw, 0)
	}
	split := splitWords(value)
	words := make([]word, len(split))
	for i, w := range split {
		words[i] = word{w.text, w.start, w.end, bare}
		if env {
			first, last := cells[w.start], cells[w.end-1]
			words[i].start, words[i].end, words[i].in = first.start, last.end, first.in
			for _, c := range cells[w.start:w.end] {
				if c.in != first.in {
					words[i].in = mixed
				}
			}
		}
	}
	return words
}

func readUses(words []word) []use {
	var uses []use
	for i := 0; i < len(words); i++ {
		text := words[i].text
		if text == "--" {
			break
		}
		u, ok := readUse(text)
		if !ok {
			continue
		}
		u.first, u.last = i, i
		if u.form == alone {
			switch {
			case isBoolFlag(u.name):
				u.value = "true"
			case i+1 < len(words) && isValueWord(words[i+1].text):
				i++
				u.form, u.value, u.last = spaced, words[i].text, i
			}
		}
		uses = append(uses, u)
	}
	return uses
}

// readUse reads one word as a flag, or says that it is none.
func readUse(text string) (use, bool) {
	if len(text) < 2 || text[0] != '-' {
		return use{}, false
	}
	if strings.HasPrefix(text, "--") {
		name, value, has := strings.Cut(text[2:], "=")
		if name == "" || name[0] == '-' { // pflag: bad flag syntax
			return use{}, false
		}
		u := use{name: canonicalFlag(name), value: value}
		if has {
			u.form = equals
		}
		return u, true
	}
	if c := text[1] | 0x20; c < 'a' || c > 'z' {
		return use{}, false
	}
	u := use{name: text[1:2]} // a shorthand; the kubelet has v and h
	switch rest := text[2:]; {
	case strings.HasPrefix(rest, "="):
		u.form, u.value = equals, rest[1:]
	case rest != "":
		u.form, u.value = attached, rest
	}
	return u, true
}

// canonicalFlag is a flag's name as the kubelet's parser knows it, which takes _ and - for the same (component-base,
// cli/flag, WordSepNormalizeFunc).
func canonicalFlag(name string) string { return strings.ReplaceAll(name, "_", "-") }

// isValueWord says whether a word can be the value of the flag before it.
func isValueWord(text string) bool {
	if !strings.HasPrefix(text, "-") || text == "-" {
		return true
	}
	return text[1] >= '0' && text[1] <= '9' // --oom-score-adj -999
}

// Argv returns the words as the kubelet gets them from systemd.
func (f *Flags) Argv() []string {
	argv := make([]string, len(f.words))
	for i, w := range f.words {
		argv[i] = w.text
	}
	return argv
}

// Names returns each flag once, in the order of first use, without dashes.
func (f *Flags) Names() []string {
	var names []string
	for _, u := range f.uses {
		if !slices.Contains(names, u.name) {
			names = append(names, u.name)
		}
	}
	return names
}

// Stray returns the words that are no flag and no flag's value. The kubelet refuses to start for the first of
// them ("unknown command"); the usual cause is a line with # inside of the quotes, which comments nothing out.
func (f *Flags) Stray() []string {
	taken := make([]bool, len(f.words))
	for _, u := range f.uses {
		taken[u.first], taken[u.last] = true, true
	}
	var stray []string
	for i, w := range f.words {
		if !taken[i] && w.text != "--" {
			stray = append(stray, w.text)
		}
	}
	return stray
}

// Lookup returns the value that the kubelet takes for a flag (with or without its dashes): of several uses the
// last, and for flags that add up (node-labels, feature-gates, …) all of them, joined by commas. A boolean flag
// alone is "true"; another flag alone is "".
func (f *Flags) Lookup(name string) (value string, ok bool) {
	uses := f.usesOf(FlagName(name))
	if len(uses) == 0 {
		return "", false
	}
	last := uses[len(uses)-1]
	if len(uses) == 1 || !isListFlag(last.name) {
		return last.value, true
	}
	var values []string
	for _, u := range uses {
		if u.value != "" {
			values = append(values, u.value)
		}
	}
	return strings.Join(values, ","), true
}

// FlagName is the one name of a flag, however it is spelled: without dashes in front, and with - for _.
func FlagName(name string) string { return canonicalFlag(strings.TrimLeft(name, "-")) }

func (f *Flags) usesOf(name string) []use {
	var found []use
	for _, u := range f.uses {
		if u.name == name {
			found = append(found, u)
		}
	}
	return found
}

// checkNew refuses what cannot stand on a kubelet's command line.
func checkNew(name, value string) error {
	for i := range len(name) {
		if c := name[i]; !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.') {
			return fmt.Errorf("flag %q: a flag's name has letters, digits, - and . only", name)
		}
	}
	if name == "" || name[0] == '-' || name[0] == '.' {
		return fmt.Errorf("flag %q: a flag's name begins with a letter", name)
	}
	if i := invalidText(value); i >= 0 || strings.ContainsAny(value, "\r\n") {
		return fmt.Errorf("flag --%s: the value has a line break or a byte that is no text, which no unit can hand over: take it out", name)
	}
	if len(value) > maxEnvFile {
		return fmt.Errorf("flag --%s: a value of %d bytes", name, len(value))
	}
	return nil
}
