package hardware

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/hardware/hwtree"
	"github.com/prelet/prelet/internal/world"
)

var update = flag.Bool("update", false, "write the golden facts anew")

const machines = "../../testdata/hardware"

// recorded lists the machines kept with the project: name and root, built or packed.
func recorded(t testing.TB) map[string]string {
	t.Helper()
	roots := map[string]string{}
	specs, _ := filepath.Glob(machines + "/spec/*.json")
	for _, spec := range specs {
		name := strings.TrimSuffix(filepath.Base(spec), ".json")
		roots[name] = filepath.Join(t.TempDir(), name)
		if err := hwtree.BuildFile(spec, roots[name]); err != nil {
			t.Fatal(err)
		}
	}
	archives, _ := filepath.Glob(machines + "/ghw-snapshots/*.tar.gz")
	for _, archive := range archives {
		roots[strings.TrimSuffix(filepath.Base(archive), ".tar.gz")] = archive
	}
	if len(specs) < 9 || len(archives) < 6 {
		t.Fatalf("%d specs and %d archives below %s; the machines are missing", len(specs), len(archives), machines)
	}
	return roots
}

func detect(t testing.TB, o Options) world.Facts {
	t.Helper()
	facts, err := Detect(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

func encode(t testing.TB, facts world.Facts) []byte {
	t.Helper()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(facts); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestMachines compares the facts of every recorded machine with those that somebody has looked at.
func TestMachines(t *testing.T) {
	for name, root := range recorded(t) {
		t.Run(name, func(t *testing.T) {
			facts := detect(t, Options{Root: root})
			got := encode(t, facts)
			if bytes.Contains(got, []byte(": null,\n")) && bytes.Contains(got, []byte(`"cores": null`)) {
				t.Error("a collection is null")
			}
			for _, u := range Degraded(facts) {
				t.Errorf("a recorded machine is whole, but %s: %s", u.Fact, u.Why)
			}
			golden := filepath.Join(machines, "facts", name+".json")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("facts differ (-want +got); if they are right, run go test ./internal/hardware -run TestMachines -update:\n%s", diff)
			}
		})
	}
}
