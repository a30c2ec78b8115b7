package compare

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// Item names a label, a taint, a flag or a field of the kubelet's configuration, as KEY, KEY:EFFECT, NAME and a.b.c.
type Item struct {
	Kind string // label | taint | flag | config, or another one of the caller
	Name string
}

// Items are the values of items as JSON. Those of a taint and of a flag without a value are its value and true.
type Items map[Item]Value

// ItemsOf returns the items of a stored node.
func ItemsOf(n desired.Stored) Items {
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
	out.addConfig(n.Config)
	for _, t := range n.Taints {
		out.Set("taint", t.Key+":"+t.Effect, t.Value)
	}

	return out
}

// addItems adds the items of a changed file of the kubelet as it is on the disk and as planned, unless one of them
// cannot be parsed or both have none. Of a new configuration it adds the fields that the site sets, and not those of
// its base.
func addItems(p *evaluate.Plan, c evaluate.FileChange, before, after Items) (isKnown bool) {
	old, err := parseItems(c.File.Purpose, c.Old.Text)
	planned := Items{}
	planned.addConfig(c.File.Config)
	if c.File.Purpose == "kubelet-flags" {
		var failed error
		planned, failed = parseItems(c.File.Purpose, c.File.Text.Template())
		err = cmp.Or(err, failed)
	}
	if err != nil || len(old)+len(planned) == 0 {
		return false
	}
	maps.Copy(before, old)
	for item, value := range planned {
		if c.Old.Exists || item.Kind != "config" || isOfSite(p, item.Name) {
			after[item] = value
		}
	}

	return true
}

// parseItems returns the items of a file of the kubelet; none if the file does not exist.
func parseItems(purpose, text string) (Items, error) {
	out := Items{}
	if text == "" {
		return out, nil
	}
	if purpose == "kubelet-config" {
		c, err := kubelet.ParseConfig(text)
		if err == nil {
			out.addConfig(c.Object())
		}

		return out, err
	}

	file, err := kubelet.ParseEnvFile(text)
	if err != nil {
		return nil, err
	}
	for _, variable := range file.Names() {
		flags, _ := file.Get(variable)
		c, failed := desired.SplitFlags(flags, nil)
		n := desired.Node{Labels: c.Labels, Taints: c.Taints, Flags: c.Flags}
		maps.Copy(out, ItemsOf(n.Stored()))
		err = cmp.Or(err, failed)
	}

	return out, err
}

// isOfSite reports whether the site sets a field of the kubelet's configuration, and not only its base.
func isOfSite(p *evaluate.Plan, name string) bool {
	for pointer := range p.Node.ConfigOrigins {
		field := strings.ReplaceAll(strings.TrimPrefix(pointer, "/"), "/", ".")
		if name == field || strings.HasPrefix(name, field+".") {
			return true
		}
	}

	return false
}

func (i Items) Set(kind, name string, value any) {
	i[Item{kind, name}] = encode(value)
}

// addConfig adds the fields of a KubeletConfiguration. Its taints are taints.
func (i Items) addConfig(doc map[string]any) {
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

// diff returns the items that differ from later ones, by kind and name. A value with a secret is not in a change.
func (i Items) diff(after Items) (out []NodeChange) {
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
		if secret.HasPlaceholder(c.From + c.To) {
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
