package language

import (
	"fmt"
	"maps"
	"strings"

	hclschema "github.com/hashicorp/hcl-lang/schema"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/schema"
)

// signatures returns the functions of the language. Those that read the machine are implemented by the evaluation
// only, so their parameters come from their documented form.
func signatures(documented []schema.Function) map[string]hclschema.FunctionSignature {
	table := value.Functions()
	out := map[string]hclschema.FunctionSignature{}

	for _, d := range documented {
		s := hclschema.FunctionSignature{
			Description: documentFunction(d),
			Detail:      d.Usage,
			ReturnType:  cty.DynamicPseudoType,
		}
		if f, ok := table[d.Name]; ok {
			s.Params = f.Params()
			s.VarParam = f.VarParam()
			s.ReturnType = returnType(f)
		} else {
			s.Params, s.ReturnType = readerSignature(d)
		}
		out[d.Name] = s
	}

	return out
}

// readerSignature returns the signature of a function that reads the machine, from its documented form.
func readerSignature(d schema.Function) ([]function.Parameter, cty.Type) {
	_, list, _ := strings.Cut(strings.TrimSuffix(d.Usage, ")"), "(")
	var params []function.Parameter
	for name := range strings.SplitSeq(list, ",") {
		t := cty.String
		if len(params) > 0 { // the variables of templatefile
			t = cty.DynamicPseudoType
		}
		params = append(params, function.Parameter{Name: strings.TrimSpace(name), Type: t})
	}
	if d.Name == "fileexists" {
		return params, cty.Bool
	}

	return params, cty.String
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

func documentFunction(f schema.Function) string {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`\n\n%s", f.Usage, linkPages(f.Doc))
	for _, e := range f.Examples[:min(len(f.Examples), maxExamples)] {
		fmt.Fprintf(&b, "\n\n`%s` is `%s`", e.Call, e.Result)
	}

	return b.String()
}

// showPrimitive returns a value of a primitive type as it is written in a site.
func showPrimitive(v cty.Value) string {
	text, err := convert.Convert(v, cty.String)
	if err != nil {
		return v.GoString()
	}
	if v.Type() == cty.String {
		return fmt.Sprintf("%q", v.AsString())
	}

	return text.AsString()
}

// attributeTypes returns the attributes of an object type; nil for any other type.
func attributeTypes(t cty.Type) map[string]cty.Type {
	if t == cty.NilType || !t.IsObjectType() {
		return nil
	}

	return maps.Clone(t.AttributeTypes())
}
