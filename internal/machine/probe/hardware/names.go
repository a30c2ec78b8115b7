package hardware

import (
	_ "embed"
	"os"
	"strings"
	"sync"
)

// pciIDs is the database of names, in which a name is looked up without parsing the rest. A machine's own pci.ids is
// not used: it may be missing or years old, and it names chips, not products. A device id is not enough for a name: 38
// of NVIDIA's 289 ids are of several products, which differ in the ids of the subsystem. A name is followed by a tab
// and its source, unless that is pci.ids.
//
//go:embed pciids/pci.ids
var pciIDs string

// withoutDatabase sets PCIDB_PATH to an empty file, once: ghw parses the whole database at each call, and compares of a
// subsystem the id of the device only. ghw 0.26 ignores WithPCIDB and reads the variable at each call, so the variable
// stays set. prelet's children do not get it: they are started with their own environment, or with that of prelet's
// start.
var withoutDatabase = sync.OnceValue(func() error { return os.Setenv("PCIDB_PATH", os.DevNull) })

// productName is a device's name, as its vendor's tools print it.
type productName struct {
	name      string
	subsystem string // vendor:device if the name depends on it, otherwise empty
	source    string // a description
}

// nameOf returns the name of a device ("10de:20b0") with a subsystem ("10de:14a9", or empty if it is unknown).
func nameOf(device, subsystem string) (productName, bool) {
	vendor, id, _ := strings.Cut(device, ":")
	_, devices := findEntry(pciIDs, "", vendor)
	text, subsystems := findEntry(devices, "\t", id)
	decided := ""

	own, _ := findEntry(subsystems, "\t\t", strings.Replace(subsystem, ":", " ", 1))
	if own != "" {
		text, decided = own, subsystem
	}

	name, letter, _ := strings.Cut(text, "\t")
	if name == "" || name == unknown {
		return productName{}, false
	}

	return productName{name, decided, sourceName(letter)}, true
}

// findEntry returns the text after an id in its line, which begins with an indent, and the lines below it that are
// indented further, each with the line break before it.
func findEntry(text, indent, id string) (entry, below string) {
	_, rest, exists := strings.Cut(text, "\n"+indent+id+"  ")
	if !exists {
		return "", ""
	}

	entry, _, _ = strings.Cut(rest, "\n")
	end := len(entry)
	for line := range strings.Lines(rest[min(end+1, len(rest)):]) {
		if !strings.HasPrefix(line, indent+"\t") {
			break
		}
		end += len(line)
	}

	return entry, rest[len(entry):end]
}

// unknown is the text of ghw for a value that it could not read.
const unknown = "unknown"

// Versions of the sources, which explain why a newer device has no name.
const (
	nvidiaVersion = "595.45.04"
	pciidsVersion = "2026.10.24"
)

// sourceName describes a source of names by its letter in pci.ids.
func sourceName(letter string) string {
	switch letter {
	case "n":
		return "the table of NVIDIA's driver " + nvidiaVersion
	case "":
		return "pci.ids " + pciidsVersion
	}
	return "prelet's own table"
}
