package sdk

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/prelet/prelet/plugins/contract"
)

// printTable prints rows with a heading, or nothing without rows.
func printTable(w io.Writer, heading string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	if heading != "" {
		fmt.Fprintf(w, "\n%s\n", heading)
	}

	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		line := "  " + strings.Join(r, "\t")
		fmt.Fprintln(t, strings.TrimRight(line, "\t"))
	}
	_ = t.Flush() // fmt ignores errors of w too
}

func printDescription(w io.Writer, d contract.Description) {
	fmt.Fprint(w, d.Name, " ", d.Version)
	if d.Vendor != "" {
		fmt.Fprint(w, ", by ", d.Vendor)
	}
	fmt.Fprintln(w)
	if d.Doc != "" {
		fmt.Fprintln(w, d.Doc)
	}

	match := slices.Concat(d.Match.PCIIDs, d.Match.Paths)
	if d.Match.Always {
		match = []string{"always"}
	}
	text := strings.Join(match, " ")
	if len(match) > 4 {
		first := strings.Join(match[:4], " ")
		text = fmt.Sprintf("%s … (%d ids and paths)", first, len(match))
	}
	rows := [][]string{{"runs with", text}}
	rows = append(rows, needRows("needs", d.Needs)...)
	rows = append(rows, needRows("can use", d.Wants)...)
	if d.Needs.Empty() && d.Wants.Empty() {
		rows = append(rows, []string{"needs", "only to read /sys and /proc"})
	}
	if len(d.LabelDomains) > 0 {
		domains := strings.Join(d.LabelDomains, " ")
		rows = append(rows, []string{"labels in", domains})
	}
	fmt.Fprintln(w)
	printTable(w, "", rows)
	printTable(w, "Configuration", attributeRows("", d.Config, true))
	printTable(w, "Facts", attributeRows("", d.Facts, false))
}

func needRows(heading string, n contract.Needs) [][]string {
	var rows [][]string
	add := func(kind string, list []string) {
		if len(list) > 0 {
			text := kind + " " + strings.Join(list, " ")
			rows = append(rows, []string{heading, text})
		}
	}
	add("devices", n.Devices)
	add("read", n.Read)
	add("execute", n.Execute)
	add("sockets", n.Sockets)
	add("groups", n.Groups)
	if n.AnyPCIDevice {
		rows = append(rows, []string{heading, "any_pci_device"})
	}

	return rows
}

func attributeRows(prefix string, list []contract.Attribute, isConfig bool) [][]string {
	var rows [][]string
	for _, a := range list {
		isObject := a.Type.Kind == contract.Object
		typ := a.Type.String()
		if isObject {
			typ = "object"
		}
		if a.Unit != "" {
			typ += ", " + a.Unit
		}

		row := []string{prefix + a.Name, typ}
		switch {
		case isConfig && a.Required:
			row = append(row, "required")
		case isConfig && a.Default != nil:
			row = append(row, "default "+toJSON(a.Default))
		case isConfig:
			row = append(row, "")
		}
		rows = append(rows, append(row, a.Doc))
		if isObject {
			fields := attributeRows(prefix+a.Name+".", a.Type.Attributes, isConfig)
			rows = append(rows, fields...)
		}
	}

	return rows
}

func printAnswer(w io.Writer, d contract.Description, a contract.Answer) {
	if len(a.Problems) > 0 {
		fmt.Fprintln(w, "Invalid configuration:")
		for _, p := range a.Problems {
			fmt.Fprintln(w, "  "+p.Error())
		}
		return
	}

	devices := "devices"
	if len(a.Devices) == 1 {
		devices = "device"
	}
	count := len(a.Devices)
	fmt.Fprintf(w, "%s %s: %d %s\n", d.Name, d.Version, count, devices)
	printTable(w, "", deviceRows(a.Devices))

	var attributes, facts, labels [][]string
	names := slices.Sorted(maps.Keys(a.Attributes))
	for _, k := range names {
		row := []string{k, a.Attributes[k]}
		attributes = append(attributes, row)
	}
	for _, f := range a.Facts {
		evidence := inParentheses(f.Evidence)
		row := []string{f.Name, describeFact(f), evidence}
		facts = append(facts, row)
	}
	for _, l := range a.Labels {
		evidence := inParentheses(l.Evidence)
		row := []string{l.Key + "=" + l.Value, evidence}
		labels = append(labels, row)
	}
	printTable(w, "Machine", attributes)
	printTable(w, "Facts", facts)
	printTable(w, "Recommended labels", labels)
	for _, text := range a.Warnings {
		fmt.Fprintln(w, "\nwarning:", text)
	}
}

func describeFact(f contract.Fact) string {
	switch {
	case f.Value != nil:
		return toJSON(f.Value)
	}

	return strings.TrimSuffix("unknown: "+f.Unknown, ": ")
}

// deviceRows returns a row for each device, followed by a row for each of its other fields and attributes.
func deviceRows(list []contract.Device) [][]string {
	var rows [][]string
	for _, d := range list {
		address := cmp.Or(d.Address, "-")
		name := cmp.Or(orEmpty(d.Name), orEmpty(d.Model), "?")
		rows = append(rows, []string{address, orEmpty(d.Kind), name})

		fields := toValue(d).(map[string]any)
		for _, shown := range []string{"address", "kind", "name", "evidence", "attributes"} {
			delete(fields, shown)
		}
		for k, v := range d.Attributes {
			fields[k] = v
		}
		for _, k := range slices.Sorted(maps.Keys(fields)) {
			text := k + " = " + toJSON(fields[k])
			rows = append(rows, []string{"", "", text})
		}
	}

	return rows
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}

	return *s
}

func inParentheses(evidence string) string {
	if evidence == "" {
		return ""
	}

	return "(" + evidence + ")"
}

func toJSON(v any) string {
	b, _ := json.Marshal(v) // the values of an answer have a JSON

	return string(b)
}
