package reference

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/schema"
)

// small is a language with one example of each thing that a page or the JSON describes.
func small() Language {
	size := schema.Attr[int]{Name: "size", Required: true, Doc: "How large: a | b."}
	color := schema.Attr[string]{Name: "color", Default: "red", Const: true, Doc: "Which."}
	base := schema.Attr[string]{Name: "base", Phase: schema.Gather, DefaultText: "`pem` of the only fetch-ca", Doc: "From where.",
		Ref: &schema.RefDefault{Stage: "fetch-ca", Output: "pem", Optional: true}}
	inner := schema.Block{
		Type:    "part",
		Labels:  []string{"name"},
		Max:     2,
		Always:  true,
		ForEach: true,
		Doc:     "A part.",
		Fields:  []schema.Field{base},
	}
	return Language{
		Blocks: []TopBlock{
			{Block: schema.Block{Type: "box", Max: 1, Doc: "A box.", Fields: []schema.Field{size}}, Phase: schema.Static},
			{Block: schema.Block{Type: "bag", Free: true, Doc: "Anything."}},
		},
		Stages: []StageType{
			{
				Block:     schema.Block{Type: "paint", Doc: "Paints. Twice.", Fields: []schema.Field{color}, Blocks: []schema.Block{inner}},
				Phase:     schema.Decide,
				Singleton: true,
				Meta: []schema.Field{
					schema.When,
					schema.ForEach,
				},
				Outputs: []Output{{Name: "done", Type: cty.List(cty.String), Doc: "What was painted."}},
			},
		},
		Functions: []Function{
			{
				Name:     "tick",
				Usage:    "tick(x)",
				Doc:      "Ticks.",
				Own:      true,
				Examples: []Example{{Call: "tick(`a|b`)", Result: `"x"`, Why: "so"}},
			},
			{Name: "abs", Usage: "abs(num)", Doc: "Absolute."},
		},
		Facts: Facts{
			Type: cty.Object(map[string]cty.Type{
				"a":   cty.String,
				"z":   cty.List(cty.Object(map[string]cty.Type{"q": cty.Number})),
				"y":   cty.Map(cty.Object(map[string]cty.Type{"q": cty.Number})),
				"zoo": cty.List(cty.Object(map[string]cty.Type{"q": cty.Number})),
			}),
			Docs: []Fact{
				{Path: "z", Doc: "Zs."},
				{Path: "z[].q", Doc: "Q."},
				{Path: "zoo", Doc: "Some of z.", Like: "z"},
				{Path: "y{}.q", Doc: "Q."},
			},
		},
	}
}

func TestFactRows(t *testing.T) {
	var got []string
	for _, r := range small().Facts.Rows() {
		got = append(got, fmt.Sprintf("%s:%s", r.Path, typeInWords(r.Type)))
	}
	// In the order of the docs, then the undocumented ones, sorted. zoo sorts by z.
	want := "z:list of objects z[].q:number zoo:list of objects y{}.q:number a:string y:map of objects"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

func TestPages(t *testing.T) {
	pages := map[string]string{}
	for _, p := range Describe(small()).Pages() {
		if !strings.HasPrefix(p.Text, Generated) {
			t.Errorf("%s: want a first line that says that the page is generated", p.Name)
		}
		pages[p.Name] = p.Text
	}
	for name, lines := range map[string][]string{
		"README.md": {"| [`paint`](stage-paint.md) | decide | Paints. |", "`box`, `bag`", "2 functions"},
		"blocks.md": {"- [`box`](#box)", "box { … }", "At most one.", "It takes any argument.", "Its expressions may refer to variables, `file()` and `credential()`.",
			`| ` + "`size`" + ` | number | **required** | How large: a \| b. |`},
		"stage-paint.md": {"# Stage type paint", `stage "paint" "NAME" { … }`, "Phase: **decide**", "A site has at most one.",
			"| `color` | string | `\"red\"` | Which. A literal. |",
			"## part", `part "NAME" { … }`, "At most 2.", "also when it is not written", "It takes `when` and " +
				"`for_each`",
			"| `base` | string | `pem` of the only fetch-ca | From where. May refer to variables and the " +
				"outputs of gather stages only. |",
			"[`when`](blocks.md#stage)", "`stage.paint.NAME[KEY].OUTPUT`", "| `done` | list of string | What was " +
				"painted. |"},
		"functions.md": {"### tick", "| ``tick(`a\\|b`)`` | `\"x\"` | so |", "\n\n`abs(num)`\n"},
		"facts.md":     {"## z\n", "| `zoo` | list of objects | Some of z. The same attributes as `z`. |", "| `y{}.q` | number | Q. |"},
	} {
		for _, l := range lines {
			if !strings.Contains(pages[name], l) {
				t.Errorf("%s: want %q in it, got\n%s", name, l, pages[name])
			}
		}
	}
	if strings.Contains(pages["functions.md"], "### abs") {
		t.Error("abs is as in Terraform and needs no part of its own")
	}
	if md := Describe(small()).Markdown(); strings.Contains(md, "<!--") || !strings.Contains(md, "# Stage type paint") {
		t.Error("on a terminal there is the text of the pages, without what heads the files")
	}
}

func TestDocumentJSON(t *testing.T) {
	b, err := json.Marshal(Describe(small()))
	must(t, err)
	want := `{"format_version":1,` +
		`"blocks":[{"type":"box","doc":"A box.","max":1,"attributes":[{"name":"size","type":"number","doc":"How large: a | b.","required":true}],"phase":"static"},` +
		`{"type":"bag","doc":"Anything.","free":true}],` +
		`"stages":[{"type":"paint","doc":"Paints. Twice.","attributes":[{"name":"color","type":"string","doc":"Which.","literal":true,"default":"red"}],` +
		`"blocks":[{"type":"part","doc":"A part.","labels":["name"],"max":2,"always":true,"for_each":true,` +
		`"attributes":[{"name":"base","type":"string","doc":"From where.","default_text":"` + "`pem`" + ` of the only fetch-ca","default_from":{"stage":"fetch-ca","output":"pem","optional":true},"phase":"gather"}]}],` +
		`"phase":"decide","singleton":true,` +
		`"meta_arguments":[{"name":"when","type":"bool","doc":"The stage is skipped unless this is true."},` +
		`{"name":"for_each","type":"dynamic","doc":"A map or set: one copy of the stage for each, with ` + "`each.key` and `each.value`" + `."}],` +
		`"outputs":[{"name":"done","type":["list","string"],"doc":"What was painted."}]}],` +
		`"functions":[{"name":"tick","usage":"tick(x)","doc":"Ticks.","examples":[{"call":"tick(` + "`a|b`" + `)","result":"\"x\"","why":"so"}]},{"name":"abs","usage":"abs(num)","doc":"Absolute."}],` +
		`"facts":[{"path":"z","doc":"Zs.","type":["list",["object",{"q":"number"}]]},{"path":"z[].q","doc":"Q.","type":"number"},` +
		`{"path":"zoo","doc":"Some of z.","like":"z","type":["list",["object",{"q":"number"}]]},{"path":"y{}.q","doc":"Q.","type":"number"},` +
		`{"path":"a","doc":"","type":"string"},{"path":"y","doc":"","type":["map",["object",{"q":"number"}]]}]}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}
