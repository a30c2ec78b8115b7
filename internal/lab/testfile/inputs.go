package testfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
)

// CheckNames refuses the names of variables and detectors that the site of a file does not declare, and values that its
// variables cannot get.
func (f *Suite) CheckNames(site *lang.Site) (diags hcl.Diagnostics) {
	for _, r := range f.Runs {
		diags = append(diags, r.checkVariables(site)...)
		diags = append(diags, r.checkDetectors(site)...)
	}

	return diags
}

// checkVariables refuses variables of a run that the site does not declare, and values that it could not get.
func (r *Run) checkVariables(site *lang.Site) (diags hcl.Diagnostics) {
	known := slices.Sorted(maps.Keys(site.Variables))
	for _, name := range slices.Sorted(maps.Keys(r.Variables)) {
		l := r.Variables[name]
		v := site.Variables[name]
		if v == nil {
			diags = append(diags, origin.Error(fault.VariableUnknown, l.At, fmt.Sprintf("Unknown variable %q", name),
				"The site does not declare it. %s", schema.Suggest(name, known)))
			continue
		}
		if _, err := variableText(l.Value, v.Type); err != nil {
			diags = append(diags, origin.Error(fault.WrongType, l.At, fmt.Sprintf("Wrong type for variable %q", name),
				"%s is needed, and this is %s.", origin.Capitalize(schema.Article(v.Type)), err))
		}
	}
	return diags
}

// VariableTexts returns the values of variables of a run as the texts that the site's variables take, by name.
func (r *Run) VariableTexts(site *lang.Site) map[string]string {
	out := map[string]string{}
	for name, l := range r.Variables {
		text, err := variableText(l.Value, site.Variables[name].Type)
		if err == nil { // checkVariables has reported it
			out[name] = text
		}
	}

	return out
}

// variableText returns a value as a credential or the kernel command line gives it: the text of a primitive type, and
// a literal of any other. The error is the type that the value has.
func variableText(v cty.Value, want cty.Type) (string, error) {
	if !want.IsPrimitiveType() {
		return string(hclwrite.TokensForValue(v).Bytes()), nil
	}

	converted, err := convert.Convert(v, want)
	if err != nil {
		return "", errors.New(schema.Article(v.Type()))
	}
	text, err := convert.Convert(converted, cty.String)
	if err != nil || text.IsNull() || !text.IsKnown() {
		return "", errors.New(schema.Article(v.Type()))
	}
	return text.AsString(), nil
}

// checkDetectors refuses replies of detectors that the site does not declare.
func (r *Run) checkDetectors(site *lang.Site) (diags hcl.Diagnostics) {
	known := site.DetectorNames()
	for _, name := range slices.Sorted(maps.Keys(r.Detectors)) {
		if site.Detectors[name] == nil {
			diags = append(diags, origin.Error(fault.Reference, r.Detectors[name].At,
				fmt.Sprintf("Unknown detector %q", name),
				"The site does not declare it. %s", schema.Suggest(name, known)))
		}
	}
	return diags
}

// DetectorAnswers returns the replies of a run's detectors as answers.
func (r *Run) DetectorAnswers() map[string]tape.Answer {
	out := map[string]tape.Answer{}
	for name, d := range r.Detectors {
		why := fmt.Sprintf("the test says that %q is %s", name, d.State)
		switch d.State {
		case "failed":
			out[name] = tape.Failure(fault.DetectorFailed, why, "")
		case "absent":
			out[name] = tape.Failure(fault.Absent, why, "")
		case "skipped":
			out[name] = tape.Detector.Answer(tape.DetectorAns{Skipped: why})
		default:
			out[name] = tape.Detector.Answer(d.Reply)
		}
	}
	return out
}
