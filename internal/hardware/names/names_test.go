package names

import (
	"slices"
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	tests := []struct {
		device, subsystem, want string
	}{
		{"10de:2330", "10de:16c1", "NVIDIA H100 80GB HBM3"},
		{"10de:25b6", "10de:14a9", "NVIDIA A16"}, // one id, two products
		{"10de:25b6", "10de:157e", "NVIDIA A2"},
		{"10de:25b6", "1028:0000", ""}, // they disagree, so nobody knows
		{"10de:25b6", "", ""},
		{"10de:2330", "1af4:1100", "NVIDIA H100 80GB HBM3"}, // subsystems only, and all agree
		{"10de:20b0", "10de:1450", "NVIDIA A100-PG509-200"},
		{"10de:20b0", "", "NVIDIA A100-SXM4-40GB"},
		{"10de:15f8", "10de:118f", "Tesla P100-PCIE-16GB"},
		{"1002:74a1", "1002:74a1", "AMD Instinct MI300X"},
		{"15b3:1015", "", "MT27710 Family [ConnectX-4 Lx]"},
		{"8086:158b", "", "Ethernet Controller XXV710 for 25GbE SFP28"},
		{"0000:0000", "", ""},
		{"ffff:ffff", "ffff:ffff", ""},
		{"", "", ""},
	}
	for _, tt := range tests {
		got, ok := Lookup(tt.device, tt.subsystem)
		if got.Name != tt.want || ok != (tt.want != "") {
			t.Errorf("Lookup(%q, %q) = %q, %v; want %q", tt.device, tt.subsystem, got.Name, ok, tt.want)
		}
	}
}

// Every line must be found by its own key: the search by halves is easy to get wrong at the ends.
func TestLookupFindsEveryLine(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	if !slices.IsSorted(lines) {
		t.Fatal("the table is not sorted by bytes; run go generate")
	}
	for _, line := range lines {
		key, rest, _ := strings.Cut(line, "\t")
		_, name, _ := strings.Cut(rest, "\t")
		device, subsystem, _ := strings.Cut(key, " ")
		got, ok := Lookup(device, subsystem)
		if !ok || got.Name != name || got.Subsystem != subsystem {
			t.Errorf("Lookup(%q, %q) = %+v, %v; want %q", device, subsystem, got, ok, name)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	for b.Loop() {
		Lookup("10de:25b6", "10de:157e")
	}
}
