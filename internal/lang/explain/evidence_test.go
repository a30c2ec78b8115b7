package explain

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/prelet/prelet/internal/world"
)

func TestEvidence(t *testing.T) {
	p := func(s string) *string { return &s }
	f := &world.Facts{
		Accelerators: []world.Accelerator{{Address: p("0000:1b:00.0"), Evidence: p("/proc/driver/nvidia/gpus/0000:1b:00.0/information")}},
		NICs:         []world.NIC{{Address: p("0000:18:00.0"), Interface: p("ib0")}, {Address: p("0000:29:00.0"), Interface: p("ens3")}, {Address: p("0000:29:00.0"), Interface: p("ens4")}},
		PCI:          []world.PCIDevice{{Address: "0000:1b:00.0"}, {Address: "0000:29:00.0"}},
		Evidence: map[string]string{
			"cpu.model": "/proc/cpuinfo", "cpu.cores": "/sys/cores", "cpu.cores[].kind": "/sys/kinds", "os": "/etc/os-release", "memory.hugepages": "/sys/pages",
			"pci[]": "/sys/{address}/uevent", "pci[0000:29:00.0]": "/sys/{address}/", "accelerators[].pcie": "/sys/{address}/*_link_*",
			"nics[].speed_gbps": "/sys/{interface}/speed", "nics[0000:18:00.0].speed_gbps": "/sys/{address}/rate", "nics[0000:29:00.0 ens4].speed_gbps": "/odd",
		},
	}
	tests := map[string]struct {
		path path
		want string
	}{
		"by its name":                     {path{named("cpu"), named("model")}, "/proc/cpuinfo"},
		"by what it is in":                {path{named("os"), named("version_id")}, "/etc/os-release"},
		"a key of a map":                  {path{named("memory"), named("hugepages"), named("2Mi")}, "/sys/pages"},
		"an element":                      {path{named("cpu"), named("cores"), numbered(7), named("kind")}, "/sys/kinds"},
		"an element, by the list":         {path{named("cpu"), named("cores"), numbered(7), named("node")}, "/sys/cores"},
		"nobody says":                     {path{named("kernel"), named("release")}, ""},
		"the name of a GPU":               {path{named("accelerators"), numbered(0), named("name")}, "/proc/driver/nvidia/gpus/0000:1b:00.0/information"},
		"what is not the name":            {path{named("accelerators"), numbered(0), named("pcie"), named("width")}, "/sys/0000:1b:00.0/*_link_*"},
		"what every PCI device has":       {path{named("accelerators"), numbered(0), named("driver")}, "/sys/0000:1b:00.0/uevent"},
		"of a device that differs":        {path{named("nics"), numbered(1), named("driver")}, "/sys/0000:29:00.0/"},
		"by the interface":                {path{named("nics"), numbered(1), named("speed_gbps")}, "/sys/ens3/speed"},
		"a card that differs":             {path{named("nics"), numbered(0), named("speed_gbps")}, "/sys/0000:18:00.0/rate"},
		"a port that differs":             {path{named("nics"), numbered(2), named("speed_gbps")}, "/odd"},
		"an element that is not there":    {path{named("nics"), numbered(9), named("speed_gbps")}, ""},
		"a list of devices as a whole":    {path{named("nics")}, ""},
		"a device as a whole":             {path{named("pci"), numbered(1)}, "/sys/0000:29:00.0/"},
		"facts of an old recording, root": {nil, ""},
	}
	for name, tt := range tests {
		if got := evidence(f, tt.path); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestEveryFactHasEvidence walks the facts of every recorded machine: whatever is known was read somewhere.
func TestEveryFactHasEvidence(t *testing.T) {
	files, _ := filepath.Glob("../../../testdata/hardware/facts/*.json")
	if len(files) < 25 {
		t.Fatalf("%d machines; they are missing", len(files))
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var f world.Facts
		var raw map[string]any
		if err := errors.Join(json.Unmarshal(data, &f), json.Unmarshal(data, &raw)); err != nil {
			t.Fatal(err)
		}
		delete(raw, "unknown") // these tell of themselves
		delete(raw, "evidence")
		missing := map[string]bool{}
		var walk func(v any, p path)
		walk = func(v any, p path) {
			switch v := v.(type) {
			case map[string]any:
				for k, x := range v {
					walk(x, p.then(named(k)))
				}
			case []any:
				for i, x := range v {
					walk(x, p.then(numbered(i)))
				}
			case nil:
			default:
				if evidence(&f, p) == "" {
					missing[p.String()] = true
				}
			}
		}
		walk(raw, nil)
		for p := range missing {
			t.Errorf("%s: nobody says where %s was read", filepath.Base(file), p)
		}
	}
}
