package compare

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
)

// findItems returns the labels, taints, flags and fields of the configuration that differ, in this order.
func findItems(a, b node.Stored) (out []ItemChange) {
	for _, of := range []func(node.Stored) map[string]string{labelsOf, taintsOf, flagsOf, fieldsOf} {
		before := of(a)
		after := of(b)
		for _, name := range union(before, after) {
			if before[name] != after[name] {
				out = append(out, newItemChange(name, before[name], after[name]))
			}
		}
	}

	return out
}

func newItemChange(item, before, after string) ItemChange {
	if value.HasPlaceholder(before) || value.HasPlaceholder(after) {
		return ItemChange{Item: item, Sensitive: true}
	}

	return ItemChange{Item: item, Before: before, After: after}
}

func labelsOf(n node.Stored) map[string]string {
	out := map[string]string{}
	for _, l := range n.Labels {
		out["label/"+l[0]] = encode(l[1])
	}

	return out
}

func taintsOf(n node.Stored) map[string]string {
	out := map[string]string{}
	for _, t := range n.Taints {
		key, effect, _ := strings.Cut(t, ":")
		key, _, _ = strings.Cut(key, "=")
		out["taint/"+key+":"+effect] = encode(t)
	}

	return out
}

func flagsOf(n node.Stored) map[string]string {
	out := map[string]string{}
	for _, f := range n.Flags {
		out["flag/"+f[0]] = encode(f[1])
		if f[2] == "true" { // it is written without a value
			out["flag/"+f[0]] = "true"
		}
	}

	return out
}

func fieldsOf(n node.Stored) map[string]string {
	out := map[string]string{}
	addFields(out, "config", "/", n.Config)

	return out
}

// addFields adds the fields of a document that are not documents themselves.
func addFields(out map[string]string, name, separator string, doc map[string]any) {
	for key, v := range doc {
		at := name + separator + key
		if inner, ok := v.(map[string]any); ok && len(inner) > 0 {
			addFields(out, at, ".", inner)
			continue
		}
		out[at] = encode(v)
	}
}

// encode returns a value as JSON.
func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return "?"
	}

	return strings.TrimSpace(b.String())
}

// findFiles returns the files that differ, by path. A file that neither generation manages is not compared.
func findFiles(a, b []File) (out []FileChange) {
	before := byPath(a)
	after := byPath(b)
	for _, path := range union(before, after) {
		x, isBefore := before[path]
		y, isAfter := after[path]
		isManaged := isBefore && x.Left == "" || isAfter && y.Left == ""
		change := FileChange{
			Path:      path,
			Before:    string(x.Content),
			After:     string(y.Content),
			Hidden:    whyHidden(x, y),
			Action:    "update",
			Sensitive: x.Sensitive || y.Sensitive,
		}
		switch {
		case !isManaged:
			continue
		case !isBefore:
			change.Action = "create"
		case !isAfter:
			change.Action = "delete"
		default:
			change.Action = cmp.Or(y.Left, "update")
			change.Attributes = describeAttributes(x, y)
			if x.Left == y.Left && x.SHA256 == y.SHA256 && x.IsDir == y.IsDir && change.Attributes == "" {
				continue
			}
		}
		if change.Hidden != "" {
			change.Before = ""
			change.After = ""
		}
		out = append(out, change)
	}

	return out
}

func byPath(files []File) map[string]File {
	out := map[string]File{}
	for _, f := range files {
		out[f.Path] = f
	}

	return out
}

// whyHidden returns why the contents of a file are not shown; "" where they are.
func whyHidden(before, after File) string {
	switch {
	case before.Sensitive || after.Sensitive:
		return "it contains a secret"
	case before.Private || after.Private:
		return "not every user may read it"
	case before.Left != "" || after.Left != "":
		return "prelet did not write both of them"
	case before.isLost() || after.isLost():
		return "a content is lost"
	}

	return ""
}

// isLost reports whether the content of a file could not be read.
func (f File) isLost() bool {
	return f.SHA256 != "" && f.Content == nil
}

// describeAttributes returns the change of mode and owner in words; "" for none.
func describeAttributes(a, b File) string {
	var parts []string
	if a.Left == "release" || b.Left == "release" {
		return "" // nothing is known of it
	}
	if a.Mode != b.Mode {
		parts = append(parts, fmt.Sprintf("mode %04o → %04o", a.Mode, b.Mode))
	}
	if a.UID != b.UID || a.GID != b.GID {
		parts = append(parts, fmt.Sprintf("owner %d:%d → %d:%d", a.UID, a.GID, b.UID, b.GID))
	}

	return strings.Join(parts, ", ")
}
