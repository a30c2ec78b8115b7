package explain

import (
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/world"
)

// device is a detected device that a path of the facts leads into. The zero value is none.
type device struct {
	address, port string // of a disk: its name; port is the interface of a network card
	isDisk        bool
}

// String returns the device in words; "" for none.
func (d device) String() string {
	address := prefixed("PCI ", d.address)
	if d.isDisk {
		address = d.address
	}

	return join(address, prefixed("interface ", d.port))
}

// names returns the names under which facts list a field of the device, the most specific one first.
func (d device) names(list, field string) []string {
	if d.address == "" {
		return []string{list + field}
	}

	return []string{
		list + "[" + d.address + " " + d.port + "]" + field,
		list + "[" + d.address + "]" + field,
		list + "[]" + field,
	}
}

// factPath returns the path in the answer of a path in the outputs of detect-hw: gpus are accelerators there.
func factPath(f *world.Facts, p path) path {
	if p[0] != "gpus" {
		return p
	}

	p = path{"accelerators"}.extend(p[1:]...)
	if len(p) == 1 {
		return p
	}
	n, _ := strconv.Atoi(p[1])
	for i, a := range f.Accelerators {
		if a.Kind != "gpu" {
			continue
		}
		if n == 0 {
			p[1] = strconv.Itoa(i)
			break
		}
		n--
	}

	return p
}

// findDevice returns the device that a path leads into.
func findDevice(f *world.Facts, p path) device {
	if len(p) < 2 {
		return device{}
	}
	n, err := strconv.Atoi(p[1])
	if err != nil {
		return device{}
	}

	switch list := p[0]; {
	case list == "accelerators" && n < len(f.Accelerators):
		return device{address: stringOrEmpty(f.Accelerators[n].Address)}
	case list == "nics" && n < len(f.NICs):
		return device{
			address: stringOrEmpty(f.NICs[n].Address),
			port:    stringOrEmpty(f.NICs[n].Interface),
		}
	case list == "pci" && n < len(f.PCI):
		return device{address: f.PCI[n].Address}
	case list == "block_devices" && n < len(f.BlockDevices):
		return device{address: f.BlockDevices[n].Name, isDisk: true}
	}

	return device{}
}

func stringOrEmpty(s *string) string {
	if s == nil {
		return ""
	}

	return *s
}

// describeEvidence returns the file that a fact was read from, or why it is unknown; "" if the facts do not contain it.
func describeEvidence(f *world.Facts, p path, d device) string {
	rest := p[1:]
	if d.address != "" {
		rest = p[2:]
	}
	for _, u := range f.Unknown {
		for _, name := range d.names(p[0], rest.String()) {
			isOfLink := strings.HasSuffix(u.Fact, ".pcie") && strings.HasPrefix(name, u.Fact+".")
			if u.Fact == name || isOfLink {
				return "unknown: " + u.Why
			}
		}
	}

	return prefixed("read from ", evidence(f, p))
}

// evidence returns the file that a fact was read from; "" for facts of old recordings, counts and lists.
func evidence(f *world.Facts, p path) string {
	d := device{}
	if len(p) > 0 {
		d = findDevice(f, p)
	}
	if len(p) == 0 || isUnaddressed(p, d) {
		return ""
	}

	rest := p[1:]
	lists := []string{p[0]}
	if d.address != "" {
		rest = p[2:]
		lists = append(lists, "pci") // every device on the bus: ids, driver, NUMA node
	}
	exact := f.Evidence[p[0]+"["+d.address+"]"+rest.String()]
	if strings.HasPrefix(exact, "detector ") {
		return exact
	}
	if file := identityEvidence(f, p); file != "" {
		return file
	}

	for _, list := range lists {
		if file := d.evidence(f, list, rest); file != "" {
			return file
		}
	}

	return ""
}

// isUnaddressed reports whether a path leads into an element of a list of devices that has no address.
func isUnaddressed(p path, d device) bool {
	isDevices := slices.Contains([]string{"accelerators", "nics", "pci"}, p[0])

	return isDevices && len(p) > 1 && isIndex(p[1]) && d.address == ""
}

// evidence returns the file of the longest part of a path for which facts name one.
func (d device) evidence(f *world.Facts, list string, rest path) string {
	placeholders := strings.NewReplacer("{address}", d.address, "{interface}", d.port)
	for n := len(rest); n >= 0; n-- {
		for _, name := range d.names(list, fieldName(rest[:n])) {
			if file := f.Evidence[name]; file != "" {
				return placeholders.Replace(file)
			}
		}
	}

	return ""
}

// fieldName returns a path as the names of facts have it: an element of a list is [].
func fieldName(p path) string {
	name := ""
	for _, key := range p {
		if isIndex(key) {
			name += "[]"
		} else {
			name += "." + key
		}
	}

	return name
}

// identityEvidence returns the file that the name, the model or the kind of an accelerator was read from.
func identityEvidence(f *world.Facts, p path) string {
	fields := []string{"name", "model", "kind"}
	isIdentity := len(p) > 2 && slices.Contains(fields, p[2])
	if p[0] != "accelerators" || !isIdentity {
		return ""
	}
	n, err := strconv.Atoi(p[1])
	if err != nil || n >= len(f.Accelerators) {
		return ""
	}

	return stringOrEmpty(f.Accelerators[n].Evidence)
}
