package printer

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/model/tape"
)

// TestFacts compares texts of facts with testdata/facts.txtar.
func TestFacts(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/facts.txtar")
	if err != nil || len(archive.Files) < 14 {
		t.Fatalf("testdata/facts.txtar: got %d files and %v, want at least 14", len(archive.Files), err)
	}
	for i := 0; i < len(archive.Files); i += 2 {
		var f tape.Facts
		must(t, json.Unmarshal(archive.Files[i].Data, &f))
		want, write, width := archive.Files[i+1], FactsText, 80
		if strings.HasSuffix(want.Name, ".topology") {
			write, width = TopologyText, 60
		}
		var got bytes.Buffer
		err := write(&got, f, Style{Width: width})
		if d := cmp.Diff(string(want.Data), got.String()); err != nil || d != "" {
			t.Errorf("%s: got %v, and (-want +got)\n%s", want.Name, err, d)
		}
	}
}

// TestEveryReasonIsPrinted checks that the facts of each recorded machine are printed with each reason.
func TestEveryReasonIsPrinted(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/hardware/facts/*.json")
	if err != nil || len(files) < 30 {
		t.Fatalf("got %d machines and %v, want at least 30", len(files), err)
	}
	oneLine := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	for _, file := range files {
		raw, err := os.ReadFile(file)
		must(t, err)
		var f tape.Facts
		var text bytes.Buffer
		must(t, errors.Join(json.Unmarshal(raw, &f), FactsText(&text, f, Style{Width: 80})))
		for _, u := range f.Unknown {
			alike := oneLine(withoutDevices(u).Why) // as it is printed of many devices
			if got := oneLine(text.String()); !strings.Contains(got, oneLine(u.Why)) && !strings.Contains(got, alike) {
				t.Errorf("%s: got no reason of %s, want %q", filepath.Base(file), u.Fact, u.Why)
			}
		}
	}
}

// Whatever a machine has, nothing is wider than the screen.
func TestFactsFitTheScreen(t *testing.T) {
	long := strings.Repeat("very long ", 20)
	f := tape.Facts{
		Product: tape.Product{Name: &long},
		OS:      tape.OS{Name: &long},
		CPU:     tape.CPU{Model: &long, Offline: []int{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23}},
	}
	n, kind, state := 127, "down", "init"
	for range 5 {
		f.NICs = append(
			f.NICs,
			tape.NIC{
				Address:   &kind,
				Interface: &kind,
				Model:     &long,
				Device:    &kind,
				Driver:    &kind,
				Link:      &kind,
				NUMA:      &n,
				SRIOV: tape.SRIOV{
					TotalVFs: &n,
					NumVFs:   &n,
				},
				InfiniBand: []tape.InfiniBandPort{
					{Device: &kind, Port: &n, State: &state},
					{Device: &kind, Port: &n, State: &state},
				},
			},
		)
	}
	f.Unknown = append(
		f.Unknown,
		tape.UnknownFact{
			Fact: "cpu.cores[0].cpus and more of that",
			Why:  "there is no /sys/devices/system/cpu/cpu0/topology/core_cpus_list",
		},
	)
	for range 3 {
		f.Unknown = append(
			f.Unknown,
			tape.UnknownFact{Fact: "nics[x].y" + kind, Why: long},
			tape.UnknownFact{Fact: "os." + kind, Why: "gone"},
		)
	}
	var b bytes.Buffer
	must(t, FactsText(&b, f, Style{Width: 80}))
	for l := range strings.Lines(b.String()) {
		if columns(strings.TrimSuffix(l, "\n")) > 80 {
			t.Errorf("got %q, want at most 80 columns", l)
		}
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
