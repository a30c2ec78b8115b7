// Package mellanox is the detector of ConnectX and BlueField, network cards of NVIDIA that were Mellanox's: ports,
// speed, SR-IOV and InfiniBand, from sysfs. It needs no grant.
package mellanox

import (
	"context"
	_ "embed"
	"strconv"
	"strings"

	"github.com/prelet/prelet/plugins/internal/devices"
	"github.com/prelet/prelet/plugins/internal/nics"
	"github.com/prelet/prelet/plugins/sdk"
)

//go:embed models.txt
var modelNames string

// Detector implements sdk.Detector.
type Detector struct{ Version string }

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

// Describe implements sdk.Detector.
func (d Detector) Describe() sdk.Description {
	return sdk.Description{
		Name:    "mellanox",
		Version: d.Version,
		Vendor:  "prelet",
		Doc:     "ConnectX and BlueField: ports, speed, SR-IOV, InfiniBand, firmware.",
		Config:  []sdk.Declaration{virtual},
		Facts:   []sdk.Declaration{models, fastest, layers},
		Domains: []string{Domain},
		// Class 02 is Ethernet and InfiniBand, without the bridges, switches and crypto functions of the same boards.
		Match: sdk.Match{PCIIDs: []string{"15b3:*:02"}},
	}
}

// Detect implements sdk.Detector.
func (d Detector) Detect(_ context.Context, r sdk.Request, a *sdk.Answer) error {
	count := map[string]int{}
	seenLayers := map[string]bool{}
	var top sdk.Device
	for _, p := range r.Devices {
		_, isVirtual := devices.Virtual(r.Root, p)
		if isVirtual && !virtual.Of(r.Config) {
			continue
		}
		card := newCard(r.Root, p, isVirtual)
		a.Add(card)
		if isVirtual {
			continue
		}

		if card.Model != nil {
			count[*card.Model]++
		} else {
			a.Warn("%s: this detector does not know the model of 15b3:%s", p.Address, p.Device)
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
	a.AddFacts(
		models.Is(count, "PCI ids"),
		layers.Is(devices.SortedKeys(seenLayers), "/sys/class/infiniband"),
	)

	if top.SpeedGbps == nil {
		a.AddFacts(fastest.Unknown("no link is up with a known speed"))
		return nil
	}
	evidence := top.Evidence["speed_gbps"]
	a.AddFacts(fastest.Is(*top.SpeedGbps, evidence))
	speed := strconv.FormatFloat(*top.SpeedGbps, 'f', -1, 64)
	a.Recommend(Domain+"/nic.speed", speed+"G", evidence)
	if top.Model != nil {
		a.Recommend(Domain+"/nic.model", sdk.LabelValue(*top.Model), top.Evidence["model"])
	}

	return nil
}

func newCard(r sdk.Root, p sdk.PCIDevice, isVirtual bool) sdk.Device {
	card := nics.Card(r, p)
	card.Vendor = new("mellanox")
	model := devices.LookUp(modelNames, p.Device)
	if model == "" {
		return card
	}

	card.Model = new(model)
	card.Name = new("Mellanox " + model)
	card.Evidence["model"] = "PCI device 15b3:" + p.Device
	if strings.HasPrefix(model, "BlueField") && !isVirtual {
		card.Kind = new("dpu")
	}

	return card
}

// isFaster reports whether a card's link is up and faster than another one.
func isFaster(card, other sdk.Device) bool {
	isUp := card.Link != nil && *card.Link == "up" && card.SpeedGbps != nil
	return isUp && (other.SpeedGbps == nil || *card.SpeedGbps > *other.SpeedGbps)
}
