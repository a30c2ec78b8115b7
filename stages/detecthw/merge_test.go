package detecthw

import (
	"testing"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/plugins/contract"
)

// TestMergeIntoFirstPort checks that a report about a card with several ports, which have one address, is about the
// first, and that a new device is inserted in the order of addresses.
func TestMergeIntoFirstPort(t *testing.T) {
	facts := &tape.Facts{
		PCI: []tape.PCIDevice{{Address: "0000:01:00.0"}, {Address: "0000:00:02.0"}},
		NICs: []tape.NIC{
			{Address: new("0000:01:00.0"), Interface: new("port0")},
			{Address: new("0000:01:00.0"), Interface: new("port1")},
			{Interface: new("virtual")},
		},
	}
	d := &detection{}
	d.ans.Devices = []contract.Device{
		{Address: "0000:01:00.0", Model: new("two ports")},
		{Address: "0000:00:02.0", Kind: new(kindNIC), Interface: new("first")},
	}

	merge(facts, []*detection{d})

	if got := facts.NICs[0].Interface; len(facts.NICs) != 4 || *got != "first" {
		t.Fatalf("got %d NICs, the first is %q; want 4 in the order of addresses", len(facts.NICs), *got)
	}
	if facts.NICs[1].Model == nil || facts.NICs[2].Model != nil {
		t.Errorf("got models %v and %v, want that of the first port only", facts.NICs[1].Model, facts.NICs[2].Model)
	}
}
