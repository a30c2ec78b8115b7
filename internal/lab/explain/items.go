package explain

import (
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// maxNear is how many similar items are suggested.
const maxNear = 12

// entry is one value of the plan: a label, a taint, a flag or a field of the kubelet's configuration.
type entry struct {
	Item
	value   any // a string, or a part of a document; nil for a field that the site removes
	origins []origin.Origin
	effect  string // as Explanation.TakesEffect
	address string // in notes of origin.Replaced: with a taint's effect, and a field as a JSON pointer
}

// listEntries returns the values of a plan that have origins.
func listEntries(p *evaluate.Plan) (out []entry) {
	for _, l := range p.Node.Labels {
		i := Item{Label, l.Key}
		out = append(out, entry{
			Item:    i,
			value:   l.Value,
			origins: l.Origins,
			effect:  p.TakesEffect(l.Key),
			address: i.String(),
		})
	}
	for _, t := range p.Node.Taints {
		i := Item{Taint, t.Key}
		out = append(out, entry{
			Item:    i,
			value:   t.String(),
			origins: t.Origins,
			effect:  p.TaintTakesEffect(t),
			address: i.String() + ":" + t.Effect,
		})
	}
	for _, f := range p.Node.Flags {
		i := Item{Flag, f.Name}
		out = append(out, entry{i, f.Value, f.Origins, "restart", i.String()})
	}
	for _, pointer := range slices.Sorted(maps.Keys(p.Node.ConfigOrigins)) {
		i := Item{Config, dotted(pointer)}
		_, v, _ := findField(p.Node.Config, i.Name)
		out = append(out, entry{
			Item:    i,
			value:   v,
			origins: p.Node.ConfigOrigins[pointer],
			effect:  "restart",
			address: Config + pointer,
		})
	}

	return out
}

// Parse parses KIND/NAME; ok is false for a bare word. The key of a label may contain a slash, and a path begins with
// one: file//etc/x and file/etc/x are the same.
func Parse(word string) (i Item, ok bool) {
	kind, name, _ := strings.Cut(word, "/")
	kinds := []string{Label, Taint, Flag, Config, File, Code, Var, Local, Stage}
	if name == "" || !slices.Contains(kinds, kind) {
		return Item{}, false
	}

	switch kind {
	case File:
		name = "/" + strings.TrimLeft(name, "/")
	case Flag:
		name = kubelet.FlagName(name)
	}

	return Item{kind, name}, true
}

// Items lists the items of a plan: labels, taints, flags, the fields of the configuration and files.
func Items(p *evaluate.Plan) (out []Item) {
	fields := slices.Collect(maps.Keys(p.Node.Config))
	for _, e := range listEntries(p) {
		if e.Kind == Config {
			fields = append(fields, e.Name)
		} else {
			out = append(out, e.Item)
		}
	}
	slices.Sort(fields)
	for _, field := range fields {
		out = append(out, Item{Config, field})
	}
	for _, c := range p.Changes {
		if c.File.Kind != desired.Missing || c.Action != "none" {
			out = append(out, Item{File, c.File.Path})
		}
	}

	return slices.Compact(out)
}

// withCodes returns the items of a plan and the codes of messages.
func withCodes(p *evaluate.Plan) []Item {
	out := Items(p)
	for _, c := range fault.Codes() {
		out = append(out, Item{Code, string(c)})
	}

	return out
}

// IsName reports whether an item is a variable, a local or a stage: a name of the site, and not a part of a plan.
func (i Item) IsName() bool {
	return i.Kind == Var || i.Kind == Local || i.Kind == Stage
}

// listNames returns the names of the site of a plan, sorted by kind. A bare word never means one of them.
func listNames(p *evaluate.Plan) (out []Item) {
	for _, name := range slices.Sorted(maps.Keys(p.Site.Variables)) {
		out = append(out, Item{Var, name})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Site.Locals)) {
		out = append(out, Item{Local, name})
	}
	for _, i := range p.Site.Stages {
		out = append(out, Item{Stage, i.Addr()})
	}

	return out
}

// Match returns the items that a bare word can mean: those with that name, else those whose last part it is, else those
// whose name contains it.
func Match(p *evaluate.Plan, word string) (out []Item) {
	matchers := []func(name string) bool{
		func(name string) bool {
			return name == kubelet.FlagName(word) || name == word
		},
		func(name string) bool {
			return strings.HasSuffix(name, "/"+word) || strings.HasSuffix(name, "."+word)
		},
		func(name string) bool {
			return strings.Contains(strings.ToLower(name), strings.ToLower(word))
		},
	}

	for _, isMatch := range matchers {
		for _, i := range withCodes(p) {
			if isMatch(i.Name) {
				out = append(out, i)
			}
		}
		if out != nil {
			break
		}
	}

	return out
}

// Near returns the items of the same kind with the most similar name, or the first ones if no name is similar; none of
// any kind.
func Near(p *evaluate.Plan, wanted Item) []Item {
	var names []string
	all := withCodes(p)
	if wanted.IsName() {
		all = listNames(p)
	}
	items := slices.DeleteFunc(all, func(i Item) bool {
		return wanted.Kind != "" && i.Kind != wanted.Kind
	})
	for _, i := range items {
		names = append(names, i.Name)
	}

	if near := texts.Nearest(wanted.Name, names); near != "" {
		items = slices.DeleteFunc(items, func(i Item) bool {
			return i.Name != near
		})
	} else if wanted.Kind == "" {
		return nil
	}

	return items[:min(maxNear, len(items))]
}
