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

// LabelItems returns labels as items for MergeList.
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

	m := listMerge{want: want, place: map[string]int{}}
	for _, text := range splitList(base) {
		m.add(parse(text), text)
	}
	added := m.missing()
	if !m.changed && len(added) == 0 {
		return base
	}

	return strings.Join(append(m.texts, added...), ",")
}

// listMerge is a list in the order of its base.
type listMerge struct {
	want    map[string]string // the wanted text of each key
	texts   []string
	place   map[string]int // of each key in texts
	changed bool
}

// add adds an item of the base if it is wanted. A repeated key has one item in the result: the wanted text in the place
// of its first item. So it does not matter which of its items has another text.
func (m *listMerge) add(item ListItem, text string) {
	wanted, isWanted := m.want[item.Key]
	place, isDuplicate := m.place[item.Key]
	isEqual := item.Text == wanted
	m.changed = m.changed || !isWanted || !isEqual

	switch {
	case !isWanted:
	case isDuplicate:
		m.texts[place] = wanted
	default:
		if !isEqual {
			text = wanted
		}
		m.place[item.Key] = len(m.texts)
		m.texts = append(m.texts, text)
	}
}

// missing returns the wanted items that the base does not have, sorted.
func (m *listMerge) missing() []string {
	var texts []string
	for key, text := range m.want {
		if _, ok := m.place[key]; !ok {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)

	return texts
}

// splitList splits a comma-separated list and skips empty items, as the kubelet does.
func splitList(list string) []string {
	isEmpty := func(item string) bool { return strings.TrimSpace(item) == "" }

	return slices.DeleteFunc(strings.Split(list, ","), isEmpty)
}
