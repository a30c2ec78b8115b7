package compare

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/value"
)

// Item names a label, a taint, a flag or a field of the kubelet's configuration, as KEY, KEY:EFFECT, NAME and a.b.c.
type Item struct {
	Kind string // label | taint | flag | config, or another one of the caller
	Name string
}

// Items are the values of items as JSON. Those of a taint and of a flag without a value are its value and true.
type Items map[Item]Value

// ItemsOf returns the items of a stored node.
func ItemsOf(n node.Stored) Items {
	out := Items{}
	for _, l := range n.Labels {
		out.Set("label", l[0], l[1])
	}
	for _, f := range n.Flags {
		out.Set("flag", f[0], f[1])
		if f[2] == "true" { // it is written without a value
			out.Set("flag", f[0], true)
		}
	}
	out.AddConfig(n.Config)
	for _, t := range n.Taints {
		out.Set("taint", t.Key+":"+t.Effect, t.Value)
	}

	return out
}

// Set sets an item.
func (i Items) Set(kind, name string, value any) {
	i[Item{kind, name}] = encode(value)
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

// Diff returns the items that differ from later ones, by kind and name. A value with a secret is not in a change.
func (i Items) Diff(after Items) (out []NodeChange) {
	all := maps.Clone(i)
	maps.Copy(all, after)
	for item := range all {
		was, is := i[item], after[item]
		c := NodeChange{Kind: item.Kind, Name: item.Name, Action: "update", From: was.plain(), To: is.plain()}
		switch {
		case was == is:
			continue
		case was == "":
			c.Action = "create"
		case is == "":
			c.Action = "delete"
		}
		if value.HasPlaceholder(c.From + c.To) {
			c.From, c.To, c.Hidden = "", "", Secret
		}
		if c.Kind == "flag" {
			c.Name = "--" + c.Name
		}
		out = append(out, c)
	}
	slices.SortFunc(out, NodeChange.Compare)

	return out
}

// plain returns a text without its quotes if it is not empty and on one line, and other JSON as it is.
func (v Value) plain() string {
	var text string
	if json.Unmarshal([]byte(v), &text) == nil && text != "" && !strings.ContainsAny(text, "\n\"") {
		return text
	}

	return string(v)
}
