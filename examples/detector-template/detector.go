package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/prelet/prelet/plugins/sdk"
)

// detector implements sdk.Detector.
type detector struct{ version string }

// module is a part of a card. A pointer that is nil is unknown.
type module struct {
	Card     string  `json:"card" doc:"The card's PCI address."`
	Revision *string `json:"revision" doc:"Its revision."`
	Limit    *int    `json:"limit" doc:"Where it slows down." unit:"celsius"`
}

// What a site may configure, and what the detector tells: declared once. The schema, its checks, its documentation and
// the access to values come from here.
var (
	links    = sdk.Attr[int]{Name: "links", Doc: "How many links a card must have up; fewer is warned of.", Default: new(1), Minimum: new(0.0), Maximum: new(8.0)}
	firmware = sdk.Fact[map[string]int]{Name: "firmware", Doc: "How many cards have which firmware."}
	modules  = sdk.Fact[[]module]{Name: "modules", Doc: "The modules of all cards, by card and name."}
)

const domain = "one.example.com"

// Describe implements sdk.Detector. It looks at nothing: the answer is kept in a lock file.
func (d detector) Describe() sdk.Description {
	return sdk.Description{
		Name: "one", Version: d.version, Vendor: "Example", Doc: "The cards One: firmware, memory, links, modules.",
		Config:  []sdk.Declaration{links},
		Facts:   []sdk.Declaration{firmware, modules},
		Domains: []string{domain},
		// It tells of these cards and of no others; for others there is AnyPCIDevice in Wants.
		Match: sdk.Match{PCIIDs: []string{"1234:0001:12", "1234:0002:12"}},
		// The driver's device tells how much memory there is. Without the site's grant the rest is told.
		Wants: sdk.Needs{Devices: []string{"/dev/one*"}},
	}
}

// Detect implements sdk.Detector. All that it reads is below r.Root, so that it runs on a test's machine too.
func (d detector) Detect(_ context.Context, r sdk.Request, a *sdk.Answer) error {
	versions, all := map[string]int{}, []module{}
	for i, p := range r.Devices {
		dir := "/sys/bus/pci/devices/" + p.Address
		x := sdk.Device{Address: p.Address, Kind: new("npu"), Vendor: new("example"), NUMA: p.NUMA, Attributes: map[string]string{}, Evidence: map[string]string{}}
		if p.Driver != "" {
			x.Driver = new(p.Driver)
		}
		if name, err := r.Root.Text(dir + "/product_name"); err == nil && name != "" {
			x.Name, x.Model = new(name), new(strings.TrimPrefix(name, "Example "))
			x.Evidence["name"] = dir + "/product_name"
		}
		if v, err := r.Root.Text(dir + "/firmware_version"); err == nil && v != "" {
			versions[v]++
			x.Attributes["firmware"], x.Evidence["attributes.firmware"] = v, dir+"/firmware_version"
		}
		up := 0
		for _, state := range r.Root.Glob(dir + "/link*/state") {
			if s, _ := r.Root.Text(state); s == "up" {
				up++
			}
		}
		if want := links.Of(r.Config); up < want {
			a.Warn("%s: %d links are up, and the site wants %d", p.Address, up, want)
		}
		device := fmt.Sprintf("/dev/one%d", i)
		if gib, err := r.Root.Int(device); err == nil && gib > 0 {
			x.MemoryBytes, x.Evidence["memory_bytes"] = new(uint64(gib)<<30), device
		} else {
			a.Warn("%s: memory is unknown: %v", p.Address, err)
		}
		a.Add(x)
		all = append(all, modulesOf(r.Root, p.Address)...)
	}
	a.Tell(firmware.Is(versions, "firmware_version in sysfs"), modules.Is(all, "module* in sysfs"))
	if len(versions) == 1 {
		for v := range versions {
			a.Recommend(domain+"/firmware", sdk.LabelValue(v), "firmware_version in sysfs")
		}
	}
	return nil
}

func modulesOf(r sdk.Root, card string) (out []module) {
	for _, dir := range r.Glob("/sys/bus/pci/devices/" + card + "/module*") {
		m := module{Card: card}
		if s, err := r.Text(dir + "/revision"); err == nil && s != "" {
			m.Revision = new(s)
		}
		if n, err := r.Int(dir + "/temp_limit"); err == nil {
			m.Limit = new(int(n))
		}
		out = append(out, m)
	}
	return out
}
