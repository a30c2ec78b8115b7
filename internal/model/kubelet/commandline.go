package kubelet

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
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

	place     string // of the command line
	isLiteral bool   // systemd replaces no variables in it
	isPartly  bool   // the unit reads files that are not known: any other variable may be set
	unset     []string
}

// NewEnvironment returns the variables with which a unit starts. Those whose value is not shown are open.
func NewEnvironment(start tape.StartAns) Environment {
	e := Environment{place: cmp.Or(start.At, "the kubelet's unit"), isLiteral: start.Literal}
	for _, name := range start.Sets {
		e.Set(name, Word{From: e.place, Open: true})
	}
	for name, text := range start.Vars {
		e.Set(name, Word{Text: text, From: cmp.Or(start.VarsAt[name], e.place)})
	}
	for _, file := range start.Files {
		variables, isRead := start.Read[file]
		if !isRead {
			e.AddUnknownFile()
		}
		for name, text := range variables {
			word := Word{From: file, Open: text == nil}
			if text != nil {
				word.Text = *text
			}
			e.Set(name, word)
		}
	}

	e.unset = start.Unset
	for _, unset := range start.Unset {
		name, text, hasValue := strings.Cut(unset, "=")
		if v := e.variables[name]; !hasValue || !v.Open && v.Text == text {
			delete(e.variables, name)
		}
	}

	return e
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

// From returns the place that sets a variable; "" if none does.
func (e *Environment) From(name string) string { return e.variables[name].From }

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
	if !isSet && e.isPartly && !slices.Contains(e.unset, name) {
		return Word{Open: true, Assumed: true}
	}

	return v
}

// Expand returns the words of a command line with variables replaced as systemd does (systemd.service(5), "Command
// lines"; src/basic/env-util.c, replace_env_argv): a word $NAME is as many words as its value has, ${NAME} is a part of
// one word, whatever its value, and $$ is $. A variable that is not set is empty. Words with a part that is withheld,
// or that has its value when the unit starts, are open.
func (e *Environment) Expand(words []string) (out []Word) {
	for _, word := range words {
		name, isBare := strings.CutPrefix(word, "$")
		switch v := e.find(name); {
		case e.isLiteral && strings.Contains(word, "$"):
			out = append(out, Word{Text: word, From: e.place + ": " + WhyLiteral})
		case e.isLiteral:
			out = append(out, Word{Text: word, From: e.place})
		case !isBare || strings.HasPrefix(name, "$") || strings.HasPrefix(name, "{"):
			out = append(out, e.expandWord(word))
		case v.Open:
			out = append(out, Word{Text: word, From: e.place, Open: true, Assumed: v.Assumed})
		default:
			for _, text := range Argv(v.Text) {
				out = append(out, Word{Text: text, From: v.From, Assumed: v.Assumed})
			}
		}
	}
	for i, w := range out {
		out[i].Open = w.Open || strings.Contains(w.Text, atStart) || secret.HasPlaceholder(w.Text)
	}

	return out
}

// WhyLiteral is why a command line has variables that are not replaced.
const WhyLiteral = "the colon before the program keeps systemd from replacing variables"

// atStart begins a specifier that has its value when the unit starts (package systemd, AtStart).
const atStart = "${%"

// expandWord replaces the variables inside of a word.
func (e *Environment) expandWord(word string) Word {
	out := Word{From: e.place}
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
				out.From = e.place + ", which passes " + word + " as one argument: write $" + name + " there"
			}
		}
	}
	out.Text = text.String()

	return out
}
