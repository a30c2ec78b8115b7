package hardware

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	texts "github.com/prelet/prelet/internal/lang/value"
)

func TestLookup(t *testing.T) {
	tests := []struct {
		device, subsystem, want string
	}{
		{"10de:2330", "10de:16c1", "NVIDIA H100 80GB HBM3"},
		{"10de:25b6", "10de:14a9", "NVIDIA A16"}, // one id, two products
		{"10de:25b6", "10de:157e", "NVIDIA A2"},
		{"10de:25b6", "1028:0000", ""}, // they disagree, so the name is unknown
		{"10de:25b6", "", ""},
		{"10de:2330", "1af4:1100", "NVIDIA H100 80GB HBM3"}, // subsystems only, and all agree
		{"10de:20b0", "10de:1450", "NVIDIA A100-PG509-200"},
		{"10de:20b0", "", "NVIDIA A100-SXM4-40GB"},
		{"10de:20b2", "10de:1463", "NVIDIA A100-SXM4-80GB"},
		{"10de:2342", "10de:16eb", "NVIDIA GH200 120GB"},
		{"10de:15f8", "10de:118f", "Tesla P100-PCIE-16GB"},
		{"1002:74a1", "1002:74a1", "AMD Instinct MI300X"},
		{"15b3:1015", "", "MT27710 Family [ConnectX-4 Lx]"},
		{"8086:158b", "", "Ethernet Controller XXV710 for 25GbE SFP28"},
		{"0000:0000", "", ""},
		{"ffff:ffff", "ffff:ffff", ""},
		{"", "", ""},
	}
	for _, tt := range tests {
		got, ok := lookup(t, tt.device, tt.subsystem)
		if got.name != tt.want || ok != (tt.want != "") {
			t.Errorf("name of (%q, %q) = %q, %v; want %q", tt.device, tt.subsystem, got.name, ok, tt.want)
		}
	}
}

func lookup(t testing.TB, device, subsystem string) (productName, bool) {
	t.Helper()
	names, err := database()
	if err != nil {
		t.Fatal(err)
	}
	return nameOf(names.Products[strings.Replace(device, ":", "", 1)], subsystem)
}

// eachName calls f with every device and subsystem of pci.ids and what its line says.
func eachName(f func(device, subsystem, name string)) {
	vendor, device := "", ""
	for line := range strings.Lines(string(pciIDs)) {
		id, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		name, _, _ := strings.Cut(text, "\t")
		switch {
		case strings.HasPrefix(id, "#"):
		case strings.HasPrefix(id, "\t\t"):
			f(vendor+":"+device, strings.Replace(strings.TrimSpace(id), " ", ":", 1), name)
		case strings.HasPrefix(id, "\t"):
			device = strings.TrimSpace(id)
			f(vendor+":"+device, "", name)
		default:
			vendor = id
		}
	}
}

// pcidb forgets the subsystems of the last device of a file; every line of ours must be found by its ids.
func TestEveryNameIsFound(t *testing.T) {
	count := 0
	eachName(func(device, subsystem, want string) {
		count++
		got, ok := lookup(t, device, subsystem)
		if want == unknown {
			if ok {
				t.Errorf("%s: got %q, want no name", device, got.name)
			}
			return
		}
		if !ok || got.name != want || got.subsystem != subsystem {
			t.Errorf("%s of subsystem %q: got %+v and %v, want %q", device, subsystem, got, ok, want)
		}
	})
	if count < 1800 {
		t.Errorf("got %d names, want more than 1800", count)
	}
}

// TestSourcesAreDated checks that the documented source of the names is the one written next to them.
func TestSourcesAreDated(t *testing.T) {
	data, err := os.ReadFile("pciids/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"pci.ids " + pciidsVersion, nvidiaVersion} {
		if !strings.Contains(string(data), version) {
			t.Errorf("want %q in pciids/README.md", version)
		}
	}
	for device, want := range map[string]string{"10de:20b0": "the table of NVIDIA's driver", "8086:158b": "pci.ids", "1414:00ba": "prelet's own"} {
		if e, _ := lookup(t, device, ""); !strings.Contains(e.source, want) {
			t.Errorf("%s is named by %q, want %s", device, e.source, want)
		}
	}
}

// TestNamesMakeLabels holds that every name makes a label's value that is not empty, and that no two products of one
// vendor's accelerators become one by being cut.
func TestNamesMakeLabels(t *testing.T) {
	eachName(func(device, _, name string) {
		label := texts.Slug(name)
		if label == "" || len(label) > 63 || !utf8.ValidString(name) || strings.TrimSpace(name) != name {
			t.Errorf("%s: %q makes the label %q", device, name, label)
		}
		if strings.HasPrefix(device, "10de:") && len(name) > 63 {
			t.Errorf("%s: %q: want at most the length of a label", device, name)
		}
	})
}

// TestLabelsOfGPUs compares with the labels that sites have: nvidia-smi's name in lower case, with - for spaces.
func TestLabelsOfGPUs(t *testing.T) {
	// With no subsystem; where products share an id, that decides: TestLookup.
	for device, want := range map[string]string{
		"10de:1eb8": "tesla-t4", "10de:1db1": "tesla-v100-sxm2-16gb", "10de:1db4": "tesla-v100-pcie-16gb", "10de:1db5": "tesla-v100-sxm2-32gb",
		"10de:1db6": "tesla-v100-pcie-32gb", "10de:1db8": "tesla-v100-sxm3-32gb", "10de:1df6": "tesla-v100s-pcie-32gb", "10de:15f8": "tesla-p100-pcie-16gb",
		"10de:15f9": "tesla-p100-sxm2-16gb", "10de:1b38": "tesla-p40", "10de:1bb3": "tesla-p4", "10de:20b0": "nvidia-a100-sxm4-40gb",
		"10de:20b5": "nvidia-a100-80gb-pcie", "10de:20f1": "nvidia-a100-pcie-40gb", "10de:20b7": "nvidia-a30", "10de:2235": "nvidia-a40", "10de:2236": "nvidia-a10",
		"10de:2237": "nvidia-a10g", "10de:27b8": "nvidia-l4", "10de:26b5": "nvidia-l40", "10de:26b9": "nvidia-l40s", "10de:2330": "nvidia-h100-80gb-hbm3",
		"10de:2331": "nvidia-h100-pcie", "10de:2335": "nvidia-h200", "10de:2901": "nvidia-b200", "10de:2941": "nvidia-gb200",
	} {
		if e, ok := lookup(t, device, ""); !ok || texts.Slug(e.name) != want {
			t.Errorf("%s is %q, whose label is %q; want %q", device, e.name, texts.Slug(e.name), want)
		}
	}
}
