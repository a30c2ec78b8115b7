// Package language describes the site language to hcl-lang, and indexes the names of a site. Everything comes from
// prelet's own declarations (package builtin), so that an editor and `prelet validate` know the same language. It must
// not read files, and knows nothing about the protocol.
package language

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl-lang/lang"
	hclschema "github.com/hashicorp/hcl-lang/schema"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lab/reference"
	"github.com/prelet/prelet/internal/lab/repository"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Language is the language in the forms that an editor needs. It does not change after New.
type Language struct {
	Site       *hclschema.BodySchema // of a *.hcl file
	Test       *hclschema.BodySchema // of a *.prelettest.hcl file
	Repository *hclschema.BodySchema // of the file of a repository
	Functions  map[string]hclschema.FunctionSignature

	stages  map[string]reference.StageType // by type
	outputs map[string]map[string]string   // documentation by type and path, as in nics[].speed_gbps
}

// New reads prelet's declarations.
func New() *Language {
	declared := reference.Collect()
	l := &Language{
		Site:       hclschema.NewBodySchema(),
		Test:       testFile(),
		Repository: describeBody(repository.Block),
		Functions:  signatures(declared.Functions),
		stages:     map[string]reference.StageType{},
		outputs:    map[string]map[string]string{},
	}

	for _, s := range declared.Stages {
		docs := map[string]string{}
		for _, o := range s.Outputs {
			docs[o.Name] = linkPages(o.Doc)
		}
		s.Doc = linkPages(s.Doc)
		l.stages[s.Block.Type] = s
		l.outputs[s.Block.Type] = docs
	}
	for _, row := range declared.Facts.Rows() {
		l.outputs[stages.DetectHW][row.Path] = linkPages(row.Doc)
	}

	override := hclschema.NewBodySchema()
	for _, b := range declared.Blocks {
		block := l.topBlock(b.Block)
		l.Site.Blocks[b.Type] = block
		if b.Type != schema.OverrideBlock.Type {
			override.Blocks[b.Type] = block
		}
	}
	l.Site.Blocks[schema.OverrideBlock.Type].Body = override

	return l
}

// StageTypes returns the documentation of the stage types, by type.
func (l *Language) StageTypes() map[string]reference.StageType { return l.stages }

// VarsFile returns the schema of a vars file: the variables of the site.
func (l *Language) VarsFile(variables []Symbol) *hclschema.BodySchema {
	body := hclschema.NewBodySchema()
	for _, v := range variables {
		body.Attributes[v.Name] = &hclschema.AttributeSchema{
			IsOptional:  true,
			Description: lang.Markdown(v.Doc),
			Constraint:  hclschema.LiteralType{Type: v.Type},
		}
	}

	return body
}

func (l *Language) topBlock(b schema.Block) *hclschema.BlockSchema {
	block := describeBlock(b)
	if b.Type != schema.StageBlock.Type {
		return block
	}

	block.Labels[0].IsDepKey = true
	block.Labels[0].Completable = true
	block.DependentBody = map[hclschema.SchemaKey]*hclschema.BodySchema{}
	for _, s := range l.stages {
		key := hclschema.NewSchemaKey(hclschema.DependencyKeys{
			Labels: []hclschema.LabelDependent{{Index: 0, Value: s.Block.Type}},
		})
		body := describeBody(s.Block)
		for _, f := range s.Meta {
			spec := f.Spec()
			body.Attributes[spec.Name] = describeAttribute(spec)
		}
		body.Detail = s.Phase.String() + " stage"
		body.Description = lang.Markdown(linkPages(s.Doc))
		block.DependentBody[key] = body
	}

	return block
}

func describeBlock(b schema.Block) *hclschema.BlockSchema {
	block := &hclschema.BlockSchema{
		Description: lang.Markdown(linkPages(b.Doc)),
		Body:        describeBody(b),
		MaxItems:    uint64(b.Max),
	}
	for _, name := range b.Labels {
		block.Labels = append(block.Labels, &hclschema.LabelSchema{Name: name})
	}

	return block
}

func describeBody(b schema.Block) *hclschema.BodySchema {
	body := hclschema.NewBodySchema()
	body.Description = lang.Markdown(linkPages(b.Doc))
	if b.Free {
		body.AnyAttribute = &hclschema.AttributeSchema{
			IsOptional: true,
			Constraint: anyValue(maxValueDepth),
		}
		return body
	}

	fields := b.Fields
	if b.ForEach {
		fields = append([]schema.Field{schema.When, schema.ForEach}, fields...)
	}
	for _, f := range fields {
		spec := f.Spec()
		body.Attributes[spec.Name] = describeAttribute(spec)
	}
	for _, n := range b.Blocks {
		body.Blocks[n.Type] = describeBlock(n)
	}

	return body
}

func describeAttribute(s schema.Spec) *hclschema.AttributeSchema {
	return &hclschema.AttributeSchema{
		Description: lang.Markdown(documentAttribute(s)),
		IsRequired:  s.Required,
		IsOptional:  !s.Required,
		Constraint:  constrain(s),
	}
}

// constrain returns the expressions that an attribute accepts.
func constrain(s schema.Spec) hclschema.Constraint {
	var words hclschema.OneOf
	for _, w := range s.OneOf {
		words = append(words, hclschema.LiteralValue{Value: cty.StringVal(w)})
	}

	switch {
	case s.Refs != "":
		return hclschema.List{Elem: hclschema.Reference{OfScopeId: scopeOf(s.Refs)}}
	case s.Name == schema.VariableType.Name && s.Const:
		return hclschema.TypeDeclaration{}
	case len(words) > 0 && s.Const:
		return words
	case len(words) > 0:
		return append(words, hclschema.AnyExpression{OfType: s.Type})
	case s.Const && s.Type != cty.DynamicPseudoType:
		return hclschema.LiteralType{Type: s.Type}
	case s.Type == cty.DynamicPseudoType:
		return anyValue(maxValueDepth)
	}

	return hclschema.AnyExpression{OfType: s.Type}
}

// maxValueDepth is how deep hcl-lang looks into the objects of an argument of any type, such as a patch of the
// kubelet's configuration.
const maxValueDepth = 4

// anyValue is the constraint of a value of any type. hcl-lang looks into objects only where a constraint names them.
func anyValue(depth int) hclschema.Constraint {
	value := hclschema.AnyExpression{OfType: cty.DynamicPseudoType}
	if depth == 0 {
		return value
	}
	object := hclschema.Map{
		Elem:                  anyValue(depth - 1),
		Name:                  value.FriendlyName(),
		AllowInterpolatedKeys: true,
	}

	return hclschema.OneOf{object, value}
}

// scopeOf returns the scope of the stages of a type, for lists of references such as notify.
func scopeOf(stageType string) lang.ScopeId { return lang.ScopeId("stage " + stageType) }

// pages is where the reference pages are, for links between them.
const pages = "https://github.com/prelet/prelet/blob/main/docs/reference/"

// pageLink is a link to another reference page.
var pageLink = regexp.MustCompile(`\]\(([a-z0-9./-]+\.md)`)

// linkPages makes the links of a text that is from a reference page absolute.
func linkPages(doc string) string { return pageLink.ReplaceAllString(doc, "]("+pages+"$1") }

// documentAttribute returns the text of an editor about an attribute, in Markdown.
func documentAttribute(s schema.Spec) string {
	parts := []string{linkPages(s.Doc)}

	if len(s.OneOf) > 0 {
		parts = append(parts, "One of `"+strings.Join(s.OneOf, "`, `")+"`.")
	}
	switch {
	case s.DefaultText != "":
		parts = append(parts, "Default: "+s.DefaultText+".")
	case !s.Default.IsNull() && s.Default.Type().IsPrimitiveType():
		parts = append(parts, fmt.Sprintf("Default: `%s`.", value.Literal(s.Default)))
	case s.Ref != nil:
		parts = append(parts, fmt.Sprintf(
			"Default: `%s` of the only `%s` stage.",
			s.Ref.Output,
			s.Ref.Stage,
		))
	}
	switch {
	case s.Const:
		parts = append(parts, "A literal: no references and no functions.")
	case s.Phase != schema.OfBlock:
		parts = append(parts, fmt.Sprintf("Its references may reach the phase `%s`.", s.Phase))
	}

	return strings.Join(parts, "\n\n")
}
