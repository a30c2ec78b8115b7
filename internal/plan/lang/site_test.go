package lang

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/table"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

func TestWhatAllStagesTakeStandsBesideTheBody(t *testing.T) {
	s := mustParse(t, `-- a.hcl --
stage "fetch-config" "a" {
  when       = var.x
  for_each   = ["b"]
  timeout    = "10s"
  on_failure = "continue"
  file       = "/f"
}
stage "detect-hw" "n" {
  on_failure = null
  wait { timeout = "3s" }
}
variable "x" {}
`)
	i := s.Stage("fetch-config.a")
	for n, e := range map[string]hclsyntax.Expression{"var.x": i.When, "[`\"b\"`]": i.ForEach, "`\"10s\"`": i.Timeout} {
		if got := written(e); got != n {
			t.Errorf("%s, want %s", got, n)
		}
	}
	if i.OnFailure != "continue" || len(i.Body.Attributes) != 1 || i.Body.Attributes["file"] == nil ||
		origin.Place(i.Range).String() != "a.hcl:1:1" {
		t.Errorf("fetch-config.a: got %+v, want on_failure continue and only file in the body", i)
	}
	n := s.Stage("detect-hw.n")
	if n.OnFailure != "fail" || n.When != nil || n.Body.Blocks[0].Body.Attributes["timeout"] == nil {
		t.Errorf("detect-hw.n: got %+v, want on_failure fail and the block wait", n)
	}
	if got := s.OfType("fetch-config"); len(got) != 1 || got[0] != i || s.Stage("label.x") != nil {
		t.Errorf("OfType(fetch-config): got %v, want one stage", got)
	}
}

func TestVariables(t *testing.T) {
	s := mustParse(t, `-- a.hcl --
variable "plain" {}
variable "text" { default = null }
variable "map" {
  type        = map(object({ a = number, b = list(bool) }))
  default     = { x = { a = "1", b = [true, "false"] } }
  description = "Maps."
}
variable "any" { type = any }
variable "secret" { sensitive = true }
-- b.hcl --
variable "j" {
  type    = tuple([string, number])
  default = ["a", 1]
}
-- c.prelet.vars --
any = { a = [1, "x"] }
j   = ["b", "2"]
`)
	types := map[string]cty.Type{
		"plain": cty.String, "text": cty.String, "secret": cty.String, "any": cty.DynamicPseudoType,
		"map": cty.Map(cty.Object(map[string]cty.Type{"a": cty.Number, "b": cty.List(cty.Bool)})),
		"j":   cty.Tuple([]cty.Type{cty.String, cty.Number}),
	}
	for n, want := range types {
		if v := s.Variables[n]; !v.Type.Equals(want) || (v.Default != nil) != (n == "text" || n == "map" || n == "j") ||
			v.Sensitive != (n == "secret") {
			t.Errorf("variable %s: got %+v, want type %#v", n, v, want)
		}
	}
	if len(s.Variables) != len(types) || len(s.Values) != 2 || s.Variables["map"].Description != "Maps." {
		t.Errorf("got variables %+v and values %+v, want %d and 2", s.Variables, s.Values, len(types))
	}
}

func TestRequiredVersion(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Have, Need string
		OK         bool
	}](t, `
- {have: 0.3.1, need: '>= 0.3', ok: true}
- {have: 0.3.1, need: ~> 0.3.0, ok: true}
- {have: 0.3.1, need: '< 0.3'}
- {have: v0.3.1, need: 0.3.1, ok: true}
# what is built on the way to 0.4.0
- {have: 0.4.0-dev, need: '>= 0.4', ok: true}
- {have: 0.4.0-dev, need: '>= 0.5'}
- {need: '>= 99', ok: true}
- {have: (devel), need: '>= 99', ok: true}
`) {
		_, diags := Parse(
			[]tape.SiteFile{{Name: "a.hcl", Text: "prelet {\n  required_version = \"" + c.Need + "\"\n}\n"}},
			LoadOptions{Version: c.Have},
		)
		if diags.HasErrors() == c.OK {
			t.Errorf("version %s for %s: got %s, want accepted %t", c.Have, c.Need, show(diags), c.OK)
		}
	}
}

func TestOrderOfFilesInAnArchiveIsTheirs(t *testing.T) {
	a := tape.SiteFile{Name: "a.hcl", Text: `stage "label" "a" {}`}
	b := tape.SiteFile{Name: "b.hcl", Text: `stage "label" "b" {}`}
	one, _ := Parse([]tape.SiteFile{a, b}, options())
	two, _ := Parse([]tape.SiteFile{b, a}, options())
	if one.Stages[0].Name != "a" || two.Stages[0].Name != "b" {
		t.Errorf("first stages: got %s and %s, want a and b", one.Stages[0].Name, two.Stages[0].Name)
	}
}

// Diagnostics are in a fixed order, although attributes are in maps.
func TestDiagnosticsAreOrdered(t *testing.T) {
	text := "-- a.hcl --\nstage \"label\" \"x\" {\n" + "  a1 = 1\n  b2 = file(local.x)\n  c3 = \"\\ue000\"\n  " +
		"d4 = file(local.y)\n  e5 = 5\n}\n" +
		"-- b.hcl --\nlocals {\n  z = file(local.x)\n  a = file(local.x)\n}\n"
	_, diags := parseText(t, text)
	want := show(diags)
	for range 20 {
		_, diags := parseText(t, text)
		if d := cmp.Diff(want, show(diags)); d != "" {
			t.Fatalf("diagnostics of another run (-want +got):\n%s", d)
		}
	}
	if strings.Count(want, "\n") != 5 {
		t.Error(want)
	}
}

func TestParseValue(t *testing.T) {
	for text, ok := range map[string]bool{
		`8`: true, `-8`: true, `true`: true, `null`: true, `"text"`: true, `["a", {b = 1, "c" = null}]`: true,
		`var.x`: false, `upper("x")`: false, `"${1}"`: false, `1 + 1`: false, `"\ue000"`: false, "\xff": false, `[`: false, ``: false,
		`1e999999`: false, strings.Repeat("[", 30_000): false,
	} {
		e, err := ParseValue("--var x", []byte(text))
		if (err == nil) != ok || (e != nil) != ok {
			t.Errorf("ParseValue(%.40s): got %v and %v, want a value %t", text, e, err, ok)
		}
		if err != nil && len(text) > 3 && strings.Contains(err.Error(), text) {
			t.Errorf("got error %v, want one without the text", err)
		}
	}
}

func TestAStageTypeMayOwnAMetaName(t *testing.T) {
	own := fake{stages.Spec{Block: schema.Block{
		Type:   "own",
		Fields: []schema.Field{schema.Attr[string]{Name: "timeout", Doc: "A text."}},
	}}}
	s, diags := Parse(
		[]tape.SiteFile{{Name: "a.hcl", Text: "stage \"own\" \"x\" {\n  timeout = \"1s\"\n}\n"}},
		LoadOptions{Stages: []stages.Stage{own}},
	)
	if diags.HasErrors() || s.Stages[0].Body.Attributes["timeout"] == nil || s.Stages[0].Timeout != nil {
		t.Error(show(diags))
	}
}

// A secret that somebody wrote into the site is refused, and the message's snippet must not print it.
func TestSecretsAreNotShown(t *testing.T) {
	s, diags := parseText(t, `-- a.hcl --
variable "a" {
  sensitive = true
  default   = "c4nary-1"
}
variable "b" { sensitive = true }
-- b.hcl --
cluster {
  servers = ["x:1"]
  ca_file = "/ca"
  token   = "c4nary-2\"é"
}
-- c.prelet.vars --
b = "c4nary-3"
-- d.hcl --
override {
  cluster { token = "c4nary-4" }
}
`)
	var out strings.Builder
	files := map[string]*hcl.File{}
	for n, src := range s.Sources {
		files[n] = &hcl.File{Bytes: src}
	}
	must(t, hcl.NewDiagnosticTextWriter(&out, files, 80, false).WriteDiagnostics(diags))
	if len(diags) != 4 || strings.Contains(out.String(), "c4nary") ||
		!strings.Contains(out.String(), "default   = ****") || strings.Contains(out.String(), "*****") {
		t.Errorf("got %s\nwant four errors without a secret", out.String())
	}
	if !strings.Contains(string(s.Sources["a.hcl"]), "sensitive = true\n") ||
		!strings.Contains(s.Files[0].Text, "c4nary") {
		t.Error("got other hidden text, want only the secret hidden")
	}
}

// TestSecretsInVarsFiles: a line of a vars file may have the value of a sensitive variable also where prelet cannot know
// that: its name is not right, or the file cannot be read. Nothing that is shown has it, in any form.
func TestSecretsInVarsFiles(t *testing.T) {
	const word = "c4nary"
	for form, want := range map[string]string{
		"pw = \"c4nary\"\n":                           "pw = ****",
		"pww = \"c4nary\"\n":                          "pww = ****",
		"pww = \"x\" # c4nary\n":                      "pww = ****",
		"pw = \"x\" # c4nary":                         "pw = ****",
		"pww = <<EOT\nc4nary\nEOT\n":                  "pww = ****",
		"pww = c4nary(c4nary.c4nary)\n":               "pww = ****",
		"pww = { c4nary = 1, c4nary = 2 }\n":          "pww = ****",
		"pw = \"x\"\npw = \"c4nary\"\n":               "pw = ***\npw = ****",
		"pw = \"c4nary\n":                             "pw = ****",
		"pw = c4nary\"\n":                             "pw = ****",
		"pw = 'c4nary'\n":                             "pw = ****",
		"pw = \"\\c4nary\"\n":                         "pw = ****",
		"pw = \"${c4nary\"\n":                         "pw = ****",
		"pw = c4nary x\n":                             "pw = ****",
		"pw = <<EOT\nc4nary=c4nary\n":                 "pw = ****",
		"pw = <<c4nary\nx\n":                          "pw = ****",
		"pw = << EOT\nc4nary=c4nary\nEOT\n":           "pw = ****",
		"pw = [\"x\"\n  \"c4nary\"]\n":                "",
		"pw: c4nary\n":                                "pw: ****",
		"pw: \"c4nary\"\n":                            "pw: ****",
		"- pw: c4nary\n":                              "****",
		"{ \"pw\": \"c4nary\" }\n":                    "****",
		"{\n  \"pw\": \"c4nary\"\n}\n":                "*\n  \"pw\": ****",
		"\"pw\" = \"c4nary\"\n":                       "\"pw\" = ****",
		"export pw=c4nary\n":                          "export pw=****",
		"export pw=\"c4nary\"\n":                      "export pw=****",
		"PW=c4nary x\n":                               "****",
		"pw c4nary\n":                                 "****",
		"pw = \"c4nary\" \xff\n":                      "pw = ****",
		"pw = \"c4nary\x00\"\n":                       "pw = ****",
		"\ufeffpw = \"c4nary\"\n":                     "****",
		"pw { value = \"c4nary\" }\n":                 "pw ****",
		"pw {\n  value = \"c4nary\"\n}\n":             "pw *\n",
		"pw \"c4nary\" {}\n":                          "pw ****",
		"variable \"pw\" { default = \"c4nary\" }\n":  "variable ****",
		"a = \"x\"; pw = \"c4nary\"\n":                "a = ****",
		"pw = " + strings.Repeat("[", 200) + "c4nary": "pw = ****",
	} {
		s, diags := Parse([]tape.SiteFile{
			{Name: "a.hcl", Text: "variable \"pw\" { sensitive = true }\nvariable \"a\" {}\n"},
			{Name: "b.prelet.vars", Text: form},
		}, LoadOptions{})
		if !diags.HasErrors() {
			t.Errorf("%q: got no error, want one", form)
		}
		if text := string(s.Sources["b.prelet.vars"]); strings.Contains(text, word) || !strings.HasPrefix(text, want) {
			t.Errorf("%q: shown as %q; want it without the secret, from %q", form, text, want)
		}
		if text := string(HideValues([]byte(form), nil)); strings.Contains(text, word) || len(text) != len(form) {
			t.Errorf("%q: without names shown as %q; want all of it hidden", form, text)
		}
		if text := show(diags); strings.Contains(text, word) {
			t.Errorf("%q: got %s; want messages without the secret", form, text)
		}
	}
}
