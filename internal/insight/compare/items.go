package compare

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/value"
)

// findItems returns the labels, taints, flags and fields of the configuration that differ, in this order.
func findItems(a, b node.Stored) []ItemChange {
	out := []ItemChange{}
	for _, c := range a.Items().Diff(b.Items()) {
		change := ItemChange{Item: c.Kind + "/" + c.Name, Because: []string{}}
		if value.HasPlaceholder(c.Before) || value.HasPlaceholder(c.After) {
			change.Sensitive = true
		} else {
			change.Before = Value(c.Before)
			change.After = Value(c.After)
		}
		out = append(out, change)
	}

	return out
}

// findFiles returns the files that differ, by path. A file that neither generation manages is not compared.
func findFiles(a, b []File) []FileChange {
	out := []FileChange{}
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
			Because:   []string{},
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
		change.Diff = Unified(change.Before, change.After)
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
