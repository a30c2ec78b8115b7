// Package intelnet is the detector of Intel's server network cards: 82599, X710, XL710, XXV710, X722, E810 and
// similar. It knows models by device id and reads the rest from sysfs. It needs no grant.
package intelnet

import (
	"strconv"

	"github.com/prelet/prelet/plugins/internal/nics"
	"github.com/prelet/prelet/plugins/sdk"
)

var (
	virtual = sdk.Attr[bool]{
		Name:    "virtual_functions",
		Doc:     "Whether virtual functions are reported as devices too.",
		Default: new(false),
	}

	families = sdk.Fact[map[string]int]{
		Name: "families",
		Doc:  "How many physical functions there are of each family: { XXV710 = 2 }.",
	}
	fastest = sdk.Fact[float64]{
		Name: "fastest_gbps",
		Unit: "Gbit/s",
		Doc:  "The speed that the fastest card was built for, independent of its link.",
	}
)

// Domain is the domain of the recommended labels.
const Domain = "network.intel.com"

// New declares the detector of a version.
func New(version string) sdk.Detector {
	out := sdk.Detector{
		Name:    "intel-net",
		Version: version,
		Vendor:  "prelet",
		Doc: "Intel's network cards of the families 82599, X710, XL710, XXV710, X722, E810 and E82x: " +
			"ports, speed, SR-IOV.",
		Config:  []sdk.Declaration{virtual},
		Facts:   []sdk.Declaration{families, fastest},
		Domains: []string{Domain},
		Detect:  detect,
	}
	for _, c := range cards() {
		out.Match.PCIIDs = append(out.Match.PCIIDs, "8086:"+c.id)
	}

	return out
}

func detect(m *sdk.Machine) error {
	known := map[string]card{}
	for _, c := range cards() {
		known[c.id] = c
	}
	count := map[string]int{}
	var top card

	for _, d := range m.Devices {
		c := known[d.PCI.Device]
		isVirtual := c.isVirtual || d.PhysicalFunction() != ""
		isHidden := isVirtual && !virtual.Of(m.Config)
		if c.id == "" || isHidden {
			continue
		}

		readCard(m.Root, d, c)
		m.Add(d)
		if c.isVirtual {
			continue
		}
		count[c.family]++
		if top.id == "" || c.gbps > top.gbps {
			top = c
		}
	}
	m.AddFacts(families.Is(count, "PCI ids"))
	report(m, top)

	return nil
}

func readCard(r sdk.Root, d *sdk.Device, c card) {
	nics.Read(r, d)
	d.Vendor = "intel"
	d.Model = c.model
	d.Name = "Intel " + c.model
	d.Evidence["model"] = "PCI device 8086:" + c.id
	d.Attributes["family"] = c.family
	if c.gbps > 0 {
		d.Attributes["built_for_gbps"] = strconv.Itoa(c.gbps)
	}
}

// report adds facts and labels about the fastest card.
func report(m *sdk.Machine, top card) {
	if top.id == "" {
		m.AddFacts(fastest.Unknown("this machine has no such card"))
		return
	}

	evidence := "PCI device 8086:" + top.id
	m.Recommend(Domain+"/nic.family", top.family, evidence)
	if top.gbps == 0 {
		m.AddFacts(fastest.Unknown("8086:" + top.id + " exists with several speeds"))
		return
	}
	m.AddFacts(fastest.Is(float64(top.gbps), evidence))
	m.Recommend(Domain+"/nic.speed", strconv.Itoa(top.gbps)+"G", evidence)
}
