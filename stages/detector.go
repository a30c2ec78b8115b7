package stages

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/plugins/contract"
)

const anyPCIDevice = "any_pci_device"

// Description reads the description of a detector in its lock, and checks it: a lock file may be old, or edited.
func Description(l tape.LockEntry) (contract.Description, error) {
	var d contract.Description

	const most = contract.MaxDescription * 4 // JSON is longer than the description on the wire
	if len(l.Describe) > most {
		return d, fmt.Errorf("the description has %d bytes, which is too many", len(l.Describe))
	}
	if err := json.Unmarshal(l.Describe, &d); err != nil {
		return d, fmt.Errorf("the description cannot be parsed: %w", tape.ExplainJSON(err))
	}
	if problems := d.Check(); len(problems) > 0 {
		return d, problems[0]
	}

	return d, nil
}

// FactsType returns the type of `detectors.NAME.facts` as the detector describes it; any type without a description.
func FactsType(d *contract.Description) cty.Type {
	if d == nil {
		return cty.DynamicPseudoType
	}

	return objectType(d.Facts)
}

func objectType(attributes []contract.Attribute) cty.Type {
	types := make(map[string]cty.Type, len(attributes))
	for _, a := range attributes {
		types[a.Name] = typeOf(a.Type)
	}

	return cty.Object(types)
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

// PCI converts a device to the contract's form. Unknown fields are empty.
func PCI(d tape.PCIDevice) contract.PCIDevice {
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

// MatchingDevices returns the devices that a detector's description names, in the order of the facts: by address.
func MatchingDevices(m contract.Match, all []tape.PCIDevice) (out []tape.PCIDevice) {
	for _, d := range all {
		if slices.ContainsFunc(m.PCIIDs, PCI(d).Is) {
			out = append(out, d)
		}
	}

	return out
}

// Ungranted returns the needs of a detector that a site does not grant. A pattern grants the paths that it matches, and
// a directory of read or execute the paths below it.
func Ungranted(need contract.Needs, have tape.Grants) contract.Needs {
	missing := func(need, grants []string, includesBelow bool) []string {
		return slices.DeleteFunc(slices.Clone(need), func(n string) bool {
			return slices.ContainsFunc(
				grants,
				func(g string) bool {
					return isGranted(g, n, includesBelow)
				},
			)
		})
	}

	return contract.Needs{
		AnyPCIDevice: need.AnyPCIDevice && !have.AnyPCIDevice,
		Devices:      missing(need.Devices, have.Devices, false),
		Read:         missing(need.Read, have.Read, true),
		Execute:      missing(need.Execute, have.Execute, true),
		Sockets:      missing(need.Sockets, have.Sockets, false),
		Groups:       missing(need.Groups, have.Groups, false),
	}
}

// isGranted matches the need as text: a star in it is an ordinary character, which only a star of the grant matches.
func isGranted(grant, need string, includesBelow bool) bool {
	if ok, _ := path.Match(grant, need); ok || grant == need {
		return true
	}

	return includesBelow && strings.HasPrefix(need, strings.TrimSuffix(grant, "/")+"/")
}

// AllowBlock returns the block for a site that grants the needs in addition to its present grants.
func AllowBlock(have tape.Grants, need contract.Needs) string {
	missing := Ungranted(need, have)

	file := hclwrite.NewEmptyFile()
	body := file.Body().AppendNewBlock("allow", nil).Body()

	for _, l := range []struct {
		name string
		list []string
	}{
		{"devices", slices.Concat(have.Devices, missing.Devices)},
		{"read", slices.Concat(have.Read, missing.Read)},
		{"execute", slices.Concat(have.Execute, missing.Execute)},
		{"sockets", slices.Concat(have.Sockets, missing.Sockets)},
		{"groups", slices.Concat(have.Groups, missing.Groups)},
	} {
		if len(l.list) == 0 {
			continue
		}

		var values []cty.Value
		for _, s := range l.list {
			values = append(values, cty.StringVal(s))
		}
		body.SetAttributeValue(l.name, cty.TupleVal(values))
	}
	if have.AnyPCIDevice || need.AnyPCIDevice {
		body.SetAttributeValue(anyPCIDevice, cty.True)
	}

	return strings.TrimSpace(string(hclwrite.Format(file.Bytes())))
}

// NotGranted explains why a detector was not started: the missing permissions, and the block that grants them.
func NotGranted(d contract.Description, have tape.Grants) (detail, hint string) {
	missing := Ungranted(d.Needs, have)

	if len(missing.Sockets) > 0 {
		hint += "On kernels before Landlock 9, a detector that may connect " +
			"to one socket can reach every stream socket that its user and groups may open. "
	}
	if len(missing.Devices) > 0 {
		hint += "A device also needs PrivateDevices=no and DeviceAllow= in a drop-in for prelet.service and " +
			"prelet-apply.service, which the detector's package brings. "
	}

	block := strings.ReplaceAll(AllowBlock(have, d.Needs), "\n", "\n    ")
	hint += fmt.Sprintf("To grant it, write into detector %q:\n    %s", d.Name, block)

	return fmt.Sprintf(
		"Detector %q was not started: it needs what the site does not grant",
		d.Name,
	), hint
}
