package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/prelet/prelet/plugins/sdk"
)

// detector implements sdk.Detector.
type detector struct{ version string }

// module is a part of a card. A pointer that is nil means unknown.
type module struct {
	Card     string  `json:"card" doc:"The card's PCI address."`
	Revision *string `json:"revision" doc:"Its revision."`
	Limit    *int    `json:"limit" doc:"The temperature at which it slows down." unit:"celsius"`
}

// The configuration and the facts, declared once: types, checks, documentation and access to the values.
var (
	links = sdk.Attr[int]{
		Name:    "links",
		Doc:     "How many links of a card must be up. Fewer cause a warning.",
		Default: new(1),
		Minimum: new(0.0),
		Maximum: new(8.0),
	}

	firmware = sdk.Fact[map[string]int]{
		Name: "firmware",
		Doc:  "How many cards have which firmware.",
	}
	modules = sdk.Fact[[]module]{
		Name: "modules",
		Doc:  "The modules of all cards, by card and name.",
	}
)

const domain = "one.example.com"

// Describe implements sdk.Detector. It reads nothing, because a lock file keeps the result.
func (d detector) Describe() sdk.Description {
	return sdk.Description{
		Name:    "one",
		Version: d.version,
		Vendor:  "Example",
		Doc:     "The cards One: firmware, memory, links, modules.",
		Config:  []sdk.Declaration{links},
		Facts:   []sdk.Declaration{firmware, modules},
		Domains: []string{domain},
		// Only these cards are reported. Others would need AnyPCIDevice in Wants.
		Match: sdk.Match{PCIIDs: []string{"1234:0001:12", "1234:0002:12"}},
		// The driver's device has the size of the memory. Without the site's grant only that is unknown.
		Wants: sdk.Needs{Devices: []string{"/dev/one*"}},
	}
}

// Detect implements sdk.Detector. It reads only below r.Root, so that it works on a test's machine too.
func (d detector) Detect(_ context.Context, r sdk.Request, a *sdk.Answer) error {
	versions := map[string]int{}
	all := []module{}

	for i, p := range r.Devices {
		card := readCard(r.Root, p)
		version := card.Attributes["firmware"]
		if version != "" {
			versions[version]++
		}

		device := fmt.Sprintf("/dev/one%d", i)
		gib, err := r.Root.Int(device)
		if err == nil && gib > 0 {
			card.MemoryBytes = new(uint64(gib) << 30)
			card.Evidence["memory_bytes"] = device
		} else {
			a.Warn("%s: the size of the memory is unknown: %v", p.Address, err)
		}

		up := countLinks(r.Root, p)
		want := links.Of(r.Config)
		if up < want {
			a.Warn("%s: %d links are up, the site wants %d", p.Address, up, want)
		}

		a.Add(card)
		all = append(all, readModules(r.Root, p)...)
	}

	const evidence = "firmware_version in sysfs"
	a.AddFacts(firmware.Is(versions, evidence))
	a.AddFacts(modules.Is(all, "module* in sysfs"))

	if len(versions) == 1 {
		for version := range versions {
			label := sdk.LabelValue(version)
			a.Recommend(domain+"/firmware", label, evidence)
		}
	}

	return nil
}

// folder returns a card's folder in sysfs.
func folder(p sdk.PCIDevice) string {
	return "/sys/bus/pci/devices/" + p.Address
}

// readCard returns the device of a card. Fields that cannot be read are left out.
func readCard(r sdk.Root, p sdk.PCIDevice) sdk.Device {
	card := sdk.Device{
		Address:    p.Address,
		Kind:       new("npu"),
		Vendor:     new("example"),
		NUMA:       p.NUMA,
		Attributes: map[string]string{},
		Evidence:   map[string]string{},
	}
	if p.Driver != "" {
		card.Driver = new(p.Driver)
	}

	file := folder(p) + "/product_name"
	name, err := r.Text(file)
	if err == nil && name != "" {
		card.Name = new(name)
		card.Model = new(strings.TrimPrefix(name, "Example "))
		card.Evidence["name"] = file
	}

	file = folder(p) + "/firmware_version"
	version, err := r.Text(file)
	if err == nil && version != "" {
		card.Attributes["firmware"] = version
		card.Evidence["attributes.firmware"] = file
	}

	return card
}

// countLinks returns how many links of a card are up.
func countLinks(r sdk.Root, p sdk.PCIDevice) int {
	up := 0
	files := r.Glob(folder(p) + "/link*/state")
	for _, file := range files {
		state, _ := r.Text(file)
		if state == "up" {
			up++
		}
	}

	return up
}

func readModules(r sdk.Root, p sdk.PCIDevice) []module {
	var list []module
	folders := r.Glob(folder(p) + "/module*")
	for _, dir := range folders {
		m := module{Card: p.Address}
		revision, err := r.Text(dir + "/revision")
		if err == nil && revision != "" {
			m.Revision = new(revision)
		}
		limit, err := r.Int(dir + "/temp_limit")
		if err == nil {
			m.Limit = new(int(limit))
		}
		list = append(list, m)
	}

	return list
}
