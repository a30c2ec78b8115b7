package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// entry is how a device, or a device of one subsystem, is called, and by which source: n is NVIDIA's table, o our own, p
// pci.ids.
type entry struct{ name, source string }

// generate joins NVIDIA's rows (device, subvendor, subdevice, name), our own (vendor:device, name, why it is so) and those
// of pci.ids to one pci.ids, in which a name is followed by a tab and its source. The sources come in this order: a device
// that an earlier one names, pci.ids does not name again. A key may be in each once.
func generate(nvidia, own, pciids string, rules []rule) (string, error) {
	byKey, named, vendors := map[string]entry{}, map[string]bool{}, map[string]string{}
	add := func(key, source, name string) error {
		key = strings.ToLower(key)
		if _, twice := byKey[key]; twice {
			return fmt.Errorf("%s stands twice", key)
		}
		byKey[key] = entry{name, source}
		named[key[:len("10de:2330")]] = true
		return nil
	}
	for line := range strings.Lines(nvidia) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 || len(f[0]) != 4 || f[3] == "" || (f[1] == "") != (f[2] == "") {
			return "", fmt.Errorf("NVIDIA's table: %q", line)
		}
		key := "10de:" + f[0]
		if f[1] != "" {
			key += " " + f[1] + ":" + f[2]
		}
		if err := add(key, "n", f[3]); err != nil {
			return "", err
		}
	}
	for line := range strings.Lines(own) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 3 || len(f[0]) != len("10de:2330") || f[1] == "" || f[2] == "" {
			return "", fmt.Errorf("our table: %q: want a device, its name and why", line)
		}
		if err := add(f[0], "o", f[1]); err != nil {
			return "", err
		}
	}
	var err error
	devices(pciids, func(_, vendor, device, text string) {
		if device == "" {
			vendors[vendor] = text
		}
		if device == "" || err != nil || named[vendor+":"+device] {
			return
		}
		chosen, ok := name(rules, vendor, text)
		if !ok {
			err = fmt.Errorf("pci.ids: no rule chooses %s:%s %q; take it anew with -pciids", vendor, device, text)
			return
		}
		err = add(vendor+":"+device, "p", chosen)
	})
	if err != nil {
		return "", err
	}
	return format(byKey, vendors), nil
}

// format writes a pci.ids of entries by "vendor:device" and "vendor:device subvendor:subdevice".
func format(byKey map[string]entry, vendors map[string]string) string {
	var text strings.Builder
	text.WriteString("#\n#\tMade by make pcinames; the sources, their versions and licences are in internal/hardware/pciids/source.\n#\n")
	keys := slices.Sorted(maps.Keys(byKey))
	lastVendor, lastDevice := "", ""
	for i, key := range keys {
		device, subsystem, _ := strings.Cut(key, " ")
		vendor, id, _ := strings.Cut(device, ":")
		if vendor != lastVendor {
			fmt.Fprintf(&text, "%s  %s\n", vendor, cmp.Or(vendors[vendor], "unknown"))
			lastVendor = vendor
		}
		if device != lastDevice {
			name := byKey[key]
			if subsystem != "" {
				name = common(byKey, keys[i:], device)
			}
			fmt.Fprintf(&text, "\t%s  %s\t%s\n", id, name.name, name.source)
			lastDevice = device
		}
		if subsystem != "" {
			fmt.Fprintf(&text, "\t\t%s  %s\t%s\n", strings.Replace(subsystem, ":", " ", 1), byKey[key].name, byKey[key].source)
		}
	}
	return text.String()
}

// common is what all subsystems of a device are called: a board maker's, a hypervisor's is then called so too. Where they
// differ it is "unknown", which is ghw's word.
func common(byKey map[string]entry, keys []string, device string) entry {
	for _, key := range keys {
		if !strings.HasPrefix(key, device) {
			break
		}
		if byKey[key] != byKey[keys[0]] {
			return entry{"unknown", byKey[key].source}
		}
	}
	return byKey[keys[0]]
}
