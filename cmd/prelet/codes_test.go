package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/fault"
)

// TestExamplesOfPages tries what the pages of codes show, which is in testdata/codes.txtar: each site is refused with
// the code whose page has it.
func TestExamplesOfPages(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("testdata/codes.txtar")
	noError(t, err)
	shown := map[string]string{} // the line of the page that a site was made of
	for _, f := range archive.Files {
		if name, isPage := strings.CutSuffix(f.Name, ".page"); isPage {
			shown[name] = string(f.Data)
		}
	}
	sites := len(archive.Files) - len(shown)
	if sites < 25 {
		t.Errorf("got %d sites, want 25 or more", sites)
	}

	for _, f := range archive.Files {
		if strings.HasSuffix(f.Name, ".page") {
			continue
		}
		word, _, _ := strings.Cut(f.Name, ".")
		code := fault.Code(word)
		t.Run(f.Name, func(t *testing.T) {
			p, ok := code.Page()
			text, isLine := shown[f.Name]
			if !isLine {
				text = string(f.Data)
			}
			if text = strings.TrimSpace(text); !ok || !strings.Contains(p.Text, text) {
				t.Errorf("the page does not show %s", text)
			}
			file := filepath.Join(t.TempDir(), "site.hcl")
			noError(t, os.WriteFile(file, f.Data, 0o644))
			var stdout, stderr strings.Builder
			got := runMain([]string{"validate", "-o", "json", "--kubelet-version", "1.36", file}, &stdout, &stderr)
			if got != code.Exit() {
				t.Errorf("exit %d, want %d: %s", got, code.Exit(), &stderr)
			}
			var out struct {
				Diagnostics []struct{ Code, Severity, Summary string }
			}
			if err := json.Unmarshal([]byte(stdout.String()), &out); err != nil {
				t.Fatalf("%s: %s", err, stdout.String())
			}
			if len(out.Diagnostics) == 0 {
				t.Fatal("no message")
			}
			for _, d := range out.Diagnostics {
				if d.Code != string(code) || d.Severity != "error" {
					t.Errorf("%s %s: %s; want an error %s", d.Severity, d.Code, d.Summary, code)
				}
			}
		})
	}
}
