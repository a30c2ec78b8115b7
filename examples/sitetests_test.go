package examples

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/testfile"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/report/printer"
)

// TestSiteTests runs the tests of each example, as `prelet test` does.
func TestSiteTests(t *testing.T) {
	options := map[string]app.TestOptions{}
	for _, e := range all() {
		options[e.name] = app.TestOptions{Paths: []string{e.name}}
	}
	options["layered"] = app.TestOptions{
		Paths:  []string{"layered/tests"},
		Config: []string{"layered/image", "layered/site"},
	}

	for name, o := range options {
		t.Run(name, func(t *testing.T) {
			e := &app.Env{
				Version:  "0.1.0",
				Getenv:   func(string) string { return "" },
				Redactor: value.NewRedactor(),
			}
			found, err := e.Test(context.Background(), o, func(s *lang.Site, r testfile.Result) error {
				var b bytes.Buffer
				err := printer.TestText(&b, s.Sources, r, printer.Style{Width: 100})
				if !r.Passed() {
					t.Errorf("got a failure, want none:\n%s", b.String())
				}
				return err
			})
			if err != nil || found.Diagnostics.HasErrors() || found.Passed == 0 {
				t.Errorf("got %d passed, %v, %v; want some, and no error", found.Passed, err, found.Diagnostics)
			}
		})
	}
}

// TestEveryTestFileRuns holds that TestSiteTests finds all test files of the examples.
func TestEveryTestFileRuns(t *testing.T) {
	var got []string
	for _, pattern := range []string{"*/*.prelettest.hcl", "*/tests/*.prelettest.hcl", "*/*/*/*.prelettest.hcl"} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, matches...)
	}
	if want := len(all()); len(got) != want {
		t.Errorf("got %d test files, %q; want one for each of %d examples", len(got), got, want)
	}
}
