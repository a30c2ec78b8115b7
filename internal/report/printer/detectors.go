package printer

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/detector"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/stages"
)

// What is shown of one detector; JSON has all of it.
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

	b := page{Style: s}
	b.writeList(b.bold("detectors"), rows)

	return b.flush(w)
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

	return printable(fmt.Sprint(v))
}

// DetectorList writes the output of `detectors list`: the detectors that would run, and why the others would not. long
// adds their descriptions.
func DetectorList(w io.Writer, all []detector.Row, long bool, s Style) error {
	var parts []string
	for _, r := range all {
		b := page{Style: s}
		b.writeDetector(r, long)
		parts = append(parts, b.String())
	}
	if parts == nil {
		parts = []string{"No detector is declared or installed.\n"}
	}
	_, err := io.WriteString(w, strings.Join(parts, "\n"))

	return err
}

func (b *page) writeDetector(r detector.Row, long bool) {
	state := b.green("runs")
	if !r.Runs() {
		state = b.yellow("does not run")
	}
	name := joinParts(" ", r.Name, printable(r.Version))
	fmt.Fprintf(b, "%s  %s\n", b.bold(name), state)

	rows := [][]string{
		{"declared", cmp.Or(printable(r.Declared), "by no site")},
		{"program", r.Program},
		{"lock", cmp.Or(printable(r.Lock), "none")},
	}
	if r.Why != "" {
		rows = append(rows, []string{"", printable(r.Why)})
	}
	if r.Description != nil {
		rows = append(rows, []string{"matches", matchText(r)})
	}
	b.writeTable("  ", rows, nil)

	if r.Declared != "" {
		b.writeGrants("it needs what the site does not grant", r.Missing)
	}
	if r.Declared != "" && long {
		b.writeGrants("it could report more with", r.Unused)
	}
	if r.Description != nil && long {
		b.writeDescription(*r.Description)
	}
}

func matchText(r detector.Row) string {
	switch {
	case len(r.Devices) > 0:
		return strings.Join(r.Devices, ", ")
	case r.Matches:
		return "yes"
	}

	return "nothing on this machine"
}

func (b *page) writeGrants(title string, g contract.Needs) {
	if !g.Empty() {
		fmt.Fprintf(b, "  %s:\n", title)
		b.writeLines("    ", "    ", strings.Split(stages.AllowBlock(world.Grants{}, g), "\n"))
	}
}

func (b *page) writeDescription(d contract.Description) {
	b.writeText("  ", printable(d.Doc))
	b.writeList("  config", attributeRows(d.Config))
	b.writeList("  facts", attributeRows(d.Facts))
	if len(d.LabelDomains) > 0 {
		fmt.Fprintf(b, "  recommends labels in %s\n", strings.Join(d.LabelDomains, ", "))
	}
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
		rows = append(rows, []string{a.Name, printable(text), printable(a.Doc)})
	}

	return rows
}

func (b *page) writeList(title string, rows [][]string) {
	if len(rows) > 0 {
		fmt.Fprintf(b, "\n%s\n", title)
		b.writeTable("  ", rows, nil)
	}
}
