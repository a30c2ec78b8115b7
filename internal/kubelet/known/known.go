// Package known is what is known of the kubelet of each minor version of Kubernetes: its flags, the fields of its
// configuration and its feature gates, with when each came, was deprecated and went. It is one table that is made from
// Kubernetes' own source (`make kubetables`) and part of the program. It touches nothing; the table is read when it is
// first asked.
package known

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed tables.txt
var text string

// table holds the lines of the text.
type table struct {
	minors []int
	states map[string]map[string]string // by kind and name
}

var read = sync.OnceValue(func() table { return parse(text) })

func parse(text string) table {
	t := table{states: map[string]map[string]string{}}

	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		name, states, isEntry := strings.Cut(rest, "\t")

		switch {
		case kind == "minors":
			for _, m := range strings.Fields(rest) {
				t.minors = append(t.minors, number(m))
			}
		case isEntry:
			if t.states[kind] == nil {
				t.states[kind] = map[string]string{}
			}
			t.states[kind][name] = states
		}
	}

	return t
}

func number(s string) int {
	n, _ := strconv.Atoi(s) // of a table that a test has read whole
	return n
}

// Range is the oldest and the newest minor version of 1.x that is known.
func Range() (oldest, newest int) {
	m := read().minors
	return m[0], m[len(m)-1]
}

// Minor is the minor version in "v1.36.3", "1.36.3-gke.1", "1.36" or "36"; false for what is no version 1.x.
func Minor(version string) (int, bool) {
	v := strings.TrimPrefix(version, "v")
	major, rest, dotted := strings.Cut(v, ".")
	if !dotted {
		major, rest = "1", v
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 && rest[end] != '.' && rest[end] != '-' && rest[end] != '+' {
		return 0, false
	}
	if end >= 0 {
		rest = rest[:end]
	}
	if n, err := strconv.Atoi(rest); err == nil && major == "1" && len(rest) <= 3 {
		return n, true
	}
	return 0, false
}

// History is one thing over the versions.
type History struct {
	minors []int
	states []string // "" is "not there"
}

// history is that of a name; false if no version ever knew it.
func history(kind, name string) (History, bool) {
	line, ok := read().states[kind][name]
	if !ok {
		return History{}, false
	}
	var h History
	for _, part := range strings.Split(line, ";") {
		minor, state, _ := strings.Cut(part, "=")
		if state == "-" {
			state = ""
		}
		h.minors, h.states = append(h.minors, number(minor)), append(h.states, state)
	}
	return h, true
}

// at is the state in a version. One newer than all that are known counts as the newest, an older one as the oldest.
func (h History) at(minor int) string {
	oldest, _ := Range()
	minor = max(minor, oldest)
	state := ""
	for i, m := range h.minors {
		if m <= minor {
			state = h.states[i]
		}
	}
	return state
}

// Since is the version that a thing came with; 0 where it is older than what is known.
func (h History) Since() int {
	if oldest, _ := Range(); len(h.minors) > 0 && h.minors[0] > oldest {
		return h.minors[0]
	}
	return 0
}

// Gone is the first version without the thing, if there is one: it went, and did not come back.
func (h History) Gone() (minor int, gone bool) {
	last := len(h.minors) - 1
	if last < 0 || h.states[last] != "" {
		return 0, false
	}
	return h.minors[last], true
}

// When says in words when a thing is there: "since 1.31", "until 1.23", "from 1.21 to 1.23", "always".
func (h History) When() string {
	since := h.Since()
	gone, isGone := h.Gone()
	switch {
	case since > 0 && isGone:
		return fmt.Sprintf("from 1.%d to 1.%d", since, gone-1)
	case since > 0:
		return fmt.Sprintf("since 1.%d", since)
	case isGone:
		return fmt.Sprintf("until 1.%d", gone-1)
	}
	return "always"
}

// names lists what a version has, sorted.
func names(kind string, minor int) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(read().states[kind])) {
		if h, _ := history(kind, name); h.at(minor) != "" {
			out = append(out, name)
		}
	}
	return out
}
