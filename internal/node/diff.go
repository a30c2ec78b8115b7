package node

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Item names a label, a taint, a flag or a field of the kubelet's configuration, as KEY, KEY:EFFECT, NAME and a.b.c.
type Item struct {
	Kind string // label | taint | flag | config, or another one of the caller
	Name string
}

// Items are the values of items as JSON. Those of a taint and of a flag without a value are its value and true.
type Items map[Item]string

// ItemChange is an item that differs between two nodes. "" is none.
type ItemChange struct {
	Item
	Before, After string
}

// Set sets an item.
func (i Items) Set(kind, name string, value any) {
	i[Item{kind, name}] = encode(value)
}

// encode returns a value as JSON.
func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return "?" // cannot happen: it has texts, numbers, booleans, lists and maps
	}

	return strings.TrimSpace(b.String())
}

// Items returns the items of a stored node.
func (s Stored) Items() Items {
	out := Items{}
	for _, l := range s.Labels {
		out.Set("label", l[0], l[1])
	}
	for _, f := range s.Flags {
		out.Set("flag", f[0], f[1])
		if f[2] == "true" { // it is written without a value
			out.Set("flag", f[0], true)
		}
	}
	out.AddConfig(s.Config)
	for _, t := range s.Taints {
		out.Set("taint", t.Key+":"+t.Effect, t.Value)
	}

	return out
}

// AddConfig adds the fields of a KubeletConfiguration. Its taints are taints.
func (i Items) AddConfig(doc map[string]any) {
	for name, value := range doc {
		switch name {
		case "apiVersion", "kind":
		case "registerWithTaints":
			i.addTaints(name, value)
		default:
			i.addField(name, value)
		}
	}
}

// addField adds a field, or the fields in it.
func (i Items) addField(name string, value any) {
	object, _ := value.(map[string]any)
	for key, inner := range object {
		i.addField(name+"."+key, inner)
	}
	if len(object) == 0 {
		i.Set("config", name, value)
	}
}

func (i Items) addTaints(name string, value any) {
	list, isList := value.([]any)
	for _, item := range list {
		taint, _ := item.(map[string]any)
		key, isText := taint["key"].(string)
		effect, _ := taint["effect"].(string)
		text, _ := taint["value"].(string)
		if !isText {
			isList = false
			break
		}
		i.Set("taint", key+":"+effect, text)
	}
	if !isList {
		i.addField(name, value)
	}
}

// Diff returns the items that differ from later ones, by kind and name.
func (i Items) Diff(after Items) (out []ItemChange) {
	all := maps.Clone(i)
	maps.Copy(all, after)
	kinds := []string{"label", "taint", "flag", "config"}
	for item := range all {
		if i[item] != after[item] {
			out = append(out, ItemChange{item, i[item], after[item]})
		}
	}
	slices.SortStableFunc(out, func(a, b ItemChange) int {
		return cmp.Or(
			slices.Index(kinds, a.Kind)-slices.Index(kinds, b.Kind),
			cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Name, b.Name),
		)
	})

	return out
}
