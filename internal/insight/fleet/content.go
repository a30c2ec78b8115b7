package fleet

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
)

// compareItems returns the items that differ. The name of a flag has its two hyphens.
func compareItems(before, after node.Items) (out []Change) {
	for _, c := range before.Diff(after) {
		change := Change{
			Kind:   c.Kind,
			Name:   c.Name,
			Action: "update",
			From:   plainText(c.Before),
			To:     plainText(c.After),
		}
		switch {
		case c.Before == "":
			change.Action = "create"
		case c.After == "":
			change.Action = "delete"
		}
		if c.Kind == "flag" {
			change.Name = "--" + c.Name
		}
		out = append(out, change)
	}

	return out
}

// plainText returns a JSON text without its quotes if it is not empty and on one line, and other JSON as it is.
func plainText(value string) string {
	var text string
	if json.Unmarshal([]byte(value), &text) == nil && text != "" && !strings.ContainsAny(text, "\n\"") {
		return text
	}

	return value
}

// compareFlagFiles returns the items that differ between two files of flags; none if one of them cannot be parsed.
func compareFlagFiles(before, after string) []Change {
	old, err := readFlagFile(before)
	planned, errAfter := readFlagFile(after)
	if err != nil || errAfter != nil {
		return nil
	}

	return compareItems(old, planned)
}

// compareConfig returns the items that differ between a file of the kubelet's configuration and a planned one; none if
// the file cannot be parsed. An empty text has no fields.
func compareConfig(before string, planned map[string]any) []Change {
	old, after := node.Items{}, node.Items{}
	if before != "" {
		c, err := kubelet.ParseConfig(before)
		if err != nil {
			return nil
		}
		old.AddConfig(c.Object())
	}
	after.AddConfig(planned)

	return compareItems(old, after)
}

// readFlagFile reads an environment file of the kubelet.
func readFlagFile(text string) (node.Items, error) {
	file, err := kubelet.ParseEnvFile(text)
	if err != nil {
		return nil, err
	}

	out := node.Items{}
	for _, variable := range file.Names() {
		flags, _ := file.Get(variable)
		for _, name := range flags.Names() {
			value, _ := flags.Lookup(name)
			switch name {
			case "node-labels":
				labels, failed := kubelet.ParseLabels(value)
				err = cmp.Or(err, failed)
				for _, l := range labels {
					out.Set("label", l.Key, l.Value)
				}
			case "register-with-taints":
				taints, failed := kubelet.ParseTaints(value)
				err = cmp.Or(err, failed)
				for _, t := range taints {
					out.Set("taint", t.Key+":"+t.Effect, t.Value)
				}
			default:
				out.Set("flag", name, value)
			}
		}
	}

	return out, err
}
