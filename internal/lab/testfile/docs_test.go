package testfile

import (
	"os"
	"regexp"
	"testing"
)

// TestDocs holds that the test files that the page on tests shows can be read.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operators/testing-sites.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```hcl\n(run .*?)^```$").FindAllSubmatch(page, -1) // not the repository's file
	if len(blocks) < 5 {
		t.Fatalf("got %d blocks of HCL, want at least 5", len(blocks))
	}
	for _, block := range blocks {
		anyFile := func(string) ([]byte, error) { return []byte("maxPods: 64\n"), nil }
		if _, diags := Parse("page.prelettest.hcl", block[1], anyFile); len(diags) > 0 {
			t.Errorf("got %s; want no message for\n%s", show(diags), block[1])
		}
	}
}
