package stages

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
)

// Description is what a lock says of its detector, checked: a lock file may be old, or written by hand.
func Description(l world.Lock) (contract.Description, error) {
	var d contract.Description
	if len(l.Describe) > contract.MaxDescription*4 { // of bytes on the wire, in JSON
		return d, fmt.Errorf("it has %d bytes", len(l.Describe))
	}
	if err := json.Unmarshal(l.Describe, &d); err != nil {
		return d, fmt.Errorf("it is no description: %w", err)
	}
	if p := d.Check(); len(p) > 0 {
		return d, p[0]
	}
	return d, nil
}

// IsDetectorName says whether a detector can have that name.
func IsDetectorName(s string) bool {
	if s == "" || len(s) > contract.MaxName || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// FactsType is the type of `detectors.NAME.facts`: what the detector describes; anything, while nothing is known of it.
func FactsType(d *contract.Description) cty.Type {
	if d == nil {
		return cty.DynamicPseudoType
	}
	return objectType(d.Facts)
}

func objectType(l []contract.Attribute) cty.Type {
	m := make(map[string]cty.Type, len(l))
	for _, a := range l {
		m[a.Name] = typeOf(a.Type)
	}
	return cty.Object(m)
}

func typeOf(t contract.Type) cty.Type {
	switch t.Kind {
	case contract.String:
		return cty.String
	case contract.Number:
		return cty.Number
	case contract.Bool:
		return cty.Bool
	case contract.Object:
		return objectType(t.Attributes)
	case contract.List:
		return cty.List(typeOf(*t.Element))
	}
	return cty.Map(typeOf(*t.Element))
}

// PCI is a device in the words of the contract.
func PCI(d world.PCIDevice) contract.PCIDevice {
	p := contract.PCIDevice{Address: d.Address, Class: d.Class, NUMA: d.NUMA}
	p.Vendor, p.Device, _ = strings.Cut(d.Device, ":")
	if d.Subsystem != nil {
		p.SubsystemVendor, p.SubsystemDevice, _ = strings.Cut(*d.Subsystem, ":")
	}
	if d.Driver != nil {
		p.Driver = *d.Driver
	}
	return p
}

// MatchingDevices are those that a detector's description names, in the order of the facts, which is that of addresses.
func MatchingDevices(m contract.Match, all []world.PCIDevice) (out []world.PCIDevice) {
	for _, d := range all {
		if slices.ContainsFunc(m.PCIIDs, PCI(d).Is) {
			out = append(out, d)
		}
	}
	return out
}

// Ungranted is what of a detector's needs a site does not grant. A pattern grants what it matches, and a folder what is below.
func Ungranted(need contract.Needs, have world.Grants) contract.Needs {
	rest := func(need, have []string, below bool) (out []string) {
		for _, n := range need {
			if !slices.ContainsFunc(have, func(h string) bool { return covers(h, n, below) }) {
				out = append(out, n)
			}
		}
		return out
	}
	return contract.Needs{AnyPCIDevice: need.AnyPCIDevice && !have.AnyPCIDevice, Devices: rest(need.Devices, have.Devices, false), Read: rest(need.Read, have.Read, true), Execute: rest(need.Execute, have.Execute, true),
		Sockets: rest(need.Sockets, have.Sockets, false), Groups: rest(need.Groups, have.Groups, false)}
}

// covers matches the need as text: a star in it is a character like another, which only a star of the grant matches.
func covers(grant, need string, below bool) bool {
	if ok, _ := path.Match(grant, need); ok || grant == need {
		return true
	}
	return below && strings.HasPrefix(need, strings.TrimSuffix(grant, "/")+"/")
}

// AllowBlock is what a site writes into a detector block to grant what it grants already and the needs.
func AllowBlock(have world.Grants, need contract.Needs) string {
	missing := Ungranted(need, have)
	lists := []struct {
		name string
		list []string
	}{
		{"devices", slices.Concat(have.Devices, missing.Devices)}, {"read", slices.Concat(have.Read, missing.Read)}, {"execute", slices.Concat(have.Execute, missing.Execute)},
		{"sockets", slices.Concat(have.Sockets, missing.Sockets)}, {"groups", slices.Concat(have.Groups, missing.Groups)},
	}
	isAny := have.AnyPCIDevice || need.AnyPCIDevice
	width := 0
	if isAny {
		width = len(anyPCIDevice)
	}
	for _, l := range lists {
		if len(l.list) > 0 {
			width = max(width, len(l.name))
		}
	}
	var b strings.Builder
	b.WriteString("allow {\n")
	for _, l := range lists {
		if len(l.list) == 0 {
			continue
		}
		quoted := make([]string, len(l.list))
		for i, s := range l.list {
			quoted[i] = strconv.Quote(s)
		}
		fmt.Fprintf(&b, "  %-*s = [%s]\n", width, l.name, strings.Join(quoted, ", "))
	}
	if isAny {
		fmt.Fprintf(&b, "  %s = true\n", anyPCIDevice)
	}
	return b.String() + "}"
}

const anyPCIDevice = "any_pci_device"

// NotGranted tells that a detector was not started for want of consent: what happened, and the block to paste.
func NotGranted(d contract.Description, have world.Grants) (detail, hint string) {
	missing := Ungranted(d.Needs, have)
	if len(missing.Sockets) > 0 {
		hint += "On kernels before Landlock 9, who may connect to one socket can reach every stream socket that its user and groups may open. "
	}
	if len(missing.Devices) > 0 {
		hint += "A device also needs DeviceAllow= in a drop-in for prelet.service and prelet-apply.service, which the detector's package brings. "
	}
	hint += fmt.Sprintf("If you trust it with that, write into detector %q:\n    %s", d.Name, strings.ReplaceAll(AllowBlock(have, d.Needs), "\n", "\n    "))
	return fmt.Sprintf("Detector %q was not started: it needs what the site does not grant", d.Name), hint
}
