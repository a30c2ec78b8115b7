package inspect

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/bundle"
	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/report"
)

// A bundle may come from anyone: what is read of it is bounded, and an error names the bundle and the file.
func TestStatusOfForeignBundle(t *testing.T) {
	large := `{"format_version":1,"state":"ok","summary":"` + strings.Repeat("x", report.StatusLimit) + `"}`
	for name, c := range map[string]struct{ text, want string }{
		"damaged":   {"{", "status.json: unexpected end of JSON input"},
		"too large": {large, "status.json has 1048622 bytes; at most 1048576 are read"},
	} {
		path := filepath.Join(t.TempDir(), "node.tar.gz")
		var parts bundle.Bundle
		parts.Add(report.StatusFile, c.text, nil)
		if err := userfile.WritePage(path, nil, parts.Encode); err != nil {
			t.Fatal(err)
		}
		got, err := analyzeFrom(t.Context(), (&machine.Env{}), lab.Request{From: path})
		if want := path + ": " + c.want; err != nil || !strings.HasPrefix(got.Problem, want) {
			t.Errorf("%s: got %q, %v; want %q and no error", name, got.Problem, err, want)
		}
	}
}
