package commit

import (
	"encoding/json"
	"testing"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/platform/machineid"
)

// The stored plan of a generation is read by field names, by this version and by later ones.
func TestPlanBlobIsReadBack(t *testing.T) {
	p := &boot.Plan{
		Hash: "sha256:x",
		Node: node.Node{Files: []node.File{{Path: "/etc/a", Kind: node.Regular, Purpose: "ca"}}},
	}

	b, err := encodePlan(p, machineid.Machine{ID: "sha256:x"}, nil)
	if err != nil {
		t.Fatal(err)
	}

	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}

	if doc["format_version"] != 1.0 || doc["plan_hash"] != "sha256:x" || doc["node"] == nil {
		t.Errorf("got %s; want format_version 1, plan_hash sha256:x and a node", b)
	}

	dir := t.TempDir()

	s, err := generation.Open(t.Context(), generation.Options{Root: dir, Dir: dir + "/state"})
	if err != nil {
		t.Fatal(err)
	}

	defer func() { _ = s.Close() }()

	txn, err := s.Begin(generation.Proposal{PlanID: "x", Force: true, Blobs: map[string][]byte{"plan.json": b}})
	if err != nil {
		t.Fatal(err)
	}

	gen, err := txn.Commit()
	if err != nil {
		t.Fatal(err)
	}

	if err := txn.Publish(); err != nil {
		t.Fatal(err)
	}

	if why := machineid.Judge(s, gen, machineid.Machine{ID: "sha256:x"}).Why; why != "" {
		t.Errorf("of this machine: %s", why)
	}

	why := machineid.Judge(s, gen, machineid.Machine{ID: "sha256:y", Product: "sha256:z"}).Why
	if why != "the machine id is not the one of generation 1" {
		t.Errorf("of another machine: %q", why)
	}

	if got := readStoredFiles(s, gen); len(got) != 1 || got["/etc/a"].Purpose != "ca" {
		t.Errorf("purposes: %v", got)
	}
}
