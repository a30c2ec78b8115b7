package kubelet

import (
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestFlagsOfWords reads a whole command line: a flag takes the next word of whatever place, and what is not known before
// the unit starts does not count as evidence.
func TestFlagsOfWords(t *testing.T) {
	for _, c := range table.YAML[[]struct{ Words, Want string }](t, `
- {words: --a@u 1@f --b=2@f, want: a=1@u b=2@f}
- {words: --a@u --b=2@f, want: a=--b=2@u!takes-flag}
- {words: --a=1@u --node-ip@f, want: a=1@u node-ip=@f!no-value}
- {words: -v@f, want: v=@f!no-value}
- {words: '--a@u ? --b=2@f --c@f', want: b=2@f c=@f!no-value}
- {words: '? 1@f --b=2@f 3@f', want: b=2@f stray 3@f}
- {words: '--a=1@u ?', want: a=1@u}
- {words: '--a@u ?'}
- {words: --fail-swap-on@u false@f, want: fail-swap-on=true@u stray false@f}
- {words: --a@u --@f b@f, want: a=--@u!takes-flag stray b@f}
- {words: --a=1@u --@f --b=2@f --@f, want: a=1@u stray --b=2@f stray --@f}
- {words: '@u -@u ---x@u -1@u', want: stray @u stray -@u stray ---x@u stray -1@u}
- {words: --oom-score-adj@u -999@u, want: oom-score-adj=-999@u}
`) {
		var words []Word
		for _, w := range strings.Split(c.Words, " ") {
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
		if text := strings.Join(got, " "); text != c.Want {
			t.Errorf("%s: got %s, want %s", c.Words, text, c.Want)
		}

		for _, part := range f.BySource() {
			for _, u := range part.Uses() {
				parts = append(parts, u.Name+"="+u.Value+"@"+part.From())
			}
		}
		if !slices.Equal(parts, whole) {
			t.Errorf("%s: got %q by source, want %q", c.Words, parts, whole)
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

	for word, want := range table.YAML[map[string]string](t, `
$TWO: --a@f|b c@f
'--x=${TWO}': --x=--a "b c"@u
'${TWO}': '--a "b c"@u, which passes ${TWO} as one argument: write $TWO there'
--x=$TWO: --x=$TWO@u
$$TWO: $TWO@u
'a$$b${GONE}c': a$bc@u
$GONE: ''
'${': ${@u
$START: open
'--x=${START}': open
'--x=${%H}': open
`) {
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
