package contract

import (
	"slices"
	"strings"
)

// Devices returns those that a description's pci_ids name, sorted by address.
func (m Match) Devices(all []PCIDevice) []PCIDevice {
	var out []PCIDevice
	for _, d := range all {
		if slices.ContainsFunc(m.PCIIDs, d.Is) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b PCIDevice) int { return strings.Compare(a.Address, b.Address) })
	return out
}

// Is tells whether a pattern of pci_ids names this device.
func (d PCIDevice) Is(pattern string) bool {
	vendor, rest, _ := strings.Cut(pattern, ":")
	device, class, _ := strings.Cut(rest, ":")
	return d.Vendor == vendor && (device == "*" || d.Device == device) && strings.HasPrefix(d.Class, class)
}

// How far match.paths may look: prelet itself looks, as root, before a detector is started.
const (
	MaxStars    = 2      // of one pattern
	MaxLookedAt = 10_000 // entries of folders, for all patterns of a description
)

// PatternFolders are those below which a path of match.paths may have stars: where the kernel lists devices and drivers.
// Under a star no link is followed.
func PatternFolders() []string {
	return []string{"/sys/bus", "/sys/class", "/sys/module", "/sys/firmware", "/dev", "/proc/driver", "/lib/modules"}
}

// isBounded tells whether looking for a path of match.paths costs little: it has no star, or few and in the right place.
func isBounded(path string) bool {
	stars := strings.Count(path, "*")
	inPlace := slices.ContainsFunc(PatternFolders(), func(folder string) bool { return strings.HasPrefix(path, folder+"/") })

	return stars == 0 || stars <= MaxStars && inPlace
}

// MatchName tells whether a pattern without slashes names a name: * stands for any part of it, also the empty one.
func MatchName(pattern, name string) bool { return matchName(pattern, name) }

// MatchPath tells whether a path is one that a pattern of paths, devices, read, execute or sockets names: * stands for
// any part of one name, also the empty one.
func MatchPath(pattern, path string) bool {
	wants, has := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(wants) != len(has) {
		return false
	}
	for i := range wants {
		if !matchName(wants[i], has[i]) {
			return false
		}
	}
	return true
}

func matchName(pattern, name string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	parts := strings.Split(rest, "*")
	for _, part := range parts[:len(parts)-1] {
		_, after, ok := strings.Cut(name, part)
		if !ok {
			return false
		}
		name = after
	}
	return strings.HasSuffix(name, parts[len(parts)-1])
}
