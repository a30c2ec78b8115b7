package inspect

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// TestListChanges checks that the kind of what is on the disk is the observed one, also of what is removed.
func TestListChanges(t *testing.T) {
	for name, c := range map[string]struct {
		planned desired.FileKind
		old     tape.TargetAns
		want    generation.Kind
	}{
		"nothing":          {desired.Regular, tape.TargetAns{}, ""},
		"a changed file":   {desired.Regular, tape.TargetAns{Exists: true}, generation.File},
		"a removed file":   {desired.Missing, tape.TargetAns{Exists: true}, generation.File},
		"a removed folder": {desired.Missing, tape.TargetAns{Exists: true, Dir: true}, generation.Dir},
	} {
		p := &evaluate.Plan{Changed: evaluate.Changed{Changes: []evaluate.FileChange{{File: desired.File{Path: "/a", Kind: c.planned}, Old: c.old}}}}
		if got := listChanges("", p)[0].Old.Kind; got != c.want {
			t.Errorf("%s: got kind %q, want %q", name, got, c.want)
		}
	}
}

// TestUnitOfABrokenSite: without a plan, doctor asks about the unit that the site names.
func TestUnitOfABrokenSite(t *testing.T) {
	root := t.TempDir()
	site := filepath.Join(root, "etc/prelet")
	if err := os.MkdirAll(site, 0o755); err != nil {
		t.Fatal(err)
	}
	text := "stage \"restart\" \"kubelet\" { unit = \"k3s-agent.service\" }\nstage \"label\" \"node\" { labels = { a = b } }\n"
	if err := os.WriteFile(filepath.Join(site, "site.hcl"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	h := &machine.Host{Root: root, RunDir: filepath.Join(root, "run"), Clock: systemd.Clock{}}
	if u := checkUnit(t.Context(), h, nil); u.Name != "k3s-agent.service" {
		t.Errorf("got %s; want the unit of the site", u.Name)
	}
}
