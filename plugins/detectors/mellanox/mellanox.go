// Package mellanox is the detector of ConnectX and BlueField, network cards of NVIDIA that were Mellanox's: ports,
// speed, SR-IOV and InfiniBand, from sysfs. It needs no grant.
package mellanox

import (
	_ "embed"
	"strconv"
	"strings"

	"github.com/prelet/prelet/plugins/internal/devices"
	"github.com/prelet/prelet/plugins/internal/nics"
	"github.com/prelet/prelet/plugins/sdk"
)

//go:embed models.txt
var modelNames string

var (
	virtual = sdk.Attr[bool]{
		Name:    "virtual_functions",
		Doc:     "Whether virtual functions are reported as devices too.",
		Default: new(false),
	}

	models = sdk.Fact[map[string]int]{
		Name: "models",
		Doc:  `How many physical functions there are of each model: { "ConnectX-6 Dx" = 2 }.`,
	}
	fastest = sdk.Fact[float64]{
		Name: "fastest_gbps",
		Unit: "Gbit/s",
		Doc:  "The speed of the fastest link that is up.",
	}
	layers = sdk.Fact[[]string]{
		Name: "link_layers",
		Doc:  "The link layers of the ports: Ethernet, InfiniBand.",
	}
)

// Domain is the domain of the recommended labels.
const Domain = "mellanox.com"

// New declares the detector of a version.
func New(version string) sdk.Detector {
	return sdk.Detector{
		Name:    "mellanox",
		Version: version,
		Vendor:  "prelet",
		Doc:     "ConnectX and BlueField: ports, speed, SR-IOV, InfiniBand, firmware.",
		Config:  []sdk.Declaration{virtual},
		Facts:   []sdk.Declaration{models, fastest, layers},
		Domains: []string{Domain},
		// Class 02 is Ethernet and InfiniBand, without the bridges, switches and crypto functions of the same boards.
		Match:  sdk.Match{PCIIDs: []string{"15b3:*:02"}},
		Detect: detect,
	}
}

func detect(m *sdk.Machine) error {
	count := map[string]int{}
	seenLayers := map[string]bool{}
	top := &sdk.Device{}
	for _, card := range m.Devices {
		isVirtual := card.PhysicalFunction() != ""
		if isVirtual && !virtual.Of(m.Config) {
			continue
		}
		readCard(m.Root, card, isVirtual)
		m.Add(card)
		if isVirtual {
			continue
		}

		if card.Model != "" {
			count[card.Model]++
		} else {
			m.Warn("%s: this detector does not know the model of 15b3:%s", card.Address, card.PCI.Device)
		}
		for k, v := range card.Attributes {
			if strings.HasSuffix(k, ".link_layer") {
				seenLayers[v] = true
			}
		}
		if isFaster(card, top) {
			top = card
		}
	}
	m.AddFacts(
		models.Is(count, "PCI ids"),
		layers.Is(devices.SortedKeys(seenLayers), "/sys/class/infiniband"),
	)

	if top.SpeedGbps == 0 {
		m.AddFacts(fastest.Unknown("no link is up with a known speed"))
		return nil
	}
	evidence := top.Evidence["speed_gbps"]
	m.AddFacts(fastest.Is(top.SpeedGbps, evidence))
	speed := strconv.FormatFloat(top.SpeedGbps, 'f', -1, 64)
	m.Recommend(Domain+"/nic.speed", speed+"G", evidence)
	m.Recommend(Domain+"/nic.model", top.Model, top.Evidence["model"])

	return nil
}

func readCard(r sdk.Root, card *sdk.Device, isVirtual bool) {
	nics.Read(r, card)
	card.Vendor = "mellanox"
	model := devices.LookUp(modelNames, card.PCI.Device)
	if model == "" {
		return
	}

	card.Model = model
	card.Name = "Mellanox " + model
	card.Evidence["model"] = "PCI device 15b3:" + card.PCI.Device
	if strings.HasPrefix(model, "BlueField") && !isVirtual {
		card.Kind = "dpu"
	}
}

// isFaster reports whether a card's link is up and faster than another one.
func isFaster(card, other *sdk.Device) bool {
	return card.Link == "up" && card.SpeedGbps > other.SpeedGbps
}
