package printer

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/world"
)

// A machine without DMI has no product to show; a machine with half of it shows that half.
func TestFactsWithoutDMI(t *testing.T) {
	print := func(f world.Facts) string {
		var b bytes.Buffer
		if err := FactsText(&b, f, Style{Width: 80}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if out := print(world.Facts{}); strings.Contains(out, "machine") || strings.Contains(out, "?") {
		t.Errorf("got\n%s\nwant no line of the machine", out)
	}
	name := "PowerEdge"
	if out := print(world.Facts{Product: world.Product{Name: &name}}); !strings.HasPrefix(out, "machine  PowerEdge\n") {
		t.Errorf("got\n%s\nwant its name first", out)
	}
}

func TestFactsTextOfDisks(t *testing.T) {
	p := func(s string) *string { return &s }
	size := int64(1) << 40
	f := world.Facts{BIOS: world.BIOS{Vendor: p("Dell Inc."), Version: p("2.2.4")}, BlockDevices: []world.BlockDevice{
		{
			Name:       "nvme0n1",
			Type:       p("ssd"),
			Controller: p("nvme"),
			SizeBytes:  &size,
			Model:      p("A\x1b[31m_disk"),
		},
		{Name: "sda"},
	}}
	var b strings.Builder
	if err := FactsText(&b, f, Style{Width: 80}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"bios     Dell Inc., 2.2.4\n", "disks\n", "  nvme0n1  nvme ssd  1024.0 GiB  " +
		"A", "  sda"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got %q, want %q in it", b.String(), want)
		}
	}
	if strings.Contains(b.String(), "\x1b[31m") {
		t.Errorf("got %q, want no escape sequence of the machine", b.String())
	}
}
