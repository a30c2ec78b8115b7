package printer

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"github.com/prelet/prelet/internal/machine/detector"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/stages"
)

// Limits of the output for one detector; JSON has all of it.
const (
	maxValues      = 48  // attributes, labels and facts
	maxValueLength = 200 // bytes
)

// DetectorsText writes the reports of vendors' detectors, below the facts; nothing without a detector.
func DetectorsText(w io.Writer, all map[string]any, s Style) error {
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d, _ := all[name].(map[string]any)
		row := []string{name, jsonText(d["state"])}
		if d["state"] == "ok" {
			row = append(row, jsonText(d["version"]), strings.Join(detectorValues(d), ", "))
		}
		rows = append(rows, row)
	}

	if len(rows) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s\n%s", s.bold("detectors"), s.indentTable("  ", rows, nil))

	return err
}

// detectorValues returns the number of devices of a detector, and its values as KEY=VALUE.
func detectorValues(d map[string]any) (out []string) {
	if devices, _ := d["devices"].([]any); len(devices) > 0 {
		out = append(out, Count(len(devices), "device"))
	}
	for _, kind := range []string{"attributes", "labels", "facts"} {
		values, _ := d[kind].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			v := key + "=" + jsonText(values[key])
			if len(v) > maxValueLength {
				v = strings.ToValidUTF8(v[:maxValueLength], "") + "…"
			}
			out = append(out, v)
		}
	}
	if more := len(out) - maxValues; more > 0 {
		out = append(out[:maxValues], fmt.Sprintf("… and %d more: -o json", more))
	}

	return out
}

// jsonText returns a decoded JSON value as text without control characters.
func jsonText(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case []any:
		return "[" + Count(len(v), "element") + "]"
	case map[string]any:
		return "{" + Count(len(v), "element") + "}"
	}

	return maskControls(fmt.Sprint(v))
}

// DetectorRows is the document of `detectors list`: the detectors that would run, and why the others would not.
type DetectorRows struct {
	FormatVersion int            `json:"format_version"`
	All           []detector.Row `json:"detectors"`
	IsLong        bool           `json:"-"` // the text has their descriptions
}

// DetectorList writes the output of `detectors list`.
func DetectorList(w io.Writer, d DetectorRows, s Style) error {
	return s.render(w, "detectors", d, template.FuncMap{
		"allow": func(needs contract.Needs) string {
			return joinLines(
				"    ",
				"    ",
				strings.Split(stages.AllowBlock(tape.Grants{}, needs), "\n"),
			)
		},
		"attributes": attributeRows,
		"isEmpty":    contract.Needs.Empty,
		"match":      matchText,
		"runs":       detector.Row.Runs,
	})
}

func matchText(r detector.Row) string {
	switch {
	case r.Description == nil:
		return ""
	case len(r.Devices) > 0:
		return strings.Join(r.Devices, ", ")
	case r.Matches:
		return "yes"
	}

	return "nothing on this machine"
}

func attributeRows(attributes []contract.Attribute) (rows [][]string) {
	for _, a := range attributes {
		text := a.Type.String()
		if a.Unit != "" {
			text += " of " + a.Unit
		}
		if a.Required {
			text += ", required"
		}
		if a.Default != nil {
			text += ", default " + jsonText(a.Default)
		}
		rows = append(rows, []string{a.Name, maskControls(text), maskControls(a.Doc)})
	}

	return rows
}
