package kubelet

import (
	"slices"
	"strings"
)

// ListItem is one item of a list flag: what makes two items the same one, and how it is written.
type ListItem struct {
	Key  string
	Text string
}

// LabelItems are labels as items for MergeLabels.
func LabelItems(labels map[string]string) []ListItem {
	items := make([]ListItem, 0, len(labels))
	for key, value := range labels {
		items = append(items, ListItem{Key: key, Text: key + "=" + value})
	}
	return items
}

// MergeList makes the text of a list flag (--node-labels, --feature-gates, …; items KEY=VALUE) say exactly the
// wanted items: those that the base has stay in the base's order, with the base's spelling where it means the
// same; new ones follow, sorted; what is not wanted goes. When the base says just the wanted items already, the
// base comes back byte for byte. Of items with one key the last counts, in base and wanted alike.
func MergeList(base string, wanted []ListItem) string {
	return mergeList(base, wanted, func(text string) ListItem {
		key, value, _ := strings.Cut(text, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		return ListItem{Key: key, Text: key + "=" + value}
	})
}

// MergeTaints is MergeList for --register-with-taints: two items are one when key and effect are the same, and
// key:Effect means key=:Effect. A base that is no list of taints is replaced whole.
func MergeTaints(base string, wanted []Taint) string {
	if _, err := ParseTaints(base); err != nil {
		base = ""
	}
	return mergeList(base, TaintItems(wanted), func(text string) ListItem {
		t, _ := ParseTaint(strings.TrimSpace(text)) // checked above
		return TaintItems([]Taint{t})[0]
	})
}

func mergeList(base string, wanted []ListItem, read func(string) ListItem) string {
	want := map[string]string{}
	for _, item := range wanted {
		want[item.Key] = item.Text
	}
	var merged []string
	changed := false
	place := map[string]int{}
	for _, text := range splitList(base) {
		item := read(text)
		wantedText, ok := want[item.Key]
		at, seen := place[item.Key]
		switch {
		case !ok:
			changed = true
		case seen && item.Text == wantedText: // said again; harmless
		case seen:
			changed = true
		case item.Text == wantedText:
			place[item.Key] = len(merged)
			merged = append(merged, text)
			continue
		default:
			place[item.Key] = len(merged)
			merged = append(merged, wantedText)
			changed = true
			continue
		}
		if seen && ok {
			merged[at] = wantedText
		}
	}
	var added []string
	for key, text := range want {
		if _, ok := place[key]; !ok {
			added = append(added, text)
		}
	}
	if !changed && len(added) == 0 {
		return base
	}
	slices.Sort(added)
	return strings.Join(append(merged, added...), ",")
}

// splitList takes a comma-separated list apart and leaves empty items out, as the kubelet does.
func splitList(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return strings.TrimSpace(s) == "" })
}
