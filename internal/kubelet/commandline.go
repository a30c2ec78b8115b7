package kubelet

import (
	"maps"
	"slices"
	"strings"
)

// Word is one argument of the kubelet, as systemd passes it, with the place that has it.
type Word struct {
	Text string
	From string // the unit or the file that has it, for people
	// Open is set for a word that is not known before the unit starts. If it is a whole variable, it may be any number
	// of words.
	Open bool
	// Assumed is set for a word of a variable that a file which is not known may set otherwise.
	Assumed bool
}

// Environment has the variables of a unit: Environment=, and later ones of its environment files.
type Environment struct {
	variables map[string]Word // Text is the whole value

	isPartly bool // the unit reads files that are not known: any other variable may be set
}

// AddUnknownFile takes note of an environment file whose variables are not known: it may set any.
func (e *Environment) AddUnknownFile() {
	e.isPartly = true
	for name, v := range e.variables {
		v.Assumed = true
		e.variables[name] = v
	}
}

// IsPartly reports whether the unit reads files that are not known.
func (e *Environment) IsPartly() bool { return e.isPartly }

// Set sets a variable; an earlier value has no effect.
func (e *Environment) Set(name string, value Word) {
	if e.variables == nil {
		e.variables = map[string]Word{}
	}
	e.variables[name] = value
}

// Unset removes a variable.
func (e *Environment) Unset(name string) { delete(e.variables, name) }

// AddFile sets the variables of an environment file.
func (e *Environment) AddFile(f *EnvFile, from string) {
	for _, name := range f.Names() {
		value, _ := f.Value(name)
		e.Set(name, Word{Text: value, From: from})
	}
}

// List returns the variables as NAME=VALUE, sorted.
func (e *Environment) List() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(e.variables)) {
		all = append(all, name+"="+e.variables[name].Text)
	}

	return all
}

// find returns the value of a variable. One whose name begins with % is a specifier (package systemd, AtStart), which
// has its value when the unit starts.
func (e *Environment) find(name string) Word {
	if strings.HasPrefix(name, "%") {
		return Word{Text: "${" + name + "}", Open: true}
	}
	v, isSet := e.variables[name]
	if !isSet && e.isPartly {
		return Word{Open: true, Assumed: true}
	}

	return v
}

// Expand returns the words of a command line with variables replaced as systemd does (systemd.service(5), "Command
// lines"; src/basic/env-util.c, replace_env_argv): a word $NAME is as many words as its value has, ${NAME} is a part of
// one word, whatever its value, and $$ is $. A variable that is not set is empty. from is the place of the command
// line.
func (e *Environment) Expand(words []string, from string) (out []Word) {
	for _, word := range words {
		name, isBare := strings.CutPrefix(word, "$")
		if !isBare || strings.HasPrefix(name, "$") || strings.HasPrefix(name, "{") {
			out = append(out, e.expandWord(word, from))
			continue
		}

		v := e.find(name)
		if v.Open {
			out = append(out, Word{Text: word, From: from, Open: true, Assumed: v.Assumed})
			continue
		}
		for _, text := range Argv(v.Text) {
			out = append(out, Word{Text: text, From: v.From, Assumed: v.Assumed})
		}
	}

	return out
}

// expandWord replaces what is in a word.
func (e *Environment) expandWord(word, from string) Word {
	out := Word{From: from}
	var text strings.Builder
	for rest := word; rest != ""; {
		before, after, hasDollar := strings.Cut(rest, "$")
		text.WriteString(before)
		rest = after
		name, behind, isClosed := strings.Cut(strings.TrimPrefix(after, "{"), "}")

		switch {
		case !hasDollar:
		case strings.HasPrefix(after, "$"):
			text.WriteString("$")
			rest = after[1:]
		case !strings.HasPrefix(after, "{") || !isClosed:
			text.WriteString("$")
		default:
			v := e.find(name)
			out.Open = out.Open || v.Open
			out.Assumed = out.Assumed || v.Assumed
			text.WriteString(v.Text)
			if rest = behind; word == "${"+name+"}" && !v.Open && len(Argv(v.Text)) != 1 {
				out.From = from + ", which passes " + word + " as one argument: write $" + name + " there"
			}
		}
	}
	out.Text = text.String()

	return out
}
