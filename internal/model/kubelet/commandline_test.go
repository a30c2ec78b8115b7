package kubelet

import (
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/tape"
)

// TestFlagsOfWords reads a whole command line: a flag takes the next word of whatever place, and what is not known before
// the unit starts does not count as evidence.
func TestFlagsOfWords(t *testing.T) {
	for _, c := range []struct{ words, want string }{ // a word is TEXT@PLACE, or ? where it is open
		{"--a@u 1@f --b=2@f", "a=1@u b=2@f"},
		{"--a@u --b=2@f", "a=--b=2@u!takes-flag"},
		{"--a=1@u --node-ip@f", "a=1@u node-ip=@f!no-value"},
		{"-v@f", "v=@f!no-value"},
		{"--a@u ? --b=2@f --c@f", "b=2@f c=@f!no-value"},
		{"? 1@f --b=2@f 3@f", "b=2@f stray 3@f"},
		{"--a=1@u ?", "a=1@u"},
		{"--a@u ?", ""},
		{"--fail-swap-on@u false@f", "fail-swap-on=true@u stray false@f"},
		{"--a@u --@f b@f", "a=--@u!takes-flag stray b@f"},
		{"--a=1@u --@f --b=2@f --@f", "a=1@u stray --b=2@f stray --@f"},
		{"@u -@u ---x@u -1@u", "stray @u stray -@u stray ---x@u stray -1@u"},
		{"--oom-score-adj@u -999@u", "oom-score-adj=-999@u"},
	} {
		var words []Word
		for _, w := range strings.Split(c.words, " ") {
			text, from, isKnown := strings.Cut(w, "@")
			words = append(words, Word{Text: text, From: from, Open: !isKnown})
		}
		f := FlagsOf(words)
		var got, whole, parts []string
		for _, u := range f.Uses() {
			text := u.Name + "=" + u.Value + "@" + u.From
			whole = append(whole, text)
			if u.NoValue {
				text += "!no-value"
			}
			if u.TakesFlag {
				text += "!takes-flag"
			}
			got = append(got, text)
		}
		for _, w := range f.Stray() {
			got = append(got, "stray "+w.Text+"@"+w.From)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: got %s, want %s", c.words, text, c.want)
		}

		for _, part := range f.BySource() {
			for _, u := range part.Uses() {
				parts = append(parts, u.Name+"="+u.Value+"@"+part.From())
			}
		}
		if !slices.Equal(parts, whole) {
			t.Errorf("%s: got %q by source, want %q", c.words, parts, whole)
		}
	}
}

// TestExpand replaces variables as systemd does (src/basic/env-util.c, replace_env_argv).
func TestExpand(t *testing.T) {
	e := NewEnvironment(tape.StartAns{At: "u"})
	e.Set("TWO", Word{Text: `--a "b c"`, From: "f"})
	e.Set("START", Word{Open: true})
	expand := func(word string) string {
		var got []string
		for _, w := range e.Expand([]string{word}) {
			text := w.Text + "@" + w.From
			if w.Open {
				text = "open"
			}
			if w.Assumed {
				text += " assumed"
			}
			got = append(got, text)
		}

		return strings.Join(got, "|")
	}

	for word, want := range map[string]string{
		"$TWO":         "--a@f|b c@f",
		"--x=${TWO}":   `--x=--a "b c"@u`,
		"${TWO}":       `--a "b c"@u, which passes ${TWO} as one argument: write $TWO there`,
		"--x=$TWO":     "--x=$TWO@u",
		"$$TWO":        "$TWO@u",
		"a$$b${GONE}c": "a$bc@u",
		"$GONE":        "",
		"${":           "${@u",
		"$START":       "open",
		"--x=${START}": "open",
		"--x=${%H}":    "open",
	} {
		if got := expand(word); got != want {
			t.Errorf("%s: got %s, want %s", word, got, want)
		}
	}

	e.AddUnknownFile() // it may set any variable
	e.Set("LATER", Word{Text: "x", From: "g"})
	for word, want := range map[string]string{
		"$GONE":      "open assumed",
		"$TWO":       "--a@f assumed|b c@f assumed",
		"--x=${TWO}": `--x=--a "b c"@u assumed`,
		"$LATER":     "x@g",
	} {
		if got := expand(word); got != want {
			t.Errorf("%s, and a file that is not known: got %s, want %s", word, got, want)
		}
	}
}
