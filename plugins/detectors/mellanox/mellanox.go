// Package mellanox is the detector of ConnectX and BlueField, the network cards that were Mellanox's and are NVIDIA's:
// ports, speed, SR-IOV and InfiniBand, from sysfs. It asks nothing of the site.
package mellanox

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/plugins/internal/nics"
	"github.com/prelet/prelet/plugins/sdk"
)

// Detector implements sdk.Detector.
type Detector struct{ Version string }

var (
	virtual = sdk.Attr[bool]{Name: "virtual_functions", Doc: "Whether virtual functions are told as devices too.", Default: new(false)}

	models  = sdk.Fact[map[string]int]{Name: "models", Doc: "How many physical functions there are of each model: { \"ConnectX-6 Dx\" = 2 }."}
	fastest = sdk.Fact[float64]{Name: "fastest_gbps", Unit: "Gbit/s", Doc: "The speed of the fastest link that is up."}
	layers  = sdk.Fact[[]string]{Name: "link_layers", Doc: "What the ports speak: Ethernet, InfiniBand."}
)

// Domain is of the labels that are recommended.
const Domain = "mellanox.com"

// Describe implements sdk.Detector.
func (d Detector) Describe() sdk.Description {
	return sdk.Description{
		Name: "mellanox", Version: d.Version, Vendor: "prelet",
		Doc:     "ConnectX and BlueField: ports, speed, SR-IOV, InfiniBand, firmware.",
		Config:  []sdk.Declaration{virtual},
		Facts:   []sdk.Declaration{models, fastest, layers},
		Domains: []string{Domain},
		// 02: Ethernet and InfiniBand. Not the bridges, switches and crypto parts of the same boards.
		Match: sdk.Match{PCIIDs: []string{"15b3:*:02"}},
	}
}

// Detect implements sdk.Detector.
func (d Detector) Detect(_ context.Context, r sdk.Request, a *sdk.Answer) error {
	count, spoken := map[string]int{}, map[string]bool{}
	var top sdk.Device
	for _, p := range r.Devices {
		_, isVirtual := nics.Virtual(r.Root, p)
		if isVirtual && !virtual.Of(r.Config) {
			continue
		}
		x := nics.Card(r.Root, p)
		x.Vendor = new("mellanox")
		model := modelOf(p.Device)
		if model != "" {
			x.Model, x.Name = new(model), new("Mellanox "+model)
			x.Evidence["model"] = "PCI device 15b3:" + p.Device
		}
		if strings.HasPrefix(model, "BlueField") && !isVirtual {
			x.Kind = new("dpu")
		}
		if !isVirtual {
			if model == "" {
				a.Warn("%s: 15b3:%s is newer than this detector, and has no name here", p.Address, p.Device)
			} else {
				count[model]++
			}
			for k, v := range x.Attributes {
				if strings.HasSuffix(k, ".link_layer") {
					spoken[v] = true
				}
			}
			if x.Link != nil && *x.Link == "up" && x.SpeedGbps != nil && (top.SpeedGbps == nil || *x.SpeedGbps > *top.SpeedGbps) {
				top = x
			}
		}
		a.Add(x)
	}
	a.Tell(models.Is(count, "PCI ids"), layers.Is(sorted(spoken), "/sys/class/infiniband"))
	if top.SpeedGbps == nil {
		a.Tell(fastest.Unknown("no link is up, or none tells its speed"))
		return nil
	}
	evidence := top.Evidence["speed_gbps"]
	a.Tell(fastest.Is(*top.SpeedGbps, evidence))
	a.Recommend(Domain+"/nic.speed", strconv.FormatFloat(*top.SpeedGbps, 'f', -1, 64)+"G", evidence)
	if top.Model != nil {
		a.Recommend(Domain+"/nic.model", sdk.LabelValue(*top.Model), top.Evidence["model"])
	}
	return nil
}

func sorted(set map[string]bool) []string {
	out := []string{} // an empty list is known to be empty
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// modelOf returns the name of a device id, or nothing. Ids are of the PCI ID database of 2026-10-24.
func modelOf(device string) string {
	return map[string]string{
		"1003": "ConnectX-3", "1004": "ConnectX-3 Virtual Function", "1007": "ConnectX-3 Pro",
		"1011": "Connect-IB", "1012": "Connect-IB Virtual Function",
		"1013": "ConnectX-4", "1014": "ConnectX-4 Virtual Function",
		"1015": "ConnectX-4 Lx", "1016": "ConnectX-4 Lx Virtual Function",
		"1017": "ConnectX-5", "1018": "ConnectX-5 Virtual Function",
		"1019": "ConnectX-5 Ex", "101a": "ConnectX-5 Ex Virtual Function",
		"101b": "ConnectX-6", "101c": "ConnectX-6 Virtual Function",
		"101d": "ConnectX-6 Dx", "101e": "ConnectX Virtual Function", "101f": "ConnectX-6 Lx",
		"1021": "ConnectX-7", "1023": "ConnectX-8", "1025": "ConnectX-9",
		"a2d2": "BlueField", "a2d3": "BlueField Virtual Function", "a2d6": "BlueField-2",
		"a2d9": "BlueField-3 Lx", "a2dc": "BlueField-3", "a2df": "BlueField-4",
	}[device]
}
