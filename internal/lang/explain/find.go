package explain

import (
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/schema"
)

// Kinds are the words that may stand before the slash.
func Kinds() []string { return []string{Label, Taint, Flag, Config, File, Code} }

// Code is the kind of what needs no plan: the page of a diagnostic's code.
const Code = "code"

// Parse reads KIND/NAME; ok is false for a bare word. A label's key may hold a slash itself, and a path begins
// with one: file//etc/x and file/etc/x are the same.
func Parse(word string) (i Item, ok bool) {
	kind, name, found := strings.Cut(word, "/")
	if !found || name == "" || !slices.Contains(Kinds(), kind) {
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

// Items lists what a plan holds, sorted within its kind.
func Items(p *boot.Plan) (out []Item) {
	for _, l := range p.Node.Labels {
		out = append(out, Item{Label, l.Key})
	}
	for _, t := range p.Node.Taints {
		if i := (Item{Taint, t.Key}); !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	for _, f := range p.Node.Flags {
		out = append(out, Item{Flag, f.Name})
	}
	var fields []string
	for k := range p.Node.Config {
		fields = append(fields, k)
	}
	for ptr := range p.Node.ConfigOrigins {
		if n := dotted(ptr); !slices.Contains(fields, n) {
			fields = append(fields, n)
		}
	}
	slices.Sort(fields)
	for _, f := range fields {
		out = append(out, Item{Config, f})
	}
	for _, c := range fileChanges(p) {
		if c.File.Kind != node.Missing || c.Action != "none" {
			out = append(out, Item{File, c.File.Path})
		}
	}
	return out
}

// Match lists what a bare word may mean: items of that name; if there is none, those whose last part it is; if there is
// none either, those that hold it.
func Match(p *boot.Plan, word string) []Item {
	all := Items(p)
	for _, c := range fault.Codes() {
		all = append(all, Item{Code, string(c)})
	}
	for _, fit := range []func(name string) bool{
		func(n string) bool {
			return n == kubelet.FlagName(word) || n == strings.TrimLeft(word, "-") || n == word
		},
		func(n string) bool { return strings.HasSuffix(n, "/"+word) || strings.HasSuffix(n, "."+word) },
		func(n string) bool { return strings.Contains(strings.ToLower(n), strings.ToLower(word)) },
	} {
		var out []Item
		for _, i := range all {
			if fit(i.Name) {
				out = append(out, i)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// Near lists items whose names are close to one that is nothing; all of the kind if there are few.
func Near(p *boot.Plan, i Item) (out []Item) {
	var same []string
	for _, x := range Items(p) {
		if i.Kind == "" || x.Kind == i.Kind {
			same = append(same, x.Name)
		}
	}
	if i.Kind == Code {
		for _, c := range fault.Codes() {
			same = append(same, string(c))
		}
	}
	if n := schema.Nearest(i.Name, same); n != "" {
		same = []string{n}
	} else if len(same) > 12 {
		same = slices.DeleteFunc(same, func(n string) bool { return !shares(n, i.Name) })
	}
	for _, n := range same {
		out = append(out, Item{i.Kind, n})
	}
	if i.Kind == "" {
		out = nil
		for _, x := range Items(p) {
			if slices.Contains(same, x.Name) {
				out = append(out, x)
			}
		}
	}
	if len(out) > 12 {
		out = out[:12]
	}
	return out
}

// shares says whether two names have a part in common.
func shares(a, b string) bool {
	parts := func(s string) []string {
		return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return strings.ContainsRune("/.-_", r) })
	}
	for _, x := range parts(a) {
		if len(x) > 2 && slices.Contains(parts(b), x) {
			return true
		}
	}
	return false
}
