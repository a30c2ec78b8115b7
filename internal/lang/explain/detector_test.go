package explain

import (
	"testing"

	"github.com/prelet/prelet/internal/world"
)

// A field of a device that a detector said comes from that detector, and the others from where they were read.
func TestToldBy(t *testing.T) {
	address, name := "0000:1b:00.0", "x"
	f := &world.Facts{Accelerators: []world.Accelerator{{Address: &address, Name: &name}}, NICs: []world.NIC{{Address: &address}},
		Evidence: map[string]string{"accelerators[0000:1b:00.0].memory_gib": "detector nvidia: nvml", "accelerators[0000:1b:00.0].sriov.num_vfs": "detector nvidia",
			"accelerators[].driver": "/sys/{address}/uevent", "nics[0000:1b:00.0].link": "/sys/x"}}
	at := func(list string, fields ...string) path {
		p := path{named(list), numbered(0)}
		for _, s := range fields {
			p = append(p, named(s))
		}
		return p
	}
	for _, test := range []struct {
		at        path
		who, from string
	}{
		{at("accelerators", "memory_gib"), "nvidia", "detector nvidia: nvml"},
		{at("accelerators", "sriov", "num_vfs"), "nvidia", "detector nvidia"},
		{at("accelerators", "driver"), "", "/sys/0000:1b:00.0/uevent"},
		{at("nics", "link"), "", "/sys/x"},
		{path{named("cpu"), named("model")}, "", ""},
	} {
		if who, _ := toldBy(f, test.at); who != test.who || evidence(f, test.at) != test.from {
			t.Errorf("%s: %q, %q", test.at, who, evidence(f, test.at))
		}
	}
}
