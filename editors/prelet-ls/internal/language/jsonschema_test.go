package language

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/santhosh-tekuri/jsonschema/v6"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages/builtin"
)

// compileSchema compiles the JSON Schema of a site.
func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := app.Language().JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("site.json", document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("site.json")
	if err != nil {
		t.Fatalf("the JSON Schema: got %v, want that it compiles", err)
	}

	return s
}

func validateJSON(t *testing.T, s *jsonschema.Schema, text []byte) error {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}

	return s.Validate(document)
}

// TestJSONSchemaAcceptsExamples writes each example of the repository as JSON. prelet must read it, and the JSON Schema
// must accept it.
func TestJSONSchemaAcceptsExamples(t *testing.T) {
	s := compileSchema(t)
	const root = "../../../.."
	var files []string
	for _, pattern := range []string{"examples/*/*.hcl", "examples/layered/*/*.hcl", "editors/prelet-ls/testdata/site/main.hcl"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: got %d files, %v; want some", pattern, len(found), err)
		}
		files = append(files, found...)
	}

	for _, file := range files {
		if strings.HasSuffix(file, ".prelettest.hcl") {
			continue
		}
		t.Run(strings.TrimPrefix(file, root+"/"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parsed, diags := lang.ParseFile(file, text)
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			document, err := json.MarshalIndent(bodyToJSON(t, text, parsed.Body.(*hclsyntax.Body)), "", "  ")
			if err != nil {
				t.Fatal(err)
			}

			if _, diags := lang.Parse([]world.SiteFile{{Name: "x.hcl.json", Text: string(document)}},
				lang.Options{Stages: builtin.Stages()}); hasUnknown(diags.Error()) {
				t.Fatalf("as JSON: got %s, want a site; text:\n%s", diags, document)
			}
			if err := validateJSON(t, s, document); err != nil {
				t.Errorf("as JSON: got %v, want that the JSON Schema accepts it; text:\n%s", err, document)
			}
		})
	}
}

// hasUnknown reports whether messages say that something was written in a wrong form. References to other files of a
// site are unknown here too, because each file is read alone.
func hasUnknown(messages string) bool {
	return strings.Contains(messages, "Unknown argument") || strings.Contains(messages, "Unknown block") ||
		strings.Contains(messages, "object is needed")
}

// bodyToJSON returns a native body in the form of a *.hcl.json file.
func bodyToJSON(t *testing.T, source []byte, body *hclsyntax.Body) map[string]any {
	t.Helper()
	out := map[string]any{}
	for name, a := range body.Attributes {
		out[name] = expressionToJSON(t, source, a.Expr)
	}
	for _, b := range body.Blocks {
		place, key := out, b.Type
		for _, label := range b.Labels {
			inner, ok := place[key].(map[string]any)
			if !ok {
				inner = map[string]any{}
				place[key] = inner
			}
			place, key = inner, label
		}
		list, _ := place[key].([]any)
		place[key] = append(list, bodyToJSON(t, source, b.Body))
	}

	return out
}

// expressionToJSON returns an expression as a JSON value: a literal as it is, any other as a template.
func expressionToJSON(t *testing.T, source []byte, e hclsyntax.Expression) any {
	t.Helper()
	switch e := e.(type) {
	case *hclsyntax.LiteralValueExpr:
		return ctyjson.SimpleJSONValue{Value: e.Val}
	case *hclsyntax.ObjectConsExpr:
		out := map[string]any{}
		for _, item := range e.Items {
			key := string(item.KeyExpr.Range().SliceBytes(source))
			if v, diags := item.KeyExpr.Value(nil); !diags.HasErrors() {
				key = v.AsString()
			}
			out[key] = expressionToJSON(t, source, item.ValueExpr)
		}
		return out
	case *hclsyntax.TupleConsExpr:
		out := []any{}
		for _, x := range e.Exprs {
			text := expressionToJSON(t, source, x)
			if s, ok := text.(string); ok && strings.HasPrefix(s, "${stage.restart.") {
				text = strings.TrimSuffix(strings.TrimPrefix(s, "${"), "}")
			}
			out = append(out, text)
		}
		return out
	}

	text := string(e.Range().SliceBytes(source))
	if v, diags := e.Value(nil); !diags.HasErrors() && v.Type().FriendlyName() == "string" {
		return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(v.AsString())
	}
	if _, isTemplate := e.(*hclsyntax.TemplateExpr); isTemplate && strings.HasPrefix(text, `"`) {
		var s string
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			return s
		}
	}

	return "${" + text + "}"
}

// TestJSONSchemaRefusesMistakes holds what the JSON Schema notices, next to the same file without the mistake.
func TestJSONSchemaRefusesMistakes(t *testing.T) {
	s := compileSchema(t)
	for _, c := range []struct{ good, bad string }{
		{`{"node": {"name": "a"}}`, `{"nodes": {"name": "a"}}`},
		{`{"node": {"name": "a"}}`, `{"node": {"nmae": "a"}}`},
		{`{"node": [{"name": "a"}, null]}`, `{"node": [{"nmae": "a"}]}`},
		{`{"//": "x", "stage": {"//": 1, "label": {"x": {"labels": {"a": 1}}}}}`, `{"stage": {"label": {"x": {"lables": {}}}}}`},
		{`{"stage": {"detect-hw": {"x": {}}}}`, `{"stage": {"detect-hv": {"x": {}}}}`},
		{`{"stage": {"reserve": {"x": {"policy": "gke"}}}}`, `{"stage": {"reserve": {"x": {"policy": "gek"}}}}`},
		{`{"stage": {"reserve": {"x": {"policy": "${var.p}"}}}}`, `{"stage": {"reserve": {"x": {}}}}`},
		{`{"override": {"stage": {"reserve": {"x": {"floor": {}}}}}}`, `{"override": {"stage": {"reserve": {"x": {"flor": {}}}}}}`},
		{`{"prelet": {"on_cluster_error": "fail"}}`, `{"prelet": {"on_cluster_error": "${var.x}"}}`},
		{`{"cluster": {"servers": ["a:1"]}}`, `{"cluster": {"servers": {"a": 1}}}`},
		{`[{"locals": {"a": [1, {}]}}, {"variable": {"a": {"type": "number"}}}]`, `[{"locals": 1}]`},
		{`{"stage": {"write": {"x": {"file": {"y": {"path": "/a", "content": "", "notify": ["stage.restart.z"]}}}}}}`,
			`{"stage": {"write": {"x": {"file": {"y": {"path": "/a", "content": "", "notify": ["z"]}}}}}}`},
	} {
		if err := validateJSON(t, s, []byte(c.good)); err != nil {
			t.Errorf("%s: got %v, want that it is accepted", c.good, err)
		}
		if err := validateJSON(t, s, []byte(c.bad)); err == nil {
			t.Errorf("%s: got no error, want one", c.bad)
		}
	}
}

// TestLanguageIsWhole holds that the language for hcl-lang has each block, stage type and argument that prelet declares.
func TestLanguageIsWhole(t *testing.T) {
	l := New()
	if err := l.Site.Validate(); err != nil {
		t.Errorf("hcl-lang's check of the schema: got %v, want none", err)
	}

	declared := builtin.Language()
	for _, b := range declared.Blocks {
		block := l.Site.Blocks[b.Type]
		if block == nil {
			t.Errorf("block %s: got none, want one", b.Type)
			continue
		}
		for _, f := range b.Fields {
			if block.Body.Attributes[f.Spec().Name] == nil {
				t.Errorf("%s in %s: got none, want one", f.Spec().Name, b.Type)
			}
		}
	}
	if got := len(l.Site.Blocks["stage"].DependentBody); got != len(declared.Stages) {
		t.Errorf("stage types: got %d, want %d", got, len(declared.Stages))
	}
	for _, f := range declared.Functions {
		if _, ok := l.Functions[f.Name]; !ok {
			t.Errorf("function %s: got %v, want it among them", f.Name, sortedKeys(maps.Clone(l.Functions)))
		}
	}
}
