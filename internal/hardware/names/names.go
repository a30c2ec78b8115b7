// Package names tells what a PCI device is called, as its vendor's own tools print it, from a table inside the program.
// It touches nothing. A machine's pci.ids is not asked: it may not be there, may be years old, and names chips, not
// products. The device id alone is not enough either: 38 of NVIDIA's 289 ids carry several products, which the ids of
// the subsystem tell apart.
package names

import (
	_ "embed"
	"sort"
	"strings"
)

//go:generate go run ./gen

// table has lines "vendor:device[ subvendor:subdevice]\tsource\tname", sorted by bytes. It is searched where it lies in
// the program: making a map of it would cost every start.
//
//go:embed table.tsv
var table string

// Entry is a line of the table.
type Entry struct {
	Name      string
	Subsystem string // vendor:device, where that decided; else empty
	Source    string // in words, for who asks where a name comes from
}

// Lookup finds the name of a device (10de:25b6) of a subsystem (10de:14a9, or empty where it is not known). A line with
// the subsystem wins over the line without. Where a device has lines for some subsystems only and this is none of them (a
// board maker's, a hypervisor's), they still name it if all of them agree.
func Lookup(device, subsystem string) (Entry, bool) {
	if subsystem != "" {
		if e, ok := lineOf(device+" "+subsystem+"\t", at(device+" "+subsystem+"\t")); ok {
			e.Subsystem = subsystem
			return e, true
		}
	}
	if e, ok := lineOf(device+"\t", at(device+"\t")); ok {
		return e, true
	}
	key := device + " "
	i := at(key)
	first, ok := lineOf(key, i)
	for next, same := first, ok; same; next, same = lineOf(key, i) {
		if next.Name != first.Name {
			return Entry{}, false
		}
		i += strings.IndexByte(table[i:], '\n') + 1
	}
	return first, ok
}

// at is where the first line begins that is not before key. It searches by halves over bytes: a place in the text is
// moved back to the start of its line.
func at(key string) int {
	i := sort.Search(len(table), func(i int) bool {
		line := table[lineStart(i):]
		return line[:min(len(line), len(key))] >= key
	})
	return lineStart(i)
}

func lineStart(i int) int { return strings.LastIndexByte(table[:i], '\n') + 1 }

// lineOf reads the line at i, if it begins with key.
func lineOf(key string, i int) (Entry, bool) {
	rest, ok := strings.CutPrefix(table[i:], key)
	if !ok {
		return Entry{}, false
	}
	line, _, _ := strings.Cut(rest, "\n")
	if !strings.HasSuffix(key, "\t") {
		_, line, _ = strings.Cut(line, "\t")
	}
	source, name, _ := strings.Cut(line, "\t")
	return Entry{Name: name, Source: sourceName(source)}, true
}

// Versions of the sources, which are dated so that one can tell why a new device has no name.
const (
	nvidiaVersion = "595.45.04"
	pciidsVersion = "2026.10.24"
)

// sourceName says a source's letter in words.
func sourceName(letter string) string {
	switch letter {
	case "n":
		return "the table of NVIDIA's driver " + nvidiaVersion
	case "p":
		return "pci.ids " + pciidsVersion
	}
	return "prelet's own table"
}
