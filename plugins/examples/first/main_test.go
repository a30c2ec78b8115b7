package main

import (
	"os"
	"strings"
	"testing"

	"github.com/prelet/prelet/plugins/sdk/detectortest"
)

func TestMain(m *testing.M)     { detectortest.Main(m, detector{}) }
func TestConforms(t *testing.T) { detectortest.Conform(t, nil) }

func TestDetect(t *testing.T) {
	root := detectortest.Root(t, `
pci 0000:17:00.0 1234:0001 1234:0001 120000
@0000:17:00.0/firmware_version = 1.19.2
`)
	a := detectortest.Detect(t, detector{}, root, map[string]any{"firmware": "1.20.0"})
	if len(a.Devices) != 1 || len(a.Warnings) != 1 {
		t.Errorf("got %+v, want a device and a warning", a)
	}
}

// TestDocs: the page for vendors shows this program, which is short.
func TestDocs(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/how-to/vendors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(program), "\npackage main\n")
	if !strings.Contains(string(page), "package main\n"+code) {
		t.Error("docs/how-to/vendors.md shows another program than plugins/examples/first/main.go")
	}
	if n := strings.Count("package main\n"+code, "\n"); n > 60 {
		t.Errorf("got %d lines, want at most 60", n)
	}
}
