// Package intelnet is the detector of Intel's server network cards: 82599, X710, XL710, XXV710, X722, E810 and
// similar. It knows models by device id and reads the rest from sysfs. It needs no grant.
package intelnet

import (
	"context"
	"strconv"

	"github.com/prelet/prelet/plugins/internal/devices"
	"github.com/prelet/prelet/plugins/internal/nics"
	"github.com/prelet/prelet/plugins/sdk"
)

// Detector implements sdk.Detector.
type Detector struct{ Version string }

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

// Describe implements sdk.Detector.
func (d Detector) Describe() sdk.Description {
	out := sdk.Description{
		Name:    "intel-net",
		Version: d.Version,
		Vendor:  "prelet",
		Doc: "Intel's network cards of the families 82599, X710, XL710, XXV710, X722, E810 and E82x: " +
			"ports, speed, SR-IOV.",
		Config:  []sdk.Declaration{virtual},
		Facts:   []sdk.Declaration{families, fastest},
		Domains: []string{Domain},
	}
	for _, c := range cards() {
		out.Match.PCIIDs = append(out.Match.PCIIDs, "8086:"+c.id)
	}

	return out
}

// Detect implements sdk.Detector.
func (d Detector) Detect(_ context.Context, r sdk.Request, a *sdk.Answer) error {
	known := map[string]card{}
	for _, c := range cards() {
		known[c.id] = c
	}
	count := map[string]int{}
	var top card

	for _, p := range r.Devices {
		c := known[p.Device]
		_, isVirtual := devices.Virtual(r.Root, p)
		isHidden := (isVirtual || c.isVirtual) && !virtual.Of(r.Config)
		if c.id == "" || isHidden {
			continue
		}

		a.Add(newCard(r.Root, p, c))
		if c.isVirtual {
			continue
		}
		count[c.family]++
		if top.id == "" || c.gbps > top.gbps {
			top = c
		}
	}
	a.AddFacts(families.Is(count, "PCI ids"))
	report(a, top)

	return nil
}

func newCard(r sdk.Root, p sdk.PCIDevice, c card) sdk.Device {
	x := nics.Card(r, p)
	x.Vendor = new("intel")
	x.Model = new(c.model)
	x.Name = new("Intel " + c.model)
	x.Evidence["model"] = "PCI device 8086:" + c.id
	x.Attributes["family"] = c.family
	if c.gbps > 0 {
		x.Attributes["built_for_gbps"] = strconv.Itoa(c.gbps)
	}

	return x
}

// report adds facts and labels about the fastest card.
func report(a *sdk.Answer, top card) {
	if top.id == "" {
		a.AddFacts(fastest.Unknown("this machine has no such card"))
		return
	}

	evidence := "PCI device 8086:" + top.id
	a.Recommend(Domain+"/nic.family", sdk.LabelValue(top.family), evidence)
	if top.gbps == 0 {
		a.AddFacts(fastest.Unknown("8086:%s exists with several speeds", top.id))
		return
	}
	a.AddFacts(fastest.Is(float64(top.gbps), evidence))
	a.Recommend(Domain+"/nic.speed", strconv.Itoa(top.gbps)+"G", evidence)
}
