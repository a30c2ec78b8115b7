package contract

import (
	"path"
	"slices"
	"strings"
)

// Devices returns the devices that match pci_ids, sorted by address.
func (m Match) Devices(all []PCIDevice) []PCIDevice {
	var out []PCIDevice
	for _, d := range all {
		if slices.ContainsFunc(m.PCIIDs, d.Is) {
			out = append(out, d)
		}
	}
	slices.SortStableFunc(out, func(a, b PCIDevice) int {
		return strings.Compare(a.Address, b.Address)
	})

	return out
}

// Is reports whether a pattern of pci_ids matches the device.
func (d PCIDevice) Is(pattern string) bool {
	vendor, rest, _ := strings.Cut(pattern, ":")
	device, class, _ := strings.Cut(rest, ":")

	return d.Vendor == vendor && (device == "*" || d.Device == device) &&
		strings.HasPrefix(d.Class, class)
}

// Limits for match.paths: prelet itself searches for them, as root, before it starts a detector.
const (
	MaxStars    = 2      // in one pattern
	MaxLookedAt = 10_000 // folder entries for all patterns of a description
)

// PatternFolders returns the folders below which match.paths may have stars: the kernel lists devices and drivers
// there. The search follows no links below a star.
func PatternFolders() []string {
	return []string{
		"/sys/bus",
		"/sys/class",
		"/sys/module",
		"/sys/firmware",
		"/dev",
		"/proc/driver",
		"/lib/modules",
	}
}

// isCheapPattern reports whether a pattern has no star, or few and in one of PatternFolders.
func isCheapPattern(pattern string) bool {
	stars := strings.Count(pattern, "*")
	isInFolder := slices.ContainsFunc(PatternFolders(), func(folder string) bool {
		return strings.HasPrefix(pattern, folder+"/")
	})

	return stars == 0 || stars <= MaxStars && isInFolder
}

// MatchPath reports whether a pattern of match.paths or of Needs matches a path or a name: * matches any part of one
// name, also the empty one.
func MatchPath(pattern, name string) bool {
	isMatch, err := path.Match(pattern, name)

	return isMatch && err == nil
}
