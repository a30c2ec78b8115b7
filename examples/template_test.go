package examples

import (
	"os"
	"strings"
	"testing"
)

// TestVendorsPage: the page for vendors shows the detector of the template, which is short.
func TestVendorsPage(t *testing.T) {
	program, err := os.ReadFile("detector-template/detector.go")
	must(t, err)
	page, err := os.ReadFile("../docs/vendors/README.md")
	must(t, err)
	if !strings.Contains(string(page), "```go\n"+string(program)+"```") {
		t.Error("docs/vendors/README.md shows another program than examples/detector-template/detector.go")
	}
	if n := strings.Count(string(program), "\n"); n > 40 {
		t.Errorf("got a detector of %d lines, want at most 40", n)
	}
}
