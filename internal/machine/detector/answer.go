package detector

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/plugins/contract"
)

// checkAnswer converts an answer. It rejects a whole answer that breaks the detector's own description or the limits,
// and leaves out devices that the site does not let the detector report.
func checkAnswer(
	d contract.Description,
	a *contract.Answer,
	r tape.DetectorReq,
) (tape.DetectorAns, error) {
	out := emptyAnswer(d)
	if a == nil {
		return out, errors.New("it is empty")
	}
	requested := requestedDevices(r)
	problems := d.CheckAnswer(*a, requested)
	if len(problems) > 0 {
		return out, summarize(problems)
	}
	if len(a.Problems) > 0 {
		out.Problems = a.Problems
		return out, nil
	}

	maps.Copy(out.Attributes, a.Attributes)
	out.Warnings = append(out.Warnings, a.Warnings...)
	if !r.Allow.AnyPCIDevice {
		out.Foreign = contract.Foreign(a.Devices, requested)
	}
	for _, device := range a.Devices {
		if !slices.Contains(out.Foreign, device.Address) {
			out.Devices = append(out.Devices, device)
		}
	}
	byAddress := func(a, b contract.Device) int {
		return strings.Compare(a.Address, b.Address)
	}
	slices.SortStableFunc(out.Devices, byAddress)

	if len(d.Facts) > 0 {
		out.Facts = map[string]any{}
	}
	for _, f := range a.Facts {
		if k := findDenormal(f.Value); k != "" {
			const form = "fact %q: its key %+q is not in Unicode's form NFC, in which sites have all text"
			return out, fmt.Errorf(form, f.Name, k)
		}
		out.Facts[f.Name] = f.Value
		addText(&out.Evidence, "facts."+f.Name, f.Evidence)
		addText(&out.Unknown, "facts."+f.Name, f.Unknown)
	}

	for _, l := range a.Labels {
		out.Labels[l.Key] = l.Value
		addText(&out.Evidence, "labels."+l.Key, l.Evidence)
	}

	return out, nil
}

// findDenormal returns a key of a map in the value that the evaluation of a site would change, so that two keys could
// become one; "" if there is none.
func findDenormal(v any) string {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if k := findDenormal(e); k != "" {
				return k
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if !norm.NFC.IsNormalString(k) {
				return k
			}
			if inner := findDenormal(v[k]); inner != "" {
				return inner
			}
		}
	}

	return ""
}

func emptyAnswer(d contract.Description) tape.DetectorAns {
	return tape.DetectorAns{
		Version:    d.Version,
		Attributes: map[string]string{},
		Labels:     map[string]string{},
		Warnings:   []string{},
	}
}

// summarize returns the first problems as one line.
func summarize(problems contract.Problems) error {
	const limit = 3
	more := ""
	if n := len(problems) - limit; n > 0 {
		problems = problems[:limit]
		more = fmt.Sprintf("; and %d more", n)
	}
	text := strings.ReplaceAll(problems.Error(), "\n", "; ")

	return errors.New(text + more)
}

// addText sets a key unless the text is empty.
func addText(m *map[string]string, key, text string) {
	if text == "" {
		return
	}
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = text
}

// cleanText returns text of a detector as one short printable line. Bytes that are not UTF-8 are removed.
func cleanText(s string) string {
	size := min(len(s), 4*contract.MaxText)
	s = strings.ToValidUTF8(s[:size], " ")
	s = strings.ReplaceAll(s, string(unicode.ReplacementChar), " ")

	return contract.OneLine(s)
}
