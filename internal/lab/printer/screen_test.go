package printer

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestScreen lets nothing act on the terminal but its own colours, also where a character comes in two parts.
func TestScreen(t *testing.T) {
	var b bytes.Buffer
	r := secret.NewRedactor()
	r.Add([]byte("CANARY with blanks"))
	screen := NewScreen(&b, r)
	s := Style{Colour: true, Width: 20, screen: screen}

	for _, text := range []string{s.red("red"), " \x1b[31mforged\x1b[0m", " \xe2\x80", "\xae", " gr\xc3", "\xbcn", " CANARY with blanks", " \xc3"} {
		if _, err := screen.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	must(t, screen.Close())
	want := "\x1b[31mred\x1b[0m " + `\x1b[31mforged\x1b[0m \u202e grün (sensitive) \xc3`
	if b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
}

// TestScreenDisarmsCommands: the runner of a workflow takes no text of a recording or a site as a command.
func TestScreenDisarmsCommands(t *testing.T) {
	for name, c := range table.YAML[map[string]struct {
		Writes []string
		Want   string
	}](t, `
a command:
  writes:
    - |
      a
      ::stop-commands::x
  want: |
    a
    :\u003astop-commands::x
after blanks: {writes: ["\t  ::add-mask::x"], want: "\t  :\\u003aadd-mask::x"}
over several writes:
  writes: ["a\n", ':', ':error', '::x']
  want: |-
    a
    :\u003aerror::x
in the older form: {writes: ['x ##[add-mask]y', ' #', '#[z]'], want: 'x ##\u005badd-mask]y ##\u005bz]'}
not at the begin:
  writes:
    - |
      a ::error::x
      fe80::1 [::1]:6443
  want: |
    a ::error::x
    fe80::1 [::1]:6443
`) {
		var b strings.Builder
		s := NewScreen(&b, secret.NewRedactor())
		for _, text := range c.Writes {
			if _, err := s.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.String(); got != c.Want {
			t.Errorf("%s: got %q, want %q", name, got, c.Want)
		}
	}
}

// TestSecretsAreRedactedBeforeLayout breaks lines in the middle of a secret, and cuts it.
func TestSecretsAreRedactedBeforeLayout(t *testing.T) {
	const canary = "CANARY-one two-CANARY three-CANARY-four five-CANARY-six"
	r := secret.NewRedactor()
	r.Add([]byte(canary))
	for width := 12; width < 90; width += 3 {
		var b bytes.Buffer
		s := Style{Width: width, screen: NewScreen(&b, r)}
		d := origin.Error(
			fault.Sensitive,
			hcl.Range{Filename: "a.hcl", Start: hcl.Pos{Line: 1, Column: 1}, End: hcl.Pos{Line: 1, Column: 2, Byte: 1}},
			"It is "+canary,
			"The value "+canary+" is wrong.",
		)
		must(t, Diagnostics(
			s.screen,
			map[string][]byte{"a.hcl": []byte("x = \"" + canary + "\"")},
			hcl.Diagnostics{d},
			s,
		))
		fmt.Fprintln(s.screen, strings.Join(s.table([][]string{{"name", canary}}, width, nil), "\n"))
		fmt.Fprintln(s.screen, s.formatBrief(canary, width))
		if strings.Contains(b.String(), "CANARY") {
			t.Errorf("width %d: got a part of the secret:\n%s", width, b.String())
		}
	}
}
