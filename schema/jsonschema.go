package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// jsonDialect is the version of JSON Schema that editors understand best.
const jsonDialect = "http://json-schema.org/draft-07/schema#"

// node is a part of a JSON Schema.
type node = map[string]any

// JSONSchema returns the JSON Schema of a *.hcl.json file: which blocks and arguments exist, and the form of their
// values. Every value may also be a text with an expression in it. It accepts each file that `prelet validate` accepts;
// names of the site, required blocks and rules for values are left to that.
func (d Document) JSONSchema() ([]byte, error) {
	site := schemaWriter{definitions: node{}, isRequired: true}
	override := schemaWriter{definitions: site.definitions, prefix: "override/"}

	blocks := d.blockSchemas(site)
	blocks[OverrideBlock.Type] = describe(
		override.oneOrMany("body", closedObject(d.blockSchemas(override))), OverrideBlock.Doc)

	root := site.oneOrMany("file", closedObject(blocks))
	root["$schema"] = jsonDialect
	root["title"] = "A site of prelet as JSON"
	root["definitions"] = site.definitions

	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		return nil, err
	}

	return b.Bytes(), nil
}

// blockSchemas returns the schemas of the blocks of a file, or of an override.
func (d Document) blockSchemas(w schemaWriter) node {
	out := node{}
	for _, b := range d.language.Blocks {
		switch b.Type {
		case StageBlock.Type:
			out[b.Type] = d.stageSchema(w, b.Block)
		case OverrideBlock.Type:
		default:
			out[b.Type] = w.block(b.Type, b.Block)
		}
	}

	return out
}

// stageSchema returns the schema of `stage`: an object for each type with the stages by their names.
func (d Document) stageSchema(w schemaWriter, b Block) node {
	types := node{}
	for _, s := range d.language.Stages {
		block := s.Block
		block.Fields = append(append([]Field{}, s.Fields...), s.Meta...)
		block.Labels = b.Labels[1:]
		types[block.Type] = w.block(b.Type+"/"+block.Type, block)
	}

	return describe(w.oneOrMany(b.Type, closedObject(types)), b.Doc)
}

// schemaWriter collects the definitions of bodies, which are referred to in several forms each.
type schemaWriter struct {
	definitions node
	prefix      string // of the names of definitions
	isRequired  bool   // required arguments are needed, which an override leaves out
}

// block returns the schema of the blocks of a type: an object for each label, inside of them one body or several.
func (w schemaWriter) block(name string, b Block) node {
	out := w.oneOrMany(name, w.body(name, b))
	for _, label := range slices.Backward(b.Labels) {
		out = w.oneOrMany(name+"/"+label, node{
			"type":                 "object",
			"properties":           node{"//": comment()},
			"additionalProperties": out,
		})
	}

	return describe(out, b.Doc)
}

// body returns the schema of the body of a block.
func (w schemaWriter) body(name string, b Block) node {
	if b.Free {
		return node{"type": "object"}
	}

	fields := b.Fields
	if b.ForEach {
		fields = append([]Field{When, ForEach}, fields...)
	}

	properties := node{}
	var required []string
	for _, f := range fields {
		s := f.Spec()
		properties[s.Name] = describe(attributeSchema(s), s.Doc)
		if s.Required {
			required = append(required, s.Name)
		}
	}
	for _, inner := range b.Blocks {
		properties[inner.Type] = w.block(name+"/"+inner.Type, inner)
	}

	out := closedObject(properties)
	if w.isRequired && len(required) > 0 {
		out["required"] = required
	}

	return out
}

// oneOrMany defines the schema of an object, and returns that of such an object, of an array of them, or of null, which
// is none. The array is several blocks, or else counts as one object.
func (w schemaWriter) oneOrMany(name string, object node) node {
	w.definitions[w.prefix+name] = object
	// "/" separates the steps of a reference.
	reference := node{"$ref": "#/definitions/" + strings.ReplaceAll(w.prefix+name, "/", "~1")}

	return node{
		"anyOf": []node{
			reference,
			{"type": "array", "items": node{"anyOf": []node{reference, {"type": "null"}}}},
			{"type": "null"},
		},
	}
}

// closedObject returns the schema of an object that has only these properties, and comments.
func closedObject(properties node) node {
	properties["//"] = comment()

	return node{
		"type":                 "object",
		"properties":           properties,
		"additionalProperties": false,
	}
}

func comment() node { return node{"description": "A comment."} }

func describe(n node, doc string) node {
	if doc != "" {
		n["description"] = doc
	}

	return n
}

// attributeSchema returns the schema of the value of an attribute.
func attributeSchema(s Spec) node {
	switch {
	case s.Refs != "":
		address := fmt.Sprintf("^(\\$\\{)?%s\\.%s\\.", StageBlock.Type, s.Refs)
		return node{"type": []string{"array", "null"}, "items": node{"type": "string", "pattern": address}}
	case len(s.OneOf) > 0 && s.Const:
		return node{"enum": append(texts(s.OneOf), nil)}
	case len(s.OneOf) > 0:
		return node{
			"anyOf": []node{
				{"enum": append(texts(s.OneOf), nil)},
				{"type": "string", "pattern": `[$%]\{`},
			},
		}
	}

	return typeSchema(s.Type)
}

func texts(words []string) []any {
	var out []any
	for _, w := range words {
		out = append(out, w)
	}

	return out
}

// typeSchema returns the schema of the values that can be converted to a type. A string may be an expression, and null
// is the default.
func typeSchema(t cty.Type) node {
	switch {
	case t == cty.String:
		return node{"type": []string{"string", "number", "boolean", "null"}}
	case t == cty.Number:
		return node{"type": []string{"number", "string", "null"}}
	case t == cty.Bool:
		return node{"type": []string{"boolean", "string", "null"}}
	case t.IsListType(), t.IsSetType():
		return node{"type": []string{"array", "string", "null"}, "items": typeSchema(t.ElementType())}
	case t.IsTupleType():
		return node{"type": []string{"array", "string", "null"}}
	case t.IsMapType():
		return node{"type": []string{"object", "string", "null"}, "additionalProperties": typeSchema(t.ElementType())}
	case t.IsObjectType():
		return node{"type": []string{"object", "string", "null"}}
	}

	return node{}
}
