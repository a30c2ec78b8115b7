package schema

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/testing/table"
)

func parse(t *testing.T, text string) *hclsyntax.Body {
	t.Helper()
	f, diags := hclsyntax.ParseConfig([]byte(text), "test.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return f.Body.(*hclsyntax.Body)
}

func TestCheck(t *testing.T) {
	b := Block{Type: "box",
		Fields: []Field{Attr[int]{Name: "size", Required: true, Doc: "How large."}, Attr[string]{Name: "color"}},
		Blocks: []Block{
			{Type: "lid", Max: 1, Fields: []Field{Attr[bool]{Name: "open"}}, Blocks: []Block{{Type: "hinge"}}},
			{Type: "part", Labels: []string{"name"}, ForEach: true, Fields: []Field{Attr[string]{Name: "kind"}}},
			{Type: "rest", Free: true},
		}}
	for _, c := range table.YAML[[]struct {
		Name, Text string
		Extra      []string
		Code       fault.Code // "": accepted
		At         string     // where the message points
		Says       string
	}](t, `
- name: all is well
  text: |
    size = 1
    color = "red"
    lid { open = true }
    part "a" {}
    part "b" {}
- name: misspelt argument
  text: |
    size = 1
    colour = "red"
  code: unknown-argument
  at: 2,1-7
  says: Did you mean "color"?
- name: an argument of nothing alike
  text: |
    size = 1
    weight = 2
  code: unknown-argument
  at: 2,1-7
  says: 'There is: color, size.'
- name: a block with an equals sign
  text: |
    size = 1
    lid = {}
  code: unknown-argument
  at: 2,1-4
  says: without the equals sign
- name: an argument as a block
  text: |
    size = 1
    color {}
  code: unknown-block
  at: 2,1-6
  says: color is an argument
- name: misspelt block
  text: |
    size = 1
    lids {}
  code: unknown-block
  at: 2,1-5
  says: Did you mean "lid"?
- name: an argument of an inner block
  text: |
    size = 1
    open = true
  code: unknown-argument
  at: 2,1-5
  says: It belongs in lid { … }.
- name: a block of an inner block
  text: |
    size = 1
    hinge {}
  code: unknown-block
  at: 2,1-6
  says: It belongs in lid { … }.
- name: a required argument misspelt
  text: "sizes = 1\n"
  code: unknown-argument
  at: 1,1-6
  says: Did you mean "size"?
- name: a required argument misspelt, as a block
  text: "sizes {}\n"
  code: unknown-block
  at: 1,1-6
  says: 'size is an argument: write size = ….'
- name: a word of another language
  text: |
    size = 1
    if = true
  code: unknown-argument
  at: 2,1-3
  says: Write when = CONDITION.
- name: missing
  text: "color = \"red\"\n"
  code: missing-argument
  at: 1,1-1
  says: needs size (number). How large.
- name: missing label
  text: |
    size = 1
    part {}
  code: unknown-block
  at: 2,1-5
  says: part "NAME" { … }
- name: too many
  text: |
    size = 1
    lid {}
    lid {}
    lid {}
  code: duplicate
  at: 3,1-4
  says: takes 1 of it
- name: one name twice
  text: |
    size = 1
    part "a" {}
    part "a" {}
    part "a" {}
  code: duplicate
  at: 3,1-9
  says: another name
- name: inside of a block
  text: |
    size = 1
    lid {
      opne = true
    }
  code: unknown-argument
  at: 3,3-7
  says: Did you mean "open"?
- name: for_each where it is taken
  text: |
    size = 1
    part "a" {
      for_each = {}
      when = true
    }
- name: for_each where it is not
  text: |
    size = 1
    lid {
      for_each = {}
    }
  code: unknown-argument
  at: 3,3-11
  says: 'There is: open.'
- name: what the caller handles
  text: |
    size = 1
    timeout = "1s"
  extra: [timeout]
- name: a free block takes all arguments
  text: |
    size = 1
    rest {
      x = 1
      y = {}
    }
- name: a block in a free block
  text: |
    size = 1
    rest {
      y {}
    }
  code: unknown-block
  at: 3,3-4
  says: 'y is an argument: write y = { … }.'
`) {
		t.Run(c.Name, func(t *testing.T) {
			diags := b.Check(parse(t, c.Text), nil, c.Extra...)
			if c.Code == "" {
				if len(diags) > 0 {
					t.Fatalf("got %s, want no error", diags)
				}
				return
			}
			if len(diags) != 1 {
				t.Fatalf("%d messages, want one: %s", len(diags), diags)
			}
			d := diags[0]
			at := strings.TrimPrefix(d.Subject.String(), "test.hcl:")
			if origin.CodeOf(d) != c.Code || at != c.At || !strings.Contains(d.Detail, c.Says) {
				t.Errorf("%s at %s: %s\nwant %s at %s: …%s…", origin.CodeOf(d), at, d.Detail, c.Code, c.At, c.Says)
			}
		})
	}
}

func TestSuggest(t *testing.T) {
	if s := Suggest("x", nil); s != "It has none." {
		t.Errorf("Suggest without names: got %q, want It has none.", s)
	}
}

func TestTypeName(t *testing.T) {
	for want, typ := range map[string]cty.Type{
		"any": cty.DynamicPseudoType, "string": cty.String, "list of number": cty.List(cty.Number),
		"map of list of string": cty.Map(cty.List(cty.String)), "set of bool": cty.Set(cty.Bool),
	} {
		if got := TypeName(typ); got != want {
			t.Errorf("TypeName = %q, want %q", got, want)
		}
	}
}

// TestDefaultsKeepTheirOwnRules: a default that its own check refuses would fail on the first machine only.
func TestDefaultsKeepTheirOwnRules(t *testing.T) {
	checked := 0
	var walk func(b Block)
	walk = func(b Block) {
		for _, f := range b.Fields {
			s := f.Spec()
			if s.Doc == "" {
				t.Errorf("%s %s: got no doc, want one", b.Type, s.Name)
			}
			if s.Default.IsNull() {
				continue
			}
			checked++
			if err := s.CheckValue(s.Default); err != nil {
				t.Errorf("default of %s %s: got error %v, want none", b.Type, s.Name, err)
			}
			if s.Required {
				t.Errorf("%s %s: got a default of a required attribute, want none", b.Type, s.Name)
			}
		}
		for _, n := range b.Blocks {
			walk(n)
		}
	}
	for _, b := range TopLevel() {
		walk(b)
	}
	if checked < 5 {
		t.Errorf("got %d defaults, want at least 5", checked)
	}
}

func TestDuration(t *testing.T) {
	for s, ok := range table.YAML[map[string]bool](t, `
90s: true
5m: true
1ms: true
720h: true
0s: false
-1s: false
999us: false
'90': false
'': false
1d: false
`) {
		if err := Duration(s); (err == nil) != ok {
			t.Errorf("Duration(%q): got error %v, want none: %t", s, err, ok)
		}
	}
}
