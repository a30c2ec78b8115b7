package looking

import (
	"testing"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// TestListChanges checks that the kind of what is on the disk is the observed one, also of what is removed.
func TestListChanges(t *testing.T) {
	for name, c := range map[string]struct {
		planned node.FileKind
		old     world.TargetAns
		want    generation.Kind
	}{
		"nothing":          {node.Regular, world.TargetAns{}, ""},
		"a changed file":   {node.Regular, world.TargetAns{Exists: true}, generation.File},
		"a removed file":   {node.Missing, world.TargetAns{Exists: true}, generation.File},
		"a removed folder": {node.Missing, world.TargetAns{Exists: true, Dir: true}, generation.Dir},
	} {
		p := &boot.Plan{Changes: []boot.FileChange{{File: node.File{Path: "/a", Kind: c.planned}, Old: c.old}}}
		if got := listChanges("", p)[0].Old.Kind; got != c.want {
			t.Errorf("%s: got kind %q, want %q", name, got, c.want)
		}
	}
}
