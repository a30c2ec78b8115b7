package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// table has the state of each flag, field and gate in each release; "" if it does not exist.
type table struct {
	readOn   string                         // the date on which the newest release was read
	versions []string                       // the last available patch release of each minor version, the oldest first
	states   map[string]map[string][]string // by kind, then name
}

// headPattern finds the date and the releases in the head of a table.
var headPattern = regexp.MustCompile(`(?s)^# .*? read on (\S+) .*?\n# (1\.[^\n]*)\.\n`)

// parseTable reads what print has written.
func parseTable(text string) (*table, error) {
	head := headPattern.FindStringSubmatch(text)
	if head == nil {
		return nil, errors.New("its head has no date and no releases")
	}
	t := &table{
		readOn:   head[1],
		versions: strings.Fields(head[2]),
		states:   map[string]map[string][]string{},
	}

	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(cells) != 3 {
			continue // a comment, or the minor versions
		}
		changes := map[string]string{}
		for _, change := range strings.Split(cells[2], ";") {
			minor, state, _ := strings.Cut(change, "=")
			if state == "-" { // removed
				state = ""
			}
			changes[minor] = state
		}
		state := ""
		for i, minor := range t.minors() {
			if next, isChanged := changes[minor]; isChanged {
				state = next
			}
			t.set(cells[0], cells[1], i, state)
		}
	}

	return t, nil
}

// addVersion adds a release without states, in place of another one of its minor version.
func (t *table) addVersion(version string, now time.Time) {
	t.readOn = now.UTC().Format(time.DateOnly)
	minors := t.minors()
	added := (&table{versions: []string{version}}).minors()[0]
	at := slices.Index(minors, added)
	if at < 0 {
		t.versions = append(t.versions, version)
		at = len(minors)
	}
	t.versions[at] = version
	for _, names := range t.states {
		for name, states := range names {
			names[name] = append(states, make([]string, len(t.versions)-len(states))...)
			names[name][at] = ""
		}
	}
}

func (t *table) set(kind, name string, release int, state string) {
	if t.states[kind] == nil {
		t.states[kind] = map[string][]string{}
	}
	if t.states[kind][name] == nil {
		t.states[kind][name] = make([]string, len(t.versions))
	}
	t.states[kind][name][release] = state
}

const header = `# The kubelet of each minor version of Kubernetes. Made by "make kubetables"; do not edit.
# Facts read on %s from the source of k8s.io/{kubernetes,kubelet,component-base,apiserver,client-go,
# apiextensions-apiserver,component-helpers,controller-manager} and k8s.io/klog, Copyright The Kubernetes Authors,
# Apache License 2.0, in the versions
# %s.
#
# A line is KIND TAB NAME TAB MINOR=STATE;MINOR=STATE…: a state holds from that minor version of 1.x until the next
# one. "-" is a removed name. The oldest minor version means that version or an older one.
# flag:  bool, value, or the type of the value (int32, duration, ip …) if it sets no field; then deprecated, hidden,
#        >FIELD that it sets, and after | the message of its deprecation
# field: type; then =DEFAULT
# gate:  alpha, beta, ga or deprecated; then + (on) or - (off by default), and ! if it is locked to that
# needs: the gates that must be on if a gate is on
# declared: what a feature of the Node's status.declaredFeatures needs: its gates, and the runtime
`

func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, header, t.readOn, strings.Join(t.versions, " "))
	fmt.Fprintf(w, "minors\t%s\n", strings.Join(t.minors(), " "))
	for _, kind := range slices.Sorted(maps.Keys(t.states)) {
		names := t.states[kind]
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if line := t.line(names[name]); line != "" {
				fmt.Fprintf(w, "%s\t%s\t%s\n", kind, name, line)
			}
		}
	}
}

func (t *table) minors() []string {
	var out []string
	for _, v := range t.versions {
		_, rest, _ := strings.Cut(v, ".")
		minor, _, _ := strings.Cut(rest, ".")
		out = append(out, minor)
	}
	return out
}

// line returns the changes of a state.
func (t *table) line(states []string) string {
	var parts []string
	before := ""
	for i, minor := range t.minors() {
		s := states[i]
		if s == before {
			continue
		}
		before = s
		if s == "" {
			s = "-"
		}
		parts = append(parts, minor+"="+s)
	}
	return strings.Join(parts, ";")
}
