package explain

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/table"
)

func TestEvidence(t *testing.T) {
	p := func(s string) *string { return &s }
	f := &tape.Facts{
		Accelerators: []tape.Accelerator{
			{Address: p("0000:1b:00.0"), Evidence: p("/proc/driver/nvidia/gpus/0000:1b:00.0/information")},
		},
		NICs: []tape.NIC{
			{Address: p("0000:18:00.0"), Interface: p("ib0")},
			{Address: p("0000:29:00.0"), Interface: p("ens3")},
			{Address: p("0000:29:00.0"), Interface: p("ens4")},
		},
		PCI: []tape.PCIDevice{{Address: "0000:1b:00.0"}, {Address: "0000:29:00.0"}},
		Evidence: table.YAML[map[string]string](t, `
cpu.model: /proc/cpuinfo
cpu.cores: /sys/cores
'cpu.cores[].kind': /sys/kinds
os: /etc/os-release
memory.hugepages: /sys/pages
'pci[]': /sys/{address}/uevent
'pci[0000:29:00.0]': /sys/{address}/
'accelerators[].pcie': /sys/{address}/*_link_*
'nics[].speed_gbps': /sys/{interface}/speed
'nics[0000:18:00.0].speed_gbps': /sys/{address}/rate
'nics[0000:29:00.0 ens4].speed_gbps': /odd
`),
	}
	tests := table.YAML[map[string]struct {
		Path path
		Want string
	}](t, `
by its name: {path: [cpu, model], want: /proc/cpuinfo}
by what it is in: {path: [os, version_id], want: /etc/os-release}
a key of a map: {path: [memory, hugepages, 2Mi], want: /sys/pages}
an element: {path: [cpu, cores, '7', kind], want: /sys/kinds}
'an element, by the list': {path: [cpu, cores, '7', node], want: /sys/cores}
nobody says: {path: [kernel, release]}
the name of a GPU: {path: [accelerators, '0', name], want: /proc/driver/nvidia/gpus/0000:1b:00.0/information}
what is not the name: {path: [accelerators, '0', pcie, width], want: /sys/0000:1b:00.0/*_link_*}
what every PCI device has: {path: [accelerators, '0', driver], want: /sys/0000:1b:00.0/uevent}
of a device that differs: {path: [nics, '1', driver], want: /sys/0000:29:00.0/}
by the interface: {path: [nics, '1', speed_gbps], want: /sys/ens3/speed}
a card that differs: {path: [nics, '0', speed_gbps], want: /sys/0000:18:00.0/rate}
a port that differs: {path: [nics, '2', speed_gbps], want: /odd}
an element that is not there: {path: [nics, '9', speed_gbps]}
a list of devices as a whole: {path: [nics]}
a device as a whole: {path: [pci, '1'], want: /sys/0000:29:00.0/}
`)
	for name, tt := range tests {
		if got := findDevice(f, tt.Path).evidence(f, tt.Path); got != tt.Want {

			t.Errorf("%s: %q, want %q", name, got, tt.Want)
		}
	}
}

// TestEveryFactHasEvidence walks the facts of every recorded machine: whatever is known was read somewhere.
func TestEveryFactHasEvidence(t *testing.T) {
	files, _ := filepath.Glob("../../../testdata/hardware/facts/*.json")
	if len(files) < 25 {
		t.Fatalf("got %d machines, want at least 25", len(files))
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var f tape.Facts
		var raw map[string]any
		if err := errors.Join(json.Unmarshal(data, &f), json.Unmarshal(data, &raw)); err != nil {
			t.Fatal(err)
		}
		delete(raw, "unknown") // these are explained by themselves
		delete(raw, "evidence")
		missing := map[string]bool{}
		var walk func(v any, p path)
		walk = func(v any, p path) {
			switch v := v.(type) {
			case map[string]any:
				for k, x := range v {
					walk(x, p.extend(k))
				}
			case []any:
				for i, x := range v {
					walk(x, p.extend(strconv.Itoa(i)))
				}
			case nil:
			default:
				if findDevice(&f, p).evidence(&f, p) == "" {
					missing[p.String()] = true
				}
			}
		}
		walk(raw, nil)
		for p := range missing {
			t.Errorf("%s: got no evidence of %s, want the file that it was read from", filepath.Base(file), p)
		}
	}
}
