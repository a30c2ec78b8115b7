package present

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
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
		if l, _ := d["devices"].([]any); len(l) > 0 {
			said = append(said, Count(len(l), "device"))
		}
		for _, of := range []string{"attributes", "labels", "facts"} {
			m, _ := d[of].(map[string]any)
			for _, k := range slices.Sorted(maps.Keys(m)) {
				said = append(said, k+"="+text(m[k]))
			}
		}
		rows = append(rows, []string{name, text(d["state"]), text(d["version"]), strings.Join(said, ", ")})
	}
	list(&b, s.bold("detectors"), rows, s)
	_, err := io.WriteString(w, b.String())
	return err
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
