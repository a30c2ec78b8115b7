// Package known has the kubelet's flags, configuration fields and feature gates of each minor version of Kubernetes,
// with the versions that added, deprecated and removed them. Its table is generated from Kubernetes' own source
// (`make kubetables`), embedded, and parsed at the first call. The package must not read anything else.
package known

import (
	"cmp"
	_ "embed"
	"fmt"
	"iter"
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
	minors      []int
	prereleases map[int]string               // by the minor version that is known only from it: 1.38.0-alpha.2
	states      map[string]map[string]string // by kind and name
	deprecated  []string                     // the fields that some version calls deprecated
}

var loadTable = sync.OnceValue(func() table { return parse(text) })

func parse(text string) table {
	t := table{prereleases: map[int]string{}, states: map[string]map[string]string{}}

	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		name, states, isEntry := strings.Cut(rest, "\t")

		switch {
		case kind == "minors":
			for _, m := range strings.Fields(rest) {
				t.minors = append(t.minors, parseInt(m))
			}
		case kind == "prerelease":
			minor, release, _ := strings.Cut(rest, "=")
			t.prereleases[parseInt(minor)] = release
		case isEntry:
			if t.states[kind] == nil {
				t.states[kind] = map[string]string{}
			}
			t.states[kind][name] = states
			if kind == "field" && strings.Contains(states, " |") {
				t.deprecated = append(t.deprecated, name)
			}
		}
	}

	return t
}

func parseInt(s string) int {
	n, _ := strconv.Atoi(s) // a test parses the whole table
	return n
}

// Range returns the oldest known minor version of 1.x, and the newest that is out.
func Range() (oldest, newest int) {
	t := loadTable()
	for _, minor := range t.minors {
		if t.prereleases[minor] == "" {
			newest = minor
		}
	}

	return t.minors[0], newest
}

// Newest returns the newest known minor version of 1.x, which may be known only from a pre-release.
func Newest() int { return slices.Max(loadTable().minors) }

// IsNewer reports whether a version is newer than the tables, as is a text that is not a version 1.x. Of a minor
// version that is known only from a pre-release, other releases are newer, and so is one without a patch level: they
// may have more. An unknown version is not.
func IsNewer(version string) bool {
	minor, isKubernetes1 := Minor(version)
	version = strings.TrimPrefix(version, "v")
	switch {
	case version == "":
		return false
	case !isKubernetes1 || minor > Newest():
		return true
	case Prerelease(minor) == "":
		return false
	}

	return version != Prerelease(minor)
}

// Minor parses the minor version of "v1.36.3", "1.36.3-gke.1", "1.36" or "36"; false if the text is not a version 1.x.
func Minor(version string) (int, bool) {
	version = strings.TrimPrefix(version, "v")
	if !strings.Contains(version, ".") {
		version = "1." + version
	}
	rest, isOne := strings.CutPrefix(version, "1.")
	if end := strings.IndexAny(rest, ".-+"); end >= 0 {
		rest = rest[:end]
	}
	if !isOne || rest == "" || len(rest) > 3 || strings.Trim(rest, "0123456789") != "" {
		return 0, false
	}

	return parseInt(rest), true
}

// CheckVersion refuses a text that is not a version such as 1.36, and a version that is older than the tables. Of a
// newer one only what older ones have is checked, and a warning says so.
func CheckVersion(version string) error {
	oldest, newest := Range()
	minor, isVersion := Minor(version)
	switch {
	case !isVersion || !strings.Contains(version, "."):
		return fmt.Errorf("write a version of Kubernetes, such as \"1.%d\" or \"v1.%[1]d.3\"", newest)
	case minor < oldest:
		return fmt.Errorf("this prelet knows the kubelets from 1.%d on", oldest)
	}

	return nil
}

// History has the states of a flag, field or gate by version.
type History struct {
	minors []int
	states []string // "": it does not exist
}

// findHistory returns the history of a name; false if no version has it.
func findHistory(kind, name string) (h History, isKnown bool) {
	for minor, state := range listStates(kind, name) {
		h.minors = append(h.minors, minor)
		h.states = append(h.states, state)
	}

	return h, len(h.minors) > 0
}

// findState returns the state of a name in a version, "" if it does not exist there. A newer version than all known
// ones counts as the newest, an older one as the oldest.
func findState(kind, name string, minor int) (found string) {
	minor = max(minor, loadTable().minors[0])
	for m, state := range listStates(kind, name) {
		if m <= minor {
			found = state
		}
	}

	return found
}

// listStates returns the states of a name with the versions from which on they hold; "": it does not exist.
func listStates(kind, name string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		line, isKnown := loadTable().states[kind][name]
		for isKnown {
			var part string
			part, line, isKnown = strings.Cut(line, ";")
			minor, state, _ := strings.Cut(part, "=")
			if state == "-" {
				state = ""
			}
			if !yield(parseInt(minor), state) {
				return
			}
		}
	}
}

// Since returns the version that added it; 0 if the oldest known version has it.
func (h History) Since() int {
	if oldest, _ := Range(); len(h.minors) > 0 && h.minors[0] > oldest {
		return h.minors[0]
	}
	return 0
}

// Gone returns the version that removed it, if one did and no later one added it again.
func (h History) Gone() (minor int, isGone bool) {
	last := len(h.minors) - 1
	if last < 0 || h.states[last] != "" {
		return 0, false
	}
	return h.minors[last], true
}

// When describes the versions that have it: "since 1.31", "until 1.23", "from 1.21 to 1.23", "always".
func (h History) When() string {
	since := h.Since()
	gone, isGone := h.Gone()
	switch {
	case since > 0 && isGone:
		return fmt.Sprintf("from 1.%d to 1.%d", since, gone-1)
	case since > 0:
		return "since " + Describe(since)
	case isGone:
		return fmt.Sprintf("until 1.%d", gone-1)
	}
	return "always"
}

// listNames returns the names that a version has, sorted.
func listNames(kind string, minor int) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(loadTable().states[kind])) {
		if findState(kind, name, minor) != "" {
			out = append(out, name)
		}
	}
	return out
}

// listChanged returns the names whose state differs between two versions, sorted.
func listChanged(kind string, from, to int) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(loadTable().states[kind])), func(name string) bool {
		return findState(kind, name, from) == findState(kind, name, to)
	})
}

// Version returns a minor version as text: 1.36.
func Version(minor int) string { return fmt.Sprintf("1.%d", minor) }

// Prerelease returns the release before the first one from which alone a minor version is known, as 1.38.0-alpha.2; ""
// if it is out.
func Prerelease(minor int) string { return loadTable().prereleases[minor] }

// Release returns the version of a minor version that the tables describe: 1.36, or 1.38.0-alpha.2.
func Release(minor int) string { return cmp.Or(Prerelease(minor), Version(minor)) }

// Describe returns a minor version for messages: 1.36, or 1.38 (alpha.2) if it is known only from that release.
func Describe(minor int) string {
	if _, release, isPrerelease := strings.Cut(Prerelease(minor), "-"); isPrerelease {
		return Version(minor) + " (" + release + ")"
	}

	return Version(minor)
}
