package present

import (
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

// DetectorsText is what vendors' detectors found, below the facts; nothing where none was asked.
func DetectorsText(w io.Writer, all map[string]any, s Style) error {
	if len(all) == 0 {
		return nil
	}
	var b strings.Builder
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d, _ := all[name].(map[string]any)
		var said []string
		if d["state"] != "ok" {
			rows = append(rows, []string{name, text(d["state"])})
			continue
		}
		if l, _ := d["devices"].([]any); len(l) > 0 {
			said = append(said, Count(len(l), "device"))
		}
		for _, of := range []string{"attributes", "labels", "facts"} {
			m, _ := d[of].(map[string]any)
			for _, k := range slices.Sorted(maps.Keys(m)) {
				said = append(said, cutShort(k+"="+text(m[k])))
			}
		}
		if more := len(said) - mostSaid; more > 0 {
			said = append(said[:mostSaid], fmt.Sprintf("… and %d more: -o json", more))
		}
		rows = append(rows, []string{name, text(d["state"]), text(d["version"]), strings.Join(said, ", ")})
	}
	list(&b, s.bold("detectors"), rows, s)
	_, err := io.WriteString(w, b.String())
	return err
}

// What of a vendor's texts is shown; all of it is in the document.
const (
	mostSaid = 48  // attributes, labels and facts of one detector
	longest  = 200 // bytes of one
)

func cutShort(s string) string {
	if len(s) <= longest {
		return s
	}

	return strings.ToValidUTF8(s[:longest], "") + "…"
}

// text is a value of JSON's kinds for people. What a vendor's program says is shown, and does not act on the terminal.
func text(v any) string {
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

// DetectorList is what `detectors list` prints: what would run, and why the others would not.
func DetectorList(w io.Writer, all []pluginhost.Row, long bool, s Style) error {
	var b strings.Builder
	if len(all) == 0 {
		b.WriteString("No detector is declared or installed.\n")
	}
	for _, r := range all {
		state := s.green("runs")
		if !r.Runs() {
			state = s.yellow("does not run")
		}
		fmt.Fprintf(&b, "%s  %s\n", s.bold(strings.TrimSpace(r.Name+" "+printable(r.Version))), state)
		rows := [][]string{{"declared", orNone(r.Declared, "by no site")}, {"program", r.Program}, {"lock", orNone(r.Lock, "none")}}
		if r.Why != "" {
			rows = append(rows, []string{"", printable(r.Why)})
		}
		if r.Says != nil {
			match := "nothing on this machine"
			switch {
			case len(r.Devices) > 0:
				match = strings.Join(r.Devices, ", ")
			case r.Matches:
				match = "yes"
			}
			rows = append(rows, []string{"matches", match})
		}
		for _, l := range s.table(rows, s.Width-2, nil) {
			fmt.Fprintf(&b, "  %s\n", l)
		}
		if r.Declared != "" && !r.Missing.Empty() {
			fmt.Fprintf(&b, "  it needs what the site does not grant:\n    %s\n", strings.ReplaceAll(stages.AllowBlock(world.Grants{}, r.Missing), "\n", "\n    "))
		}
		if r.Declared != "" && long && !r.Unused.Empty() {
			fmt.Fprintf(&b, "  it could tell more with:\n    %s\n", strings.ReplaceAll(stages.AllowBlock(world.Grants{}, r.Unused), "\n", "\n    "))
		}
		if long && r.Says != nil {
			described(&b, *r.Says, s)
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, strings.TrimSuffix(b.String(), "\n"))
	return err
}

func described(b *strings.Builder, d contract.Description, s Style) {
	for _, l := range s.wrap(printable(d.Doc), s.Width-2) {
		fmt.Fprintf(b, "  %s\n", l)
	}
	attributes := func(title string, l []contract.Attribute) {
		var rows [][]string
		for _, a := range l {
			what := a.Type.String()
			if a.Unit != "" {
				what += " of " + a.Unit
			}
			if a.Required {
				what += ", required"
			}
			if a.Default != nil {
				what += ", default " + text(a.Default)
			}
			rows = append(rows, []string{a.Name, printable(what), printable(a.Doc)})
		}
		list(b, "  "+title, rows, s)
	}
	attributes("config", d.Config)
	attributes("facts", d.Facts)
	if len(d.LabelDomains) > 0 {
		fmt.Fprintf(b, "  recommends labels in %s\n", strings.Join(d.LabelDomains, ", "))
	}
}

func orNone(s, none string) string {
	if s == "" {
		return none
	}
	return printable(s)
}
