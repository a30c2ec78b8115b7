// Command detector reads the cards One: prelet starts it. By hand it has the commands describe, detect and package.
package main

import "github.com/prelet/prelet/plugins/sdk"

var (
	version  = "0.0.0-dev" // set when the program is linked
	wanted   = sdk.Attr[string]{Name: "firmware", Doc: "The firmware that all cards should have."}
	firmware = sdk.Fact[map[string]int]{Name: "firmware", Doc: "How many cards have which firmware."}
)

var detector = sdk.Detector{
	Name: "one", Version: version, Vendor: "Example", Doc: "The cards One: name, memory, firmware.",
	Config:  []sdk.Declaration{wanted},
	Facts:   []sdk.Declaration{firmware},
	Match:   sdk.Match{PCIIDs: []string{"1234:0001:12", "1234:0002:12"}},
	Wants:   sdk.Needs{Devices: []string{"/dev/one-*"}}, // without these the memory is unknown
	Detect:  detect,
	Package: sdk.Package{Maintainer: "Example <support@example.com>", License: "MIT", Devices: []string{"char-one"}},
}

func detect(m *sdk.Machine) error {
	count := map[string]int{}
	for _, card := range m.Devices {
		card.Kind, card.Vendor = "npu", "example"
		card.ReadName("product_name")
		card.ReadMemory("/dev/one-"+card.Address, 1<<30)
		if found := card.ReadAttribute("firmware", "firmware_version"); found != "" {
			count[found]++
		}
		m.Add(card)
	}
	m.AddFacts(firmware.Is(count, "firmware_version in sysfs"))
	if want := wanted.Of(m.Config); want != "" && count[want] < len(m.Devices) {
		m.Warn("%d of %d cards have the firmware %s", count[want], len(m.Devices), want)
	}
	return nil
}

func main() { sdk.Serve(detector) }
