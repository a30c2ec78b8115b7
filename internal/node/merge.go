package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
)

// Base is the node before decide: what the cluster's configuration and the files at hand already say.
type Base struct {
	Contribution
	Config map[string]any // the KubeletConfiguration document; never changed by Merge

	ConfigKnown bool         // false: no base could be read (a check without a machine)
	FlagsFile   fmt.Stringer // the environment file that the flags stand in, whole, as its renderer has read it
	FlagsKnown  bool
	TaintFlag   bool // the base has --register-with-taints, so taints go there

	// Inherited are labels and flags that the kubelet gets from its unit, before those of the flags file. Taints of such a
	// flag are among the base's own, unless the flags file has that flag, which wins. Only those that are assumed are here.
	Inherited Contribution

	// Unread are the questions without an answer that the configuration or the flags are not known for; nil in a check.
	Unread []string

	// ConfigFrom and FlagsFrom say what the text of each rests on, also where it could not be read; nil for a file of the
	// node that no stage brought.
	ConfigFrom, FlagsFrom []origin.Origin
}

// Node is the merged plan. Labels are sorted by key, taints keep the base's order with new ones sorted behind,
// flags the base's order with new ones in site order, files are sorted by path.
type Node struct {
	Labels        []Label
	Taints        []Taint
	Flags         []Flag
	Config        map[string]any
	ConfigOrigins map[string][]origin.Origin // by JSON pointer of each contributed field
	Settings      []Setting                  // what stages added to the base's Config
	Inherited     Contribution               // labels and flags that the kubelet gets before those of the flags file
	Reserved      *Reserved
	TaintFlag     bool   // taints are in --register-with-taints
	DropIn        string // the path of the drop-in that Settings are in; "": they are in the configuration itself
	// Effective is the configuration that the kubelet works with: drop-ins merged over Config, and flags over all. It is nil
	// before the node is finished.
	Effective  map[string]any
	Files      []File
	Activation *Activation
	Units      []Unit // in site order
}

// Message is one finding of a merge. By is the index of the contribution that brings it.
type Message struct {
	By         int
	Diagnostic *hcl.Diagnostic
}

// Messages are the findings of a merge, in the order of what is merged: labels, taints, flags, settings.
type Messages []Message

// From returns the messages that the contributions from an index on bring. Of a merge that starts with contributions
// which were merged before, these are the new ones.
func (m Messages) From(first int) (diags hcl.Diagnostics) {
	for _, x := range m {
		if x.By >= first {
			diags = append(diags, x.Diagnostic)
		}
	}

	return diags
}

// Merge lays contributions, in site order, over the base. Base against stage: the stage wins, with a note.
// Stage against stage: equal is fine, different is an error that names both places.
func Merge(base Base, in []Contribution) (Node, Messages) {
	m := merger{}
	m.labels(base, in)
	m.taints(base, in)
	m.flags(base, in)
	m.settings(base, in)
	m.TaintFlag, m.Inherited = base.TaintFlag, base.Inherited
	for _, c := range in {
		if c.Reserved != nil {
			m.Reserved = c.Reserved
		}
		m.TaintFlag = m.TaintFlag || c.TaintFlag
		if c.Inherited != nil {
			m.Inherited = *c.Inherited
		}
		if c.DropIn != "" {
			m.DropIn = c.DropIn
		}
	}

	return m.Node, m.messages
}

type merger struct {
	Node
	messages Messages
}

// say notes a message that the contribution of that index brings.
func (m *merger) say(by int, d *hcl.Diagnostic) { m.messages = append(m.messages, Message{by, d}) }

func (m *merger) conflict(by int, what, a, b string, aFrom, bFrom []origin.Origin) {
	who, detail := "Two stages disagree on ", fmt.Sprintf("Here it is %s, but %s says %s. One owner for each: remove one of them, or make them agree.", show(b), place(aFrom), show(a))
	if s := stage(bFrom); s != "" && s == stage(aFrom) {
		who, detail = "One stage disagrees with itself on ", fmt.Sprintf("Here it is %s, but %s says %s. Remove one of them.", show(b), place(aFrom), show(a))
		if rangeOf(aFrom) == rangeOf(bFrom) { // of an expression that makes both
			detail = fmt.Sprintf("It is %s and %s here, and can be only one.", show(a), show(b))
		}
	}
	m.say(by, origin.Error(fault.Conflict, rangeOf(bFrom), who+what, "%s", detail))
}

// stage is the block that something comes from, whichever of its instances.
func stage(o []origin.Origin) string {
	if len(o) == 0 {
		return ""
	}
	block, _, _ := strings.Cut(o[0].Ref, "[")
	return block
}

func (m *merger) replaced(by int, item, what, old, new string, from []origin.Origin) {
	m.say(by, origin.Replaced(item, rangeOf(from), what+" of the base is replaced",
		"The base has %s; this stage makes it %s.", show(old), show(new)))
}

func (m *merger) labels(base Base, in []Contribution) {
	have := map[string]Label{}
	fromBase := map[string]bool{}
	for _, l := range base.Labels {
		have[l.Key], fromBase[l.Key] = l, true
	}
	for n, c := range in {
		for _, l := range c.Labels {
			old, ok := have[l.Key]
			switch {
			case !ok:
			case old.Value == l.Value:
				l.Origins = both(old.Origins, l.Origins)
			case fromBase[l.Key]:
				m.replaced(n, "label/"+l.Key, "Label "+l.Key, old.Value, l.Value, l.Origins)
			default:
				m.conflict(n, "label "+l.Key, old.Value, l.Value, old.Origins, l.Origins)
				continue
			}
			have[l.Key], fromBase[l.Key] = l, false
		}
	}
	for _, k := range slices.Sorted(maps.Keys(have)) {
		m.Labels = append(m.Labels, have[k])
	}
}

func (m *merger) taints(base Base, in []Contribution) {
	id := func(t Taint) string { return t.Key + "\x00" + t.Effect }
	at := map[string]int{}
	for _, t := range base.Taints {
		if _, ok := at[id(t)]; !ok {
			at[id(t)] = len(m.Taints)
			m.Taints = append(m.Taints, t)
		}
	}
	ofBase := len(m.Taints)
	for n, c := range in {
		for _, t := range c.Taints {
			i, ok := at[id(t)]
			switch {
			case !ok:
				at[id(t)] = len(m.Taints)
				m.Taints = append(m.Taints, t)
			case m.Taints[i].Value == t.Value:
				m.Taints[i].Origins = both(m.Taints[i].Origins, t.Origins)
			case i < ofBase && isBase(m.Taints[i].Origins):
				m.replaced(n, "taint/"+t.Key+":"+t.Effect, "Taint "+t.Key+":"+t.Effect, m.Taints[i].Value, t.Value, t.Origins)
				m.Taints[i] = t
			default:
				m.conflict(n, "taint "+t.Key+":"+t.Effect, m.Taints[i].Value, t.Value, m.Taints[i].Origins, t.Origins)
			}
		}
	}
	slices.SortStableFunc(m.Taints[ofBase:], func(a, b Taint) int { return strings.Compare(a.String(), b.String()) })
}

func (m *merger) flags(base Base, in []Contribution) {
	at := map[string]int{}
	for _, f := range base.Flags {
		if i, ok := at[f.Name]; ok { // a repeated flag: the last one counts, as the kubelet reads it
			m.Flags[i] = f
			continue
		}
		at[f.Name] = len(m.Flags)
		m.Flags = append(m.Flags, f)
	}
	for n, c := range in {
		for _, f := range c.Flags {
			i, ok := at[f.Name]
			switch {
			case !ok:
				at[f.Name] = len(m.Flags)
				m.Flags = append(m.Flags, f)
			case m.Flags[i].Value == f.Value && m.Flags[i].NoValue == f.NoValue:
				m.Flags[i].Origins = both(m.Flags[i].Origins, f.Origins)
			case isBase(m.Flags[i].Origins):
				m.replaced(n, "flag/"+f.Name, "Flag --"+f.Name, m.Flags[i].Value, f.Value, f.Origins)
				m.Flags[i] = f
			default:
				m.conflict(n, "flag --"+f.Name, m.Flags[i].Value, f.Value, m.Flags[i].Origins, f.Origins)
			}
		}
	}
}

// MergeFiles adds files to those that a node has, and returns all, sorted by path. A path that two of them write is an
// error of the second, and so is a file where another one needs a folder.
func MergeFiles(have, more []File) (files []File, diags hcl.Diagnostics) {
	byPath := map[string]File{}
	for _, f := range have {
		byPath[f.Path] = f
	}
	isNew := map[string]bool{}
	for _, f := range more {
		if old, ok := byPath[f.Path]; ok {
			diags = append(diags, origin.Error(fault.Conflict, rangeOf(f.Origins), "Two owners of "+f.Path,
				"It is written here, and by %s. One owner for each path: remove one of them, or give it another path.",
				place(old.Origins)))
			continue
		}
		byPath[f.Path], isNew[f.Path] = f, true
	}

	for _, p := range slices.Sorted(maps.Keys(byPath)) {
		files = append(files, byPath[p])
	}
	return files, append(diags, CheckFolders(files, isNew)...)
}

// CheckFolders refuses a path that is a file where other ones need a folder, and a folder in which others than root could
// replace what is written: once for each file that is new, or has a new one below it; without isNew all are. files are
// sorted by path. The place is that of a block `file` or `directory`, if one is.
func CheckFolders(files []File, isNew map[string]bool) (diags hcl.Diagnostics) {
	for i, f := range files {
		var below []File
		for _, g := range files[i+1:] {
			isAsked := isNew == nil || isNew[f.Path] || isNew[g.Path]
			if strings.HasPrefix(g.Path, f.Path+"/") && isAsked {
				below = append(below, g)
			}
		}
		if len(below) == 0 {
			continue
		}
		if f.Kind == Directory {
			diags = append(diags, checkLoose(f, below)...)
			continue
		}

		at, other := rangeOf(below[0].Origins), place(f.Origins)
		if f.Purpose == "file" && below[0].Purpose != "file" && below[0].Purpose != "directory" {
			at, other = rangeOf(f.Origins), "this"
		}
		diags = append(diags, origin.Error(fault.Conflict, at, f.Path+" cannot be a file and a folder",
			"%s needs a folder there, and %s writes a file. Give one of them another path.", below[0].Path, other))
	}

	return diags
}

// checkLoose refuses a folder whose planned owner or mode lets others than root replace what is written below it: once that
// is so, no run writes there any more. What the site leaves open is judged by apply.
func checkLoose(f File, below []File) hcl.Diagnostics {
	for _, g := range below {
		who, at, next := WhoReplaces(f, path.Dir(g.Path) != f.Path)
		if who == "" {
			continue
		}
		if at.Filename == "" {
			at = rangeOf(f.Origins)
		}

		return hcl.Diagnostics{origin.Error(fault.PathInvalid, at, f.Path+" must be root's alone",
			"%s is written below it, and %s could replace that, so no run would write there again. %s, or give %[1]s "+
				"another path. The owner of what has nothing below it may be any.", g.Path, who, next)}
	}

	return nil
}

// WhoReplaces returns who besides root may change the names in a planned folder; "" for nobody. at is the place of the owner
// where it is that, next what helps. Where a path only goes through the folder, the sticky bit is enough.
func WhoReplaces(f File, passed bool) (who string, at hcl.Range, next string) {
	user, group, _ := strings.Cut(f.Owner, ":")
	isRoot := func(id string) bool { return id == "" || id == "root" || strings.Trim(id, "0") == "" }

	switch {
	case !isRoot(user):
		return "user " + user, f.OwnerRange, `Write owner = "root:root", or leave it out`
	case passed && f.Mode&0o1000 != 0:
	case f.Mode&0o002 != 0:
		return fmt.Sprintf("everybody (mode %04o)", f.Mode), at, fmt.Sprintf("Write mode = \"%04o\"", f.Mode&^0o022)
	case f.Mode&0o020 != 0 && !isRoot(group):
		return "group " + group, f.OwnerRange, fmt.Sprintf("Write mode = \"%04o\"", f.Mode&^0o022)
	}

	return "", at, ""
}

func isBase(o []origin.Origin) bool {
	return len(o) > 0 && o[0].Kind == origin.Base
}

func both(a, b []origin.Origin) []origin.Origin {
	if isBase(a) {
		return append(slices.Clone(b), a...)
	}
	return append(slices.Clone(a), b...)
}

func rangeOf(o []origin.Origin) hcl.Range {
	for _, x := range o {
		if x.Range.Filename != "" {
			return x.Range
		}
	}
	return hcl.Range{}
}

func place(o []origin.Origin) string {
	if r := rangeOf(o); r.Filename != "" {
		ref := ""
		if len(o) > 0 && o[0].Ref != "" {
			ref = o[0].Ref + " at "
		}
		return fmt.Sprintf("%s%s:%d:%d", ref, r.Filename, r.Start.Line, r.Start.Column)
	}
	if len(o) > 0 {
		return o[0].Ref
	}
	return "another one"
}

func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		if v == "" {
			return "empty"
		}
		return fmt.Sprintf("%q", v)
	}
	if b, err := json.Marshal(v); err == nil { // as it would be written, keys sorted
		return string(b)
	}
	return fmt.Sprint(v)
}
