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

// compareTexts returns the items that differ between two files; none if one of them cannot be parsed.
func compareTexts(before, after string, read func(string) (node.Items, error)) []Change {
	old, err := read(before)
	planned, errAfter := read(after)
	if err != nil || errAfter != nil {
		return nil
	}

	return compareItems(old, planned)
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

// readConfigFile reads a KubeletConfiguration. An empty text has no fields.
func readConfigFile(text string) (node.Items, error) {
	out := node.Items{}
	if text == "" {
		return out, nil
	}
	c, err := kubelet.ParseConfig(text)
	if err == nil {
		out.AddConfig(c.Object())
	}

	return out, err
}
