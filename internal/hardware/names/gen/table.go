package main

import (
	"fmt"
	"slices"
	"strings"
)

// generate joins NVIDIA's rows (device, subvendor, subdevice, name), our own (vendor:device, name, why it is so) and those
// of pci.ids to sorted lines "vendor:device[ subvendor:subdevice]\tsource\tname". The sources come in this order: a device
// that an earlier one names, pci.ids does not name again. A key may stand once in each.
func generate(nvidia, own, pciids string, rules []rule) (string, error) {
	byKey, named := map[string]string{}, map[string]bool{}
	add := func(key, source, name string) error {
		key = strings.ToLower(key)
		if _, twice := byKey[key]; twice {
			return fmt.Errorf("%s stands twice", key)
		}
		byKey[key] = source + "\t" + name
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
	lines := make([]string, 0, len(byKey))
	for key, rest := range byKey {
		lines = append(lines, key+"\t"+rest+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, ""), nil
}
