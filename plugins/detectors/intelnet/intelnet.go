// Package intelnet is the detector of Intel's server network cards: 82599, X710, XL710, XXV710, X722, E810 and their
// kin. What they are it knows by device id; what they do it reads from sysfs. It asks nothing of the site.
package intelnet

import (
	"context"
	"fmt"
	"strconv"

	"github.com/prelet/prelet/plugins/internal/nics"
	"github.com/prelet/prelet/plugins/sdk"
)

// Detector implements sdk.Detector.
type Detector struct{ Version string }

var (
	virtual = sdk.Attr[bool]{Name: "virtual_functions", Doc: "Whether virtual functions are told as devices too.", Default: new(false)}

	families = sdk.Fact[map[string]int]{Name: "families", Doc: "How many physical functions there are of each family: { XXV710 = 2 }."}
	fastest  = sdk.Fact[float64]{Name: "fastest_gbps", Unit: "Gbit/s", Doc: "What the fastest of the cards was built for, whatever its link does now."}
)

// Domain is of the labels that are recommended.
const Domain = "network.intel.com"

// Describe implements sdk.Detector.
func (d Detector) Describe() sdk.Description {
	out := sdk.Description{
		Name: "intel-net", Version: d.Version, Vendor: "prelet",
		Doc:     "Intel's network cards of the families 82599, X710, XL710, XXV710, X722, E810 and E82x: ports, speed, SR-IOV.",
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
	byID := map[string]card{}
	for _, c := range cards() {
		byID[c.id] = c
	}
	count := map[string]int{}
	var top card
	for _, p := range r.Devices {
		c, known := byID[p.Device]
		if !known {
			continue
		}
		_, isVirtual := nics.Virtual(r.Root, p)
		if (isVirtual || c.virtual) && !virtual.Of(r.Config) {
			continue
		}
		x := nics.Card(r.Root, p)
		x.Vendor, x.Model, x.Name = new("intel"), new(c.model), new("Intel "+c.model)
		x.Evidence["model"] = "PCI device 8086:" + c.id
		x.Attributes["family"] = c.family
		if !c.virtual {
			if c.gbps > 0 {
				x.Attributes["built_for_gbps"] = strconv.Itoa(c.gbps)
			}
			count[c.family]++
			if top.id == "" || c.gbps > top.gbps {
				top = c
			}
		}
		a.Add(x)
	}
	a.Tell(families.Is(count, "PCI ids"))
	if top.id == "" {
		a.Tell(fastest.Unknown("there is no such card"))
		return nil
	}
	evidence := fmt.Sprintf("PCI device 8086:%s", top.id)
	a.Recommend(Domain+"/nic.family", sdk.LabelValue(top.family), evidence)
	if top.gbps == 0 {
		a.Tell(fastest.Unknown("8086:%s is sold with several speeds", top.id))
		return nil
	}
	a.Tell(fastest.Is(float64(top.gbps), evidence))
	a.Recommend(Domain+"/nic.speed", strconv.Itoa(top.gbps)+"G", evidence)
	return nil
}
