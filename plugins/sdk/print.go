package sdk

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/prelet/prelet/plugins/contract"
)

// table prints rows under a heading; nothing for none.
func table(w io.Writer, heading string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	if heading != "" {
		fmt.Fprintf(w, "\n%s\n", heading)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		for len(r) > 0 && r[len(r)-1] == "" {
			r = r[:len(r)-1]
		}
		fmt.Fprintln(t, "  "+strings.Join(r, "\t"))
	}
	_ = t.Flush() // to a writer whose errors fmt ignores as well
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
	fmt.Fprintln(w)
	match := append(slices.Clone(d.Match.PCIIDs), d.Match.Paths...)
	if d.Match.Always {
		match = []string{"always"}
	}
	rows := [][]string{{"runs with", strings.Join(match, " ")}}
	if n := len(match); n > 4 {
		rows[0][1] = fmt.Sprintf("%s … (%d ids and paths)", strings.Join(match[:4], " "), n)
	}
	rows = append(rows, asks("needs", d.Needs)...)
	rows = append(rows, asks("can use", d.Wants)...)
	if d.Needs.Empty() && d.Wants.Empty() {
		rows = append(rows, []string{"needs", "nothing but to read /sys and /proc"})
	}
	if len(d.LabelDomains) > 0 {
		rows = append(rows, []string{"labels in", strings.Join(d.LabelDomains, " ")})
	}
	table(w, "", rows)
	table(w, "Configuration", declarations("", d.Config, true))
	table(w, "Facts", declarations("", d.Facts, false))
}

func asks(what string, n contract.Needs) [][]string {
	var rows [][]string
	for _, x := range []struct {
		kind string
		list []string
	}{{"devices", n.Devices}, {"read", n.Read}, {"execute", n.Execute}, {"sockets", n.Sockets}, {"groups", n.Groups}} {
		if len(x.list) > 0 {
			rows = append(rows, []string{what, x.kind + " " + strings.Join(x.list, " ")})
		}
	}
	if n.AnyPCIDevice {
		rows = append(rows, []string{what, "any_pci_device"})
	}
	return rows
}

func declarations(prefix string, list []contract.Attribute, config bool) [][]string {
	var rows [][]string
	for _, a := range list {
		typ := a.Type.String()
		if a.Type.Kind == contract.Object {
			typ = "object"
		}
		if a.Unit != "" {
			typ += ", " + a.Unit
		}
		row := []string{prefix + a.Name, typ}
		if config {
			def := ""
			switch {
			case a.Required:
				def = "required"
			case a.Default != nil:
				def = "default " + compact(a.Default)
			}
			row = append(row, def)
		}
		rows = append(rows, append(row, a.Doc))
		if a.Type.Kind == contract.Object {
			rows = append(rows, declarations(prefix+a.Name+".", a.Type.Attributes, config)...)
		}
	}
	return rows
}

func printAnswer(w io.Writer, d contract.Description, a contract.Answer) {
	if len(a.Problems) > 0 {
		fmt.Fprintln(w, "The configuration is refused:")
		for _, p := range a.Problems {
			fmt.Fprintln(w, "  "+p.Error())
		}
		return
	}
	fmt.Fprintf(w, "%s %s: %s\n", d.Name, d.Version, plural(len(a.Devices), "device"))
	table(w, "", deviceRows(a.Devices))
	table(w, "Machine", pairs(a.Attributes))
	var rows [][]string
	for _, f := range a.Facts {
		v := compact(f.Value)
		if f.Value == nil {
			v = "unknown"
			if f.Unknown != "" {
				v += ": " + f.Unknown
			}
		}
		rows = append(rows, []string{f.Name, v, from(f.Evidence)})
	}
	table(w, "Facts", rows)
	rows = nil
	for _, l := range a.Labels {
		rows = append(rows, []string{l.Key + "=" + l.Value, from(l.Evidence)})
	}
	table(w, "Recommended labels", rows)
	for _, x := range a.Warnings {
		fmt.Fprintln(w, "\nwarning:", x)
	}
}

func deviceRows(list []contract.Device) [][]string {
	var rows [][]string
	for _, d := range list {
		address := d.Address
		if address == "" {
			address = "-"
		}
		rows = append(rows, []string{address, text(d.Kind), firstOf(d.Name, d.Model), strings.Join(particulars(d), ", ")})
		for _, k := range slices.Sorted(maps.Keys(d.Attributes)) {
			rows = append(rows, []string{"", "", k, d.Attributes[k]})
		}
	}
	return rows
}

// particulars are a device's fields that are known, in words.
func particulars(d contract.Device) []string {
	var out []string
	say := func(s string) { out = append(out, s) }
	if d.Interface != nil {
		say(*d.Interface)
	}
	if d.MemoryBytes != nil {
		say(strconv.FormatFloat(float64(*d.MemoryBytes)/(1<<30), 'f', -1, 64) + " GiB")
	}
	if d.SpeedGbps != nil {
		say(strconv.FormatFloat(*d.SpeedGbps, 'f', -1, 64) + " Gbit/s")
	}
	if d.Link != nil {
		say("link " + *d.Link)
	}
	if d.SRIOVTotalVFs != nil {
		of := strconv.Itoa(*d.SRIOVTotalVFs) + " VFs"
		if d.SRIOVNumVFs != nil {
			of = strconv.Itoa(*d.SRIOVNumVFs) + " of " + of
		}
		say(of)
	}
	if d.Driver != nil {
		say(*d.Driver)
	}
	if d.NUMA != nil {
		say("NUMA " + strconv.Itoa(*d.NUMA))
	}
	return out
}

func pairs(m map[string]string) [][]string {
	var rows [][]string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		rows = append(rows, []string{k, m[k]})
	}
	return rows
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func firstOf(list ...*string) string {
	for _, s := range list {
		if s != nil {
			return *s
		}
	}
	return "?"
}

func from(evidence string) string {
	if evidence == "" {
		return ""
	}
	return "(" + evidence + ")"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func compact(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
