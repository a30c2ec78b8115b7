package examples

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
)

// TestVendorsPage: the page for vendors shows the detector of the template, which is short.
func TestVendorsPage(t *testing.T) {
	program := osfile.Read(t, "detector-template/detector.go")
	page := osfile.Read(t, "../docs/vendors/README.md")
	if !strings.Contains(string(page), "```go\n"+string(program)+"```") {
		t.Error("docs/vendors/README.md shows another program than examples/detector-template/detector.go")
	}
	if n := strings.Count(string(program), "\n"); n > 40 {
		t.Errorf("got a detector of %d lines, want at most 40", n)
	}
}
