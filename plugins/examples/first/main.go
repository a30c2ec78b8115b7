// Command first is a small but useful detector: it reports the firmware of cards.
package main

import (
	"context"

	"github.com/prelet/prelet/plugins/sdk"
)

type detector struct{}

var (
	wanted = sdk.Attr[string]{
		Name: "firmware",
		Doc:  "The expected firmware.",
	}
	firmware = sdk.Fact[map[string]int]{
		Name: "firmware",
		Doc:  "How many cards have which firmware.",
	}
)

func (detector) Describe() sdk.Description {
	return sdk.Description{
		Name:    "first",
		Version: "1.0.0",
		Vendor:  "Example",
		Doc:     "The cards of Example.",
		Config:  []sdk.Declaration{wanted},
		Facts:   []sdk.Declaration{firmware},
		Domains: []string{"example.com"},
		Match:   sdk.Match{PCIIDs: []string{"1234:*:12"}},
	}
}

func (detector) Detect(_ context.Context, r sdk.Request, a *sdk.Answer) error {
	want := wanted.Of(r.Config)
	found := map[string]int{}
	for _, d := range r.Devices {
		file := "/sys/bus/pci/devices/" + d.Address + "/firmware_version"
		version, err := r.Root.Text(file)
		if err != nil || want != "" && version != want {
			a.Warn("%s has firmware %q (%v)", d.Address, version, err)
		}

		found[version]++
		a.Add(sdk.Device{
			Address: d.Address,
			Kind:    new("npu"),
			Vendor:  new("example"),
			Name:    new("Example One"),
		})
	}
	a.AddFacts(firmware.Is(found, "firmware_version in sysfs"))

	return nil
}

func main() {
	sdk.Serve(detector{})
}
