package testfile

import (
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// makeNodeValue returns `node` as the conditions of tests see it: the finished node as render stages see it, and its
// files by path. Where the plan is not complete, files are unknown: a file may be missing for lack of an answer.
func makeNodeValue(p *evaluate.Plan) cty.Value {
	attributes := map[string]cty.Value{}
	if n := p.Eval.Node(); n.Type().IsObjectType() && n.IsKnown() {
		attributes = n.AsValueMap()
	}
	attributes["files"] = makeFilesValue(p)
	attributes["name"] = cty.NullVal(cty.String)
	if name := p.NodeName(); name != "" {
		attributes["name"] = cty.StringVal(name)
	}

	return cty.ObjectVal(attributes)
}

// makePlanValue returns `plan` as the conditions of tests see it.
func makePlanValue(p *evaluate.Plan) cty.Value {
	var degraded, warnings, holds []string
	for _, d := range p.Degraded {
		degraded = append(degraded, string(d.Code))
	}
	for _, d := range p.Diagnostics {
		warnings = append(warnings, string(origin.CodeOf(d)))
	}

	if a := p.Node.Activation; a != nil {
		for _, h := range a.Holds {
			if !h.Unknown {
				holds = append(holds, h.Name)
			}
		}
	}

	return cty.ObjectVal(map[string]cty.Value{
		"complete": cty.BoolVal(p.Complete),
		"hash":     cty.StringVal(p.Hash),
		"degraded": makeTexts(degraded),
		"holds":    makeTexts(holds),
		"warnings": makeTexts(warnings),
	})
}

// makeTexts returns a sorted list of texts without duplicates.
func makeTexts(texts []string) cty.Value {
	slices.Sort(texts)

	return value.StringList(slices.Compact(texts))
}

func makeFilesValue(p *evaluate.Plan) cty.Value {
	if !p.Complete {
		return cty.DynamicVal
	}

	files := map[string]cty.Value{}
	for _, c := range p.Changes {
		files[c.File.Path] = makeFileValue(c)
	}

	if len(files) == 0 {
		return cty.MapValEmpty(cty.DynamicPseudoType)
	}

	return cty.MapVal(files) // of a map, a condition may ask for a path that is not there: try(node.files[PATH], null)
}

// makeFileValue returns one file. Its content is marked with the credentials in it; that of a folder, and of a file
// that is removed, is null.
func makeFileValue(c evaluate.FileChange) cty.Value {
	content := cty.NullVal(cty.String)
	if c.File.Kind == desired.Regular && c.File.Purpose != "identity" {
		content = c.File.Text.Value()
	}

	return cty.ObjectVal(map[string]cty.Value{
		"action":    cty.StringVal(c.Action),
		"kind":      cty.StringVal(string(c.File.Kind)),
		"content":   content,
		"mode":      cty.StringVal(fmt.Sprintf("%04o", c.Mode())),
		"owner":     cty.StringVal(c.Owner()),
		"purpose":   cty.StringVal(c.File.Purpose),
		"sensitive": cty.BoolVal(len(c.File.Text.Secrets()) > 0),
		"notifies":  makeTexts(slices.Clone(c.Notifies)),
	})
}
