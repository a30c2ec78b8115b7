package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// table holds the state of each thing in each release; "" is "not there".
type table struct {
	versions []string
	states   map[string]map[string][]string // by kind, then name
}

func newTable(versions []string) *table {
	return &table{versions, map[string]map[string][]string{}}
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

const header = `# What the kubelet of each minor version of Kubernetes knows. Made by "make kubetables"; do not edit.
# Facts read on %s from the source of k8s.io/{kubernetes,kubelet,component-base,apiserver,client-go,
# apiextensions-apiserver,controller-manager} and k8s.io/klog, Copyright The Kubernetes Authors, Apache License 2.0, in the versions
# %s.
#
# A line is KIND TAB NAME TAB MINOR=STATE;MINOR=STATE…: from that minor version of 1.x on, until the next one. "-" is gone.
# The first minor of all is the oldest that was read, and says "or before".
# flag:  bool, value, or what a value must be (int32, duration, ip …) where no field says it; then deprecated, hidden, >FIELD that it sets, and after | what its deprecation says
# field: type; then =DEFAULT, and {a,b} where only these words are allowed
# gate:  alpha, beta, ga or deprecated; then + (on) or - (off by default), and ! where it is locked to that
# needs: the gates that a gate needs, which have to be on where it is
`

func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, header, readOn, strings.Join(t.versions, " "))
	fmt.Fprintf(w, "minors\t%s\n", strings.Join(t.minors(), " "))
	for _, kind := range slices.Sorted(maps.Keys(t.states)) {
		for _, name := range slices.Sorted(maps.Keys(t.states[kind])) {
			fmt.Fprintf(w, "%s\t%s\t%s\n", kind, name, t.line(t.states[kind][name]))
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

// line writes the changes of a state.
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
