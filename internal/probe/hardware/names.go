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

// pciIDs is the database of names for ghw. A machine's own pci.ids is not used: it may be missing or years old,
// and it names chips, not products. A device id is not enough for a name: 38 of NVIDIA's 289 ids are of several
// products, which differ in the ids of the subsystem. A name is followed by a tab and its source.
//
//go:embed pciids/pci.ids
var pciIDs []byte

// databasePath writes pciIDs to a file in memory, once, and sets PCIDB_PATH to it. ghw 0.26 ignores WithPCIDB and
// reads the variable at each call, so the variable stays set. prelet's children do not get it: they are started
// with their own environment, or with that of prelet's start.
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

// database returns pciIDs, parsed, for functions that ghw does not list.
var database = sync.OnceValues(func() (*pcidb.DB, error) {
	file, err := databasePath()
	if err != nil {
		return nil, err
	}
	return pcidb.New(pcidb.WithPath(file))
})

// productName is a device's name, as its vendor's tools print it.
type productName struct {
	name      string
	subsystem string // vendor:device if the name depends on it, otherwise empty
	source    string // a description
}

// nameOf returns the name of a product with a subsystem ("10de:14a9", or empty if it is unknown). It does not use
// ghw's subsystem, for which ghw compares the id of the device only, and not that of its vendor.
func nameOf(product *pcidb.Product, subsystem string) (productName, bool) {
	if product == nil {
		return productName{}, false
	}

	name, decided := product.Name, ""

	i := slices.IndexFunc(product.Subsystems, func(s *pcidb.Product) bool {
		return s.VendorID+":"+s.ID == subsystem
	})
	if i >= 0 {
		name, decided = product.Subsystems[i].Name, subsystem
	}

	name, letter, isNamed := strings.Cut(name, "\t")
	if !isNamed || name == unknown {
		return productName{}, false
	}

	return productName{name, decided, sourceName(letter)}, true
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
	case "p":
		return "pci.ids " + pciidsVersion
	}
	return "prelet's own table"
}
