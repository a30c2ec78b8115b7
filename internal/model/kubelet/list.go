package kubelet

import (
	"slices"
	"strings"
)

// ListItem is one item of a list flag: its identity and its text.
type ListItem struct {
	Key  string
	Text string
}

// LabelItems returns labels as key=value items, in no order.
func LabelItems(labels map[string]string) []ListItem {
	items := make([]ListItem, 0, len(labels))
	for key, value := range labels {
		items = append(items, ListItem{Key: key, Text: key + "=" + value})
	}
	return items
}

// MergeList changes the text of a list flag (--node-labels, --feature-gates, …; items KEY=VALUE) to the wanted items.
// Items that the base has keep its order, and its spelling if they are equal; new ones follow, sorted; others are
// removed. A base that has exactly the wanted items is returned unchanged. The last item of a key counts, in base and
// wanted.
func MergeList(base string, wanted []ListItem) string {
	return mergeList(base, wanted, parseListItem)
}

func parseListItem(text string) ListItem {
	key, value, _ := strings.Cut(text, "=")
	key = strings.TrimSpace(key)

	return ListItem{Key: key, Text: key + "=" + strings.TrimSpace(value)}
}

// MergeTaints is MergeList for --register-with-taints: items are equal if key and effect are, and key:Effect means
// key=:Effect. An invalid base is replaced.
func MergeTaints(base string, wanted []Taint) string {
	if _, err := ParseTaints(base); err != nil {
		base = ""
	}

	return mergeList(base, TaintItems(wanted), func(text string) ListItem {
		t, _ := ParseTaint(strings.TrimSpace(text)) // checked above
		return TaintItems([]Taint{t})[0]
	})
}

func mergeList(base string, wanted []ListItem, parse func(string) ListItem) string {
	want := map[string]string{}
	for _, item := range wanted {
		want[item.Key] = item.Text
	}

	var merged, added []string
	isKept := map[string]bool{} // by key: a repeated one has one item
	isChanged := false
	for _, text := range splitList(base) {
		item := parse(text)
		wantedText, isWanted := want[item.Key]
		if item.Text != wantedText {
			text = wantedText
			isChanged = true
		}
		if isWanted && !isKept[item.Key] {
			merged = append(merged, text)
			isKept[item.Key] = true
		}
	}
	for key, text := range want {
		if !isKept[key] {
			added = append(added, text)
		}
	}
	if !isChanged && added == nil {
		return base
	}
	slices.Sort(added)

	return strings.Join(append(merged, added...), ",")
}

// splitList splits a comma-separated list and skips empty items, as the kubelet does.
func splitList(list string) []string {
	isEmpty := func(item string) bool { return strings.TrimSpace(item) == "" }

	return slices.DeleteFunc(strings.Split(list, ","), isEmpty)
}
