package rehearsal

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/plugins/contract"
)

// TestWithoutDevices holds that a removed card leaves nothing behind: no device, no interface, no GUID, no evidence.
func TestWithoutDevices(t *testing.T) {
	address := "0000:1b:00.0"
	facts := tape.Facts{
		PCI:          []tape.PCIDevice{{Address: address}, {Address: "0000:2b:00.0"}},
		Accelerators: []tape.Accelerator{{Kind: "gpu", Address: &address}},
		NICs: []tape.NIC{{
			Address:    &address,
			Interface:  new("ib0"),
			InfiniBand: []tape.InfiniBandPort{{Device: new("mlx5_0")}},
		}},
		Interfaces: map[string]tape.Interface{"ib0": {}, "eth0": {}},
		DefaultRoute: &tape.DefaultRoutes{
			IPv4: tape.Route{Interface: new("ib0"), Gateway: new("10.0.0.1")},
			IPv6: tape.Route{Interface: new("eth0")},
		},
		GUIDs:    map[string]string{"mlx5_0": "0002:c903"},
		Unknown:  []tape.UnknownFact{{Fact: "nics[" + address + "].link"}, {Fact: "cpu.model"}},
		Evidence: map[string]string{"nics[" + address + "].link": "/sys", "nics[].link": "/sys"},
	}
	w := RemovedDevices{Addresses: []string{address, "0000:ff:00.0"}}

	was := tape.Hardware.Answer(facts)
	a := w.removeFacts(was)
	r := Source{
		Recording: tape.SourceFunc(func(context.Context, tape.Question) tape.Answer { return was }),
		Without:   w,
	}
	if got := r.ListNotFound(t.Context()); len(got) != 1 || got[0] != "0000:ff:00.0" {
		t.Errorf("got not found %q, want 0000:ff:00.0", got)
	}
	var got tape.Facts
	if err := json.Unmarshal(a.Value, &got); err != nil {
		t.Fatal(err)
	}
	if r := got.DefaultRoute; r.IPv4 != (tape.Route{}) || r.IPv6.Interface == nil {
		t.Errorf("default routes: got %v, want none through ib0, and the one through eth0", *r)
	}
	left := map[string]int{
		"pci":          len(got.PCI),
		"accelerators": len(got.Accelerators),
		"nics":         len(got.NICs),
		"interfaces":   len(got.Interfaces),
		"guids":        len(got.GUIDs),
		"unknown":      len(got.Unknown),
		"evidence":     len(got.Evidence),
	}
	for name, want := range map[string]int{"pci": 1, "interfaces": 1, "unknown": 1, "evidence": 1} {
		if left[name] != want {
			t.Errorf("%s: got %d left, want %d", name, left[name], want)
		}
		delete(left, name)
	}
	for name, n := range left {
		if n != 0 {
			t.Errorf("%s: got %d left, want none", name, n)
		}
	}
}

// TestWithoutRecordedDevice holds that a recording's reply of a detector is found although the question has changed,
// and lacks the device.
func TestWithoutRecordedDevice(t *testing.T) {
	gone := tape.PCIDevice{Address: "0000:1b:00.0"}
	stays := tape.PCIDevice{Address: "0000:2b:00.0"}
	reply := tape.DetectorAns{Devices: []contract.Device{{Address: gone.Address}, {Address: stays.Address}}}
	w := RemovedDevices{
		Addresses: []string{gone.Address},
		Recorded: []tape.Entry{{
			Question: tape.Detector.Question(tape.DetectorReq{
				Name:    "nvidia",
				Devices: []tape.PCIDevice{gone, stays},
			}),
			Answer: tape.Detector.Answer(reply),
		}},
	}

	a := w.removeReported(
		tape.DetectorReq{Name: "nvidia", Devices: []tape.PCIDevice{stays}},
		tape.Failure("unread", "never asked", ""),
	)
	var got tape.DetectorAns
	if a.Fault != nil || json.Unmarshal(a.Value, &got) != nil {
		t.Fatalf("got fault %v, want the recorded reply", a.Fault)
	}
	if len(got.Devices) != 1 || got.Devices[0].Address != stays.Address {
		t.Errorf("got devices %+v, want only %s", got.Devices, stays.Address)
	}
}
