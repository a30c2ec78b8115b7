package sites

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/lab/testfile"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/lang"
)

// TestManyRunsLoadOneSite holds that a site is loaded once for all files of tests, and that results keep their order.
func TestManyRunsLoadOneSite(t *testing.T) {
	dir := t.TempDir()
	facts, err := filepath.Abs("../../../testdata/hardware/facts/bare-vm.json")
	must(t, err)
	files := map[string]string{
		"site.hcl":         "stage \"detect-hw\" \"node\" {}\nstage \"label\" \"a\" {\n  labels = { a = \"b\" }\n}\n",
		"a.prelettest.hcl": "",
		"b.prelettest.hcl": "",
	}
	var want []string
	for _, name := range []string{"a", "b"} {
		for _, run := range []string{"3", "1", "2"} {
			files[name+".prelettest.hcl"] += "run \"" + run + "\" { hardware = \"" + facts + "\" }\n"
			want = append(want, name+run)
		}
	}
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}

	e := &machine.Env{Version: "0.1.0", Getenv: func(string) string { return "" }, Redactor: secret.NewRedactor()}
	s, err := loadTests(e, TestOptions{Paths: []string{dir}})
	if err != nil || s.tests.Diagnostics.HasErrors() || len(s.sites) != 1 {
		t.Fatalf("got %d sites, %v, %v; want one and no error", len(s.sites), err, s.tests.Diagnostics)
	}

	var got []string
	found, err := Test(context.Background(), e, TestOptions{Paths: []string{dir}},
		func(_ *lang.Site, r testfile.MachineResult) error {
			got = append(got, strings.TrimSuffix(filepath.Base(r.File), ".prelettest.hcl")+r.Run)
			return nil
		})
	if err != nil || found.Runs != 6 || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %d runs %q, %v; want %q in this order", found.Runs, got, err, want)
	}
}
