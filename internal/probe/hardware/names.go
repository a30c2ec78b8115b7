package hardware

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/jaypipes/pcidb"
	"golang.org/x/sys/unix"
)

// pciIDs is the database of names that ghw reads. A machine's own pci.ids is not asked: it may not be there, may be
// years old, and names chips, not products. The device id alone is not enough either: 38 of NVIDIA's 289 ids carry
// several products, which the ids of the subsystem tell apart. A name is followed by a tab and its source.
//
//go:embed pciids/pci.ids
var pciIDs []byte

// databasePath makes pciIDs a file in memory and points ghw at it, once. ghw 0.26 ignores WithPCIDB and reads the
// variable PCIDB_PATH at each call, so the variable is set for the rest of the process.
// No child of prelet gets it: each is started with an environment of its own, or with the one that prelet was started with.
var databasePath = sync.OnceValues(func() (string, error) {
	fd, err := unix.MemfdCreate("pci.ids", unix.MFD_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("create a file in memory for the names of PCI devices: %w", err)
	}

	file := fmt.Sprintf("/proc/self/fd/%d", fd)
	if err := os.WriteFile(file, pciIDs, 0o600); err != nil {
		return "", fmt.Errorf("write the names of PCI devices: %w", err)
	}

	return file, os.Setenv("PCIDB_PATH", file)
})

// database is pciIDs parsed, for functions that ghw does not list.
var database = sync.OnceValues(func() (*pcidb.DB, error) {
	file, err := databasePath()
	if err != nil {
		return nil, err
	}
	return pcidb.New(pcidb.WithPath(file))
})

// productName is how a vendor's own tools print the name of a device, and which source says so.
type productName struct {
	name      string
	subsystem string // vendor:device, if it decided; else empty
	source    string // in words
}

// nameOf finds the name of a product of the given subsystem ("10de:14a9", or empty if it is not known). ghw's own
// choice of a subsystem compares the device's id only and not its vendor's.
func nameOf(product *pcidb.Product, subsystem string) (productName, bool) {
	if product == nil {
		return productName{}, false
	}

	name, decided := product.Name, ""

	i := slices.IndexFunc(product.Subsystems, func(s *pcidb.Product) bool { return s.VendorID+":"+s.ID == subsystem })
	if i >= 0 {
		name, decided = product.Subsystems[i].Name, subsystem
	}

	name, letter, isNamed := strings.Cut(name, "\t")
	if !isNamed || name == unknown {
		return productName{}, false
	}

	return productName{name, decided, sourceName(letter)}, true
}

// unknown is what ghw reports for a text that it could not read.
const unknown = "unknown"

// Versions of the sources, which are dated so that one can tell why a new device has no name.
const (
	nvidiaVersion = "595.45.04"
	pciidsVersion = "2026.10.24"
)

// sourceName describes a source of names by its letter in pci.ids.
func sourceName(letter string) string {
	switch letter {
	case "n":
		return "the table of NVIDIA's driver " + nvidiaVersion
	case "p":
		return "pci.ids " + pciidsVersion
	}
	return "prelet's own table"
}
