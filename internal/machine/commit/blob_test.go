package commit

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/annotation"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/platform/machineid"
)

// planOfEverything returns a plan whose stored form has a value in each field.
func planOfEverything() *evaluate.Plan {
	password := secret.TemplateText("password=" + secret.Placeholder("password") + "\n")
	files := []desired.File{
		{Path: "/etc/boot", Kind: desired.Regular, Purpose: "bootstrap-kubeconfig", OutsideHash: true},
		{Path: "/etc/ca", Kind: desired.Regular, Purpose: "ca", Text: secret.PlainText("a<&>\u2028é\n"), Mode: 0o600, Owner: "root:x"},
		{Path: "/etc/chrony", Kind: desired.Regular, Purpose: "file", Text: password, Notify: []string{"chrony"}, CreateOnly: true},
		{Path: "/etc/folder", Kind: desired.Directory, Purpose: "directory", Notify: []string{}},
		{Path: "/etc/gone", Kind: desired.Missing, Purpose: "file", Notify: []string{"kubelet"}},
	}

	return &evaluate.Plan{
		Hash: "sha256:x",
		Node: desired.Node{
			Labels: []desired.Label{{Key: "a", Value: "b"}, {Key: "c"}},
			Taints: []desired.Taint{
				{Taint: kubelet.Taint{Key: "a", Value: "b", Effect: "NoSchedule"}},
				{Taint: kubelet.Taint{Key: "c", Effect: "NoExecute"}, Startup: true},
			},
			Flags:  []desired.Flag{{Name: "v", Value: "2"}, {Name: "node-ip"}},
			Config: map[string]any{"z": int64(9007199254740993), "a": []any{true, "<", nil}, "m": map[string]any{}},
			Files:  files,
			Activation: &desired.Activation{
				Stage: "kubelet", Unit: "kubelet.service", SettleMillis: 1, TimeoutMillis: 2, BoundMillis: 3, Rollback: true,
				ReconcileLabels: true, Configz: "configz", TaintCredential: "taints",
				Annotations: &annotation.Settings{Revision: "1"}, Conditions: []desired.Condition{{}},
			},
			Units: []desired.Unit{
				{Stage: "chrony", Unit: "chrony.service", Action: "reload", TimeoutMillis: 4, SettleMillis: 5},
			},
		},
		Changed: evaluate.Changed{Changes: []evaluate.FileChange{
			{File: desired.File{Path: "/var/lib/kubelet/state", Kind: desired.Missing, Purpose: "state"}, Action: "delete"},
		}},
	}
}

// The stored plan of a generation is read by field names, by this version and by later ones.
func TestPlanBlobIsReadBack(t *testing.T) {
	p := planOfEverything()
	b, err := encodePlan(p, machineid.Hashes{ID: "sha256:x"}, []desired.StoredFile{{Path: "/etc/old", Purpose: "kubeconfig"}})
	must(t, err)

	stored, err := os.ReadFile("testdata/plan.json")
	must(t, err)
	if want := bytes.TrimSpace(stored); !bytes.Equal(b, want) {
		t.Errorf("got the stored plan\n%s\nwant that of testdata/plan.json\n%s", b, want)
	}

	const wantHash = "sha256:e41c465b14cea51f33cfaa3beb59a557dbf816224033d1a6e85b928344dfbcf6"
	if got := p.Node.Hash(); got != wantHash {
		t.Errorf("got hash %s, want %s: each node would get a new generation", got, wantHash)
	}

	var doc map[string]any
	must(t, json.Unmarshal(b, &doc))

	if doc["format_version"] != 1.0 || doc["plan_hash"] != "sha256:x" || doc["node"] == nil {
		t.Errorf("got %s; want format_version 1, plan_hash sha256:x and a node", b)
	}

	dir := t.TempDir()

	s, err := generation.Open(t.Context(), generation.StoreConfig{Root: dir, Dir: dir + "/state"})
	must(t, err)

	defer func() { _ = s.Close() }()

	txn, err := s.Begin(generation.Proposal{PlanID: "x", Force: true, Blobs: map[string][]byte{"plan.json": b}})
	must(t, err)

	gen, err := txn.Commit()
	must(t, err)

	must(t, txn.Publish())

	if why := machineid.Compare(s, gen, machineid.Hashes{ID: "sha256:x"}, nil).Differing; why != "" {
		t.Errorf("of this machine: %s", why)
	}

	why := machineid.Compare(s, gen, machineid.Hashes{ID: "sha256:y", Product: "sha256:z"}, nil).Differing
	if why != "the machine id is not the one of generation 1" {
		t.Errorf("of another machine: %q", why)
	}

	back, err := desired.ReadStoredPlan(s, gen)
	again, _ := json.Marshal(back)
	if want := bytes.Replace(b, []byte(`,"machine":"sha256:x"`), nil, 1); err != nil || !bytes.Equal(again, want) {
		t.Errorf("read back, got %s, %v; want %s", again, err, want)
	}
}
