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
	facts := world.Facts{
		PCI:          []world.PCIDevice{{Address: address}, {Address: "0000:2b:00.0"}},
		Accelerators: []world.Accelerator{{Kind: "gpu", Address: &address}},
		NICs: []world.NIC{{
			Address:    &address,
			Interface:  new("ib0"),
			InfiniBand: []world.InfiniBandPort{{Device: new("mlx5_0")}},
		}},
		Interfaces: map[string]world.Interface{"ib0": {}, "eth0": {}},
		DefaultRoute: &world.DefaultRoutes{
			IPv4: world.Route{Interface: new("ib0"), Gateway: new("10.0.0.1")},
			IPv6: world.Route{Interface: new("eth0")},
		},
		GUIDs:    map[string]string{"mlx5_0": "0002:c903"},
		Unknown:  []world.UnknownFact{{Fact: "nics[" + address + "].link"}, {Fact: "cpu.model"}},
		Evidence: map[string]string{"nics[" + address + "].link": "/sys", "nics[].link": "/sys"},
	}
	w := RemovedDevices{Addresses: []string{address, "0000:ff:00.0"}}

	was := world.Hardware.Answer(facts)
	a := w.removeFacts(was)
	r := Source{
		Recording: world.SourceFunc(func(context.Context, world.Question) world.Answer { return was }),
		Without:   w,
	}
	if got := r.ListNotFound(t.Context()); len(got) != 1 || got[0] != "0000:ff:00.0" {
		t.Errorf("got not found %q, want 0000:ff:00.0", got)
	}
	var got world.Facts
	if err := json.Unmarshal(a.Value, &got); err != nil {
		t.Fatal(err)
	}
	if r := got.DefaultRoute; r.IPv4 != (world.Route{}) || r.IPv6.Interface == nil {
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
	gone := world.PCIDevice{Address: "0000:1b:00.0"}
	stays := world.PCIDevice{Address: "0000:2b:00.0"}
	reply := world.DetectorAns{Devices: []contract.Device{{Address: gone.Address}, {Address: stays.Address}}}
	w := RemovedDevices{
		Addresses: []string{gone.Address},
		Recorded: []world.Entry{{
			Question: world.Detector.Question(world.DetectorReq{
				Name:    "nvidia",
				Devices: []world.PCIDevice{gone, stays},
			}),
			Answer: world.Detector.Answer(reply),
		}},
	}

	a := w.removeReported(
		world.DetectorReq{Name: "nvidia", Devices: []world.PCIDevice{stays}},
		world.Failure("unread", "never asked", ""),
	)
	var got world.DetectorAns
	if a.Fault != nil || json.Unmarshal(a.Value, &got) != nil {
		t.Fatalf("got fault %v, want the recorded reply", a.Fault)
	}
	if len(got.Devices) != 1 || got.Devices[0].Address != stays.Address {
		t.Errorf("got devices %+v, want only %s", got.Devices, stays.Address)
	}
}
