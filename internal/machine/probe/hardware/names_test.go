package hardware

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/model/functions"
)

// products is testdata/texts/names.yaml.
type products struct {
	Names  [][3]string // device, subsystem, name
	Labels map[string]string
}

func readProducts(t *testing.T) (out products) {
	t.Helper()
	readData(t, "texts/names.yaml", &out)
	return out
}

func TestLookup(t *testing.T) {
	for _, row := range readProducts(t).Names {
		device, subsystem, want := row[0], row[1], row[2]
		got, ok := nameOf(device, subsystem)
		if got.name != want || ok != (want != "") {
			t.Errorf("name of (%q, %q) = %q, %v; want %q", device, subsystem, got.name, ok, want)
		}
	}
}

// eachName calls f with every device and subsystem of pci.ids and what its line says.
func eachName(f func(device, subsystem, name string)) {
	vendor, device := "", ""
	for line := range strings.Lines(pciIDs) {
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

// TestEveryNameIsFound checks that every line is found by its ids.
func TestEveryNameIsFound(t *testing.T) {
	count := 0
	eachName(func(device, subsystem, want string) {
		count++
		got, ok := nameOf(device, subsystem)
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
	must(t, err)
	for _, version := range []string{"pci.ids " + pciidsVersion, nvidiaVersion} {
		if !strings.Contains(string(data), version) {
			t.Errorf("want %q in pciids/README.md", version)
		}
	}
	for device, want := range map[string]string{"10de:20b0": "the table of NVIDIA's driver", "8086:158b": "pci.ids", "1414:00ba": "prelet's own"} {
		if e, _ := nameOf(device, ""); !strings.Contains(e.source, want) {
			t.Errorf("%s is named by %q, want %s", device, e.source, want)
		}
	}
}

// TestNamesMakeLabels holds that every name makes a label's value that is not empty, and that no two products of one
// vendor's accelerators become one by being cut.
func TestNamesMakeLabels(t *testing.T) {
	eachName(func(device, _, name string) {
		label := functions.Slug(name)
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
	for device, want := range readProducts(t).Labels {
		if e, ok := nameOf(device, ""); !ok || functions.Slug(e.name) != want {
			t.Errorf("%s is %q, whose label is %q; want %q", device, e.name, functions.Slug(e.name), want)
		}
	}
}
