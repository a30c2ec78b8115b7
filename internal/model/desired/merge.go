package desired

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
)

// Base is the node before decide: the cluster's configuration and the existing files.
type Base struct {
	Contribution
	Config map[string]any // the KubeletConfiguration document; never changed by Merge
	// File is the configuration as it is in the file that a drop-in adds to, with nulls; nil: Config.
	File map[string]any

	ConfigKnown bool // false: no base could be read (a check without a machine)
	// Instance are the fields of kubeadm's instance-config.yaml before prelet, which are not part of Config.
	Instance   map[string]any
	FlagsFile  fmt.Stringer // the environment file of the flags, as its renderer has parsed it
	FlagsKnown bool
	TaintFlag  bool // the base has --register-with-taints, so taints go there

	// Inherited are the labels and flags that the kubelet gets from its unit, before those of the flags file.
	// Inherited taints are here only if they are assumed. All others are taints of the base, unless the flags
	// file has the same flag, which wins.
	Inherited Contribution

	// EnvFiles are the environment files of the kubelet's unit that were read, by path.
	EnvFiles map[string]*kubelet.EnvFile

	// ConfigFrom and FlagsFrom are the origins of the two texts, also if they could not be read; nil for an existing
	// file of the node that no stage names.
	ConfigFrom, FlagsFrom []origin.Origin
}

// Node is the merged plan. Labels are sorted by key and files by path. Taints and flags keep the base's order; new
// taints follow it sorted, new flags in site order.
type Node struct {
	Labels        []Label
	Taints        []Taint
	Flags         []Flag
	Config        map[string]any
	ConfigOrigins map[string][]origin.Origin // by JSON pointer of each contributed field
	Settings      []Setting                  // the contributed changes of the base's Config
	Inherited     Contribution               // labels and flags that the kubelet gets before those of the flags file
	Reserved      *Reserved
	TaintFlag     bool   // taints are in --register-with-taints
	DropIn        string // the path of the drop-in that contains Settings; "" if Config itself does
	// Effective is the configuration that the kubelet works with: drop-ins merged over Config, and flags over
	// both. It is nil before the node is finished.
	Effective  map[string]any
	Files      []File
	Activation *Activation
	Aliases    []string // other names of the kubelet's unit
	UnitFiles  []string // that the kubelet's unit names: environment files, which may be patterns, and its arguments
	Units      []Unit   // in site order
}

// Message is one finding of a merge. By is the index of the contribution that causes it.
type Message struct {
	By         int
	Diagnostic *hcl.Diagnostic
}

// Messages are the findings of a merge, in the order of merging: labels, taints, flags, settings.
type Messages []Message

// From returns the messages of the contributions from an index on. If a merge repeats earlier contributions and adds
// new ones, these are the messages of the new ones.
func (m Messages) From(first int) (diags hcl.Diagnostics) {
	for _, x := range m {
		if x.By >= first {
			diags = append(diags, x.Diagnostic)
		}
	}

	return diags
}

// Merge lays contributions, in site order, over the base. A stage wins over the base, with a note. Two stages may
// contribute the same value; different values are an error that names both places.
func Merge(base Base, in []Contribution) (Node, Messages) {
	m := merger{}
	m.mergeLabels(base, in)
	m.mergeTaints(base, in)
	m.mergeFlags(base, in)
	m.mergeSettings(base, in)
	m.TaintFlag = base.TaintFlag
	m.Inherited = base.Inherited

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

// report adds a message that the contribution with an index causes.
func (m *merger) report(by int, d *hcl.Diagnostic) {
	m.messages = append(m.messages, Message{by, d})
}

// candidate is one value for a label, taint or flag.
type candidate struct {
	value   any // a string or a phrase
	origins []origin.Origin
}

// outcome is the result of comparing a new value with the earlier one.
type outcome int

const (
	same     outcome = iota // both are equal
	replaced                // the new value replaces one of the base
	refused                 // two stages disagree
)

// compare decides between the earlier value of a label, taint or flag and another one, and reports a replacement or a
// conflict. kind and name form its name in messages and the plan: "label" and "example.com/a".
func (m *merger) compare(
	by int,
	kind, name string,
	isEqual bool,
	old, new candidate,
) outcome {
	if isEqual {
		return same
	}

	prefix := " "
	if kind == "flag" {
		prefix = " --"
	}

	if isBase(old.origins) {
		title := strings.ToUpper(kind[:1]) + kind[1:] + prefix + name
		m.report(
			by,
			origin.Replaced(
				kind+"/"+name,
				origin.DecidingRange(new.origins),
				title+" of the base is replaced",
				"The base has %s; this stage makes it %s.",
				formatValue(old.value),
				formatValue(new.value),
			),
		)

		return replaced
	}

	m.report(by, conflict(kind+prefix+name, old, new))

	return refused
}

func conflict(name string, old, new candidate) *hcl.Diagnostic {
	summary := "Two stages disagree on "
	next := "One owner for each: remove one of them, or make them agree."

	stage := stageOf(new.origins)
	isOneStage := stage != "" && stage == stageOf(old.origins)
	if isOneStage {
		summary = "One stage disagrees with itself on "
		next = "Remove one of them."
	}

	oldValue := formatValue(old.value)
	newValue := formatValue(new.value)

	detail := fmt.Sprintf("Here it is %s, but %s sets %s. %s", newValue, formatPlace(old.origins), oldValue, next)
	isOneExpression := origin.DecidingRange(old.origins) == origin.DecidingRange(new.origins)
	if isOneStage && isOneExpression {
		detail = fmt.Sprintf("It is %s and %s here, and can be only one.", oldValue, newValue)
	}

	return origin.Error(fault.Conflict, origin.DecidingRange(new.origins), summary+name, "%s", detail)
}

// stageOf returns the block that something comes from, the same for all instances of the block.
func stageOf(origins []origin.Origin) string {
	if len(origins) == 0 {
		return ""
	}

	block, _, _ := strings.Cut(origins[0].Ref, "[")

	return block
}

func (m *merger) mergeLabels(base Base, in []Contribution) {
	labels := map[string]Label{}
	for _, l := range base.Labels {
		labels[l.Key] = l
	}

	for by, c := range in {
		for _, l := range c.Labels {
			old, exists := labels[l.Key]
			if !exists {
				labels[l.Key] = l
				continue
			}

			was := candidate{any(old.Value), old.Origins}
			is := candidate{l.Value, l.Origins}

			switch m.compare(by, "label", l.Key, old.Value == l.Value, was, is) {
			case same:
				l.Origins = joinOrigins(old.Origins, l.Origins)
				labels[l.Key] = l
			case replaced:
				labels[l.Key] = l
			}
		}
	}

	for _, key := range slices.Sorted(maps.Keys(labels)) {
		m.Labels = append(m.Labels, labels[key])
	}
}

func (m *merger) mergeTaints(base Base, in []Contribution) {
	for _, t := range base.Taints {
		if m.findTaint(t) < 0 {
			m.Taints = append(m.Taints, t)
		}
	}

	ofBase := len(m.Taints)

	for by, c := range in {
		for _, t := range c.Taints {
			i := m.findTaint(t)
			if i < 0 {
				m.Taints = append(m.Taints, t)
				continue
			}

			old := &m.Taints[i]
			was := candidate{any(old.Value), old.Origins}
			is := candidate{t.Value, t.Origins}
			if old.Value == t.Value {
				was.value, is.value = describeStartup(*old), describeStartup(t)
			}
			isSame := old.Value == t.Value && (isBase(old.Origins) || old.Startup == t.Startup)

			switch m.compare(by, "taint", t.Key+":"+t.Effect, isSame, was, is) {
			case same:
				old.Startup = old.Startup || t.Startup
				old.Origins = joinOrigins(old.Origins, t.Origins)
			case replaced:
				*old = t
			}
		}
	}

	slices.SortStableFunc(m.Taints[ofBase:], func(a, b Taint) int {
		return strings.Compare(a.String(), b.String())
	})
}

// phrase is a value that messages name by a phrase, not as it is written in a site.
type phrase string

// describeStartup returns whether a taint is a startup taint, in words: two stages with the same taint may disagree on
// it.
func describeStartup(t Taint) phrase {
	if t.Startup {
		return "a startup taint (startup = true)"
	}

	return "an ordinary taint"
}

// findTaint returns the index of the taint with the same key and effect, -1 if there is none.
func (m *merger) findTaint(t Taint) int {
	return slices.IndexFunc(m.Taints, func(old Taint) bool {
		return old.Key == t.Key && old.Effect == t.Effect
	})
}

func (m *merger) mergeFlags(base Base, in []Contribution) {
	for _, f := range base.Flags {
		// The kubelet uses the last value of a repeated flag.
		if i := m.findFlag(f); i >= 0 {
			f.Earlier = slices.Concat(
				m.Flags[i].Earlier,
				[]string{m.Flags[i].Value},
				f.Earlier,
			)
			m.Flags[i] = f
		} else {
			m.Flags = append(m.Flags, f)
		}
	}

	for by, c := range in {
		for _, f := range c.Flags {
			i := m.findFlag(f)
			if i < 0 {
				m.Flags = append(m.Flags, f)
				continue
			}

			old := &m.Flags[i]
			isEqual := old.Value == f.Value
			was := candidate{any(old.Value), old.Origins}
			is := candidate{f.Value, f.Origins}

			switch m.compare(by, "flag", f.Name, isEqual, was, is) {
			case same:
				old.Origins = joinOrigins(old.Origins, f.Origins)
			case replaced:
				f.Earlier = old.Earlier // the flags file keeps them
				*old = f
			}
		}
	}
}

// findFlag returns the index of the flag with the same name, -1 if there is none.
func (m *merger) findFlag(f Flag) int {
	return slices.IndexFunc(m.Flags, func(old Flag) bool {
		return old.Name == f.Name
	})
}

// MergeFiles returns files sorted by path. The second file with the same path is an error, and so is a file whose path
// another file needs as a folder.
func MergeFiles(all []File) (files []File, diags hcl.Diagnostics) {
	byPath := map[string]File{}
	for _, f := range all {
		if old, exists := byPath[f.Path]; exists {
			diags = append(diags, refuseSecond(old, f))
			continue
		}
		byPath[f.Path] = f
	}

	for _, p := range slices.Sorted(maps.Keys(byPath)) {
		files = append(files, byPath[p])
	}

	return files, append(diags, checkFolders(files)...)
}

// refuseSecond refuses the second file with the same path.
func refuseSecond(first, second File) *hcl.Diagnostic {
	at := origin.DecidingRange(second.Origins)
	summary := "Two owners of " + second.Path
	if block := Block(first.Purpose); block != "" && second.Purpose == "file" {
		return origin.Error(
			fault.Conflict, at, summary,
			"Block %[1]s of stage \"write\" writes it, at %[2]s. Change it there, or leave that block out: "+
				"%[1]s { when = false }.", block, origin.Place(origin.DecidingRange(first.Origins)),
		)
	}

	return origin.Error(
		fault.Conflict, at, summary,
		"It is written here, and by %s. One owner for each path: remove one of them, or give it another path.",
		formatPlace(first.Origins),
	)
}

// Block returns the block of stage write that writes the kubelet's file of a purpose; "" for other purposes.
func Block(purpose string) string {
	return map[string]string{
		"kubelet-config":       "kubelet_config",
		"kubelet-flags":        "kubelet_flags",
		"ca":                   "ca_certificate",
		"bootstrap-kubeconfig": "bootstrap_kubeconfig",
	}[purpose]
}

// checkFolders returns an error for each file whose path other files need as a folder, and for each folder in
// which a user besides root could replace a managed file. files are sorted by path. If one of two files is a block
// `file` or `directory`, the error is at that block.
func checkFolders(files []File) (diags hcl.Diagnostics) {
	for i, f := range files {
		var below []File
		for _, g := range files[i+1:] {
			if strings.HasPrefix(g.Path, f.Path+"/") {
				below = append(below, g)
			}
		}

		if len(below) == 0 {
			continue
		}

		if f.Kind == Directory {
			diags = append(diags, checkReplaceable(f, below)...)
			continue
		}

		at := origin.DecidingRange(below[0].Origins)
		writer := formatPlace(f.Origins)
		if f.Purpose == "file" && below[0].Purpose != "file" && below[0].Purpose != "directory" {
			at = origin.DecidingRange(f.Origins)
			writer = "this"
		}

		diags = append(
			diags,
			origin.Error(
				fault.Conflict,
				at,
				f.Path+" cannot be a file and a folder",
				"%s needs a folder there, and %s writes a file. Give one of them another path.",
				below[0].Path,
				writer,
			),
		)
	}

	return diags
}

// checkReplaceable returns an error for a folder whose planned owner or mode lets users besides root replace the
// files below it: later runs would refuse to write there. Apply checks an owner or mode that the site does not
// set.
func checkReplaceable(f File, below []File) hcl.Diagnostics {
	for _, g := range below {
		who, at, next := FindReplacer(f, path.Dir(g.Path) != f.Path)
		if who == "" {
			continue
		}

		if at.Filename == "" {
			at = origin.DecidingRange(f.Origins)
		}

		return hcl.Diagnostics{
			origin.Error(
				fault.PathInvalid,
				at,
				f.Path+" must be writable by root only",
				"%s is written below it, and %s could replace that file, so later runs would refuse to write there. "+
					"%s, or give %[1]s another path. A folder without managed files may have any owner.",
				g.Path,
				who,
				next,
			),
		}
	}

	return nil
}

// FindReplacer returns the users besides root that may rename files in a planned folder, "" if there are none. at
// is the range of the owner if the owner is the reason, and next is the next step. If a path only passes through
// the folder, the sticky bit protects it.
func FindReplacer(f File, passed bool) (who string, at hcl.Range, next string) {
	user, group, _ := strings.Cut(f.Owner, ":")
	isRoot := func(id string) bool {
		return id == "" || id == "root" || strings.Trim(id, "0") == ""
	}
	writeMode := fmt.Sprintf("Write mode = \"%04o\"", f.Mode&^0o022)

	switch {
	case !isRoot(user):
		return "user " + user, f.OwnerRange, `Write owner = "root:root", or leave it out`
	case passed && f.Mode&0o1000 != 0:
		return "", hcl.Range{}, ""
	case f.Mode&0o002 != 0:
		return fmt.Sprintf("every user (mode %04o)", f.Mode), hcl.Range{}, writeMode
	case f.Mode&0o020 != 0 && !isRoot(group):
		return "group " + group, f.OwnerRange, writeMode
	}

	return "", hcl.Range{}, ""
}

func isBase(origins []origin.Origin) bool {
	return len(origins) > 0 && origins[0].Kind == origin.Base
}

// joinOrigins returns the origins of one value that is contributed twice. Those of the base come last.
func joinOrigins(old, new []origin.Origin) []origin.Origin {
	if isBase(old) {
		return append(slices.Clone(new), old...)
	}

	return append(slices.Clone(old), new...)
}

// formatPlace returns "label.a at site.hcl:3:5" for messages.
func formatPlace(origins []origin.Origin) string {
	if len(origins) == 0 {
		return "another stage"
	}

	ref := origins[0].Ref
	r := origin.DecidingRange(origins)
	if r.Filename == "" {
		return ref
	}

	if ref != "" {
		ref += " at "
	}

	return ref + origin.Place(r).String()
}

// formatValue returns a value as JSON for messages.
func formatValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case phrase:
		return string(v)
	case string:
		if v == "" {
			return "empty"
		}

		return strconv.Quote(v)
	}

	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}

	return string(b)
}
