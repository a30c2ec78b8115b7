package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// table has the state of each flag, field and gate in each release.
type table struct {
	readOn   string                       // the date on which the newest release was read
	versions []string                     // the last available patch release of each minor version, the oldest first
	states   map[string]map[string]string // by kind, tab and name; then by minor version
}

// headPattern finds the date and the releases in the head of a table.
var headPattern = regexp.MustCompile(`(?s)^# .*? read on (\S+) .*?\n# (1\.[^\n]*)\.\n`)

// parseTable reads what String has written.
func parseTable(text string) (*table, error) {
	head := headPattern.FindStringSubmatch(text)
	if head == nil {
		return nil, errors.New("its head has no date and no releases")
	}
	t := &table{head[1], strings.Fields(head[2]), map[string]map[string]string{}}

	for line := range strings.Lines(text) {
		at := strings.LastIndexByte(line, '\t')
		if strings.Count(line, "\t") != 2 {
			continue // a comment, or the minor versions
		}
		changes := map[string]string{}
		for change := range strings.SplitSeq(strings.TrimSuffix(line[at+1:], "\n"), ";") {
			minor, state, _ := strings.Cut(change, "=")
			changes[minor] = state
		}
		states, state := map[string]string{}, ""
		for _, version := range t.versions {
			if next, isChanged := changes[minorOf(version)]; isChanged {
				state = strings.TrimPrefix(next, "-") // removed
			}
			states[minorOf(version)] = state
		}
		t.states[line[:at]] = states
	}

	return t, nil
}

// set adds a release with its states, in place of another one of its minor version.
func (t *table) set(version string, states map[string]string) {
	minor := minorOf(version)
	at := slices.IndexFunc(t.versions, func(v string) bool { return minorOf(v) == minor })
	if at < 0 {
		at = len(t.versions)
		t.versions = append(t.versions, version)
	}
	t.versions[at] = version

	for _, old := range t.states {
		delete(old, minor)
	}
	for name, state := range states {
		if t.states[name] == nil {
			t.states[name] = map[string]string{}
		}
		t.states[name][minor] = state
	}
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
# field: type; then =DEFAULT, and after | why Kubernetes' comment calls it deprecated
# gate:  alpha, beta, ga or deprecated; then + (on) or - (off by default), and ! if it is locked to that
# read:  the gates that the kubelet's own code reads; others are of API servers, schedulers or controllers
# needs: the gates that must be on if a gate is on
# declared: what a feature of the Node's status.declaredFeatures needs: its gates, and the runtime
`

func (t *table) String() string {
	var minors, lines []string
	prereleases := ""
	for _, version := range t.versions {
		minors = append(minors, minorOf(version))
		if strings.Contains(version, "-") {
			prereleases += "prerelease\t" + minorOf(version) + "=" + version + "\n"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.states)) {
		var changes []string
		before := ""
		for _, minor := range minors {
			state := t.states[name][minor]
			if state != before {
				changes = append(changes, minor+"="+cmp.Or(state, "-"))
			}
			before = state
		}
		if changes != nil {
			lines = append(lines, name+"\t"+strings.Join(changes, ";")+"\n")
		}
	}

	return fmt.Sprintf(header, t.readOn, strings.Join(t.versions, " ")) +
		"minors\t" + strings.Join(minors, " ") + "\n" + prereleases + strings.Join(lines, "")
}

// minorOf returns the 36 of 1.36.3.
func minorOf(version string) string { return strings.Split(version, ".")[1] }
