package language

import (
	"context"
	"fmt"
	"maps"
	"strings"

	hclschema "github.com/hashicorp/hcl-lang/schema"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/prelet/prelet/internal/lab/reference"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
)

func signatures(documented []reference.Function) map[string]hclschema.FunctionSignature {
	table := eval.New(context.Background(), &lang.Site{}, nil).Functions()
	out := map[string]hclschema.FunctionSignature{}

	for _, d := range documented {
		f := table[d.Name]
		out[d.Name] = hclschema.FunctionSignature{
			Description: documentFunction(d),
			Detail:      d.Usage,
			Params:      f.Params(),
			VarParam:    f.VarParam(),
			ReturnType:  returnType(f),
		}
	}

	return out
}

// returnType returns the type of a function's result where it does not depend on the arguments.
func returnType(f function.Function) cty.Type {
	var args []cty.Type
	for _, p := range f.Params() {
		args = append(args, p.Type)
	}
	if v := f.VarParam(); v != nil {
		args = append(args, v.Type)
	}

	t, err := f.ReturnType(args)
	if err != nil {
		return cty.DynamicPseudoType
	}

	return t
}

// maxExamples is how many examples of a function are shown.
const maxExamples = 3

func documentFunction(f reference.Function) string {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`\n\n%s", f.Usage, linkPages(f.Doc))
	for _, e := range f.Examples[:min(len(f.Examples), maxExamples)] {
		fmt.Fprintf(&b, "\n\n`%s` is `%s`", e.Call, e.Result)
	}

	return b.String()
}

// attributeTypes returns the attributes of an object type; nil for any other type.
func attributeTypes(t cty.Type) map[string]cty.Type {
	if t == cty.NilType || !t.IsObjectType() {
		return nil
	}

	return maps.Clone(t.AttributeTypes())
}
