package hardware

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/prelet/prelet/internal/machine/probe/hardware/hwtree"
	"github.com/prelet/prelet/internal/model/tape"
)

var update = flag.Bool("update", false, "write the golden facts again")

const machines = "../../../../testdata/hardware"

// recorded lists the machines of the project by name. They are read once, so a test must not change them.
func recorded(t testing.TB) map[string]Tree {
	t.Helper()
	trees, err := readRecorded()
	must(t, err)
	return trees
}

var readRecorded = sync.OnceValues(func() (map[string]Tree, error) {
	trees := map[string]Tree{}
	specs, _ := filepath.Glob(machines + "/spec/*.json")
	for _, file := range specs {
		spec, err := hwtree.Read(file)
		if err != nil {
			return nil, err
		}
		if trees[strings.TrimSuffix(filepath.Base(file), ".json")], err = treeOf(spec); err != nil {
			return nil, err
		}
	}
	archives := 0
	for _, pattern := range []string{"ghw-snapshots/*.tar.gz", "hwloc/*.tar.bz2", "procfs/*.tar.gz"} {
		found, _ := filepath.Glob(filepath.Join(machines, pattern))
		archives += len(found)
		for _, archive := range found {
			tree, err := readArchive(archive)
			if err != nil {
				return nil, err
			}
			unpacked = append(unpacked, tree)
			trees[strings.TrimSuffix(strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), ".tar.bz2")] = tree
		}
	}
	for name, file := range dumps() {
		spec, err := machineOf(file)
		if err != nil {
			return nil, err
		}
		if trees[name], err = treeOf(spec); err != nil {
			return nil, err
		}
	}
	if len(specs) < 9 || archives < 10 || len(dumps()) < 11 {
		return nil, fmt.Errorf(
			"%d specs, %d archives and %d dumps below %s; the machines are missing",
			len(specs),
			archives,
			len(dumps()),
			machines,
		)
	}
	return trees, nil
})

// TestFactsSurviveJSON: facts are given away as they are, and read from a recording later; both must be the same.
func TestFactsSurviveJSON(t *testing.T) {
	for name, tree := range recorded(t) {
		facts, err := Detect(context.Background(), ReadOptions{Tree: tree})
		if err != nil {
			t.Fatalf("%s: got %v, want no error", name, err)
		}
		raw, err := json.Marshal(facts)
		must(t, err)
		var back tape.Facts
		must(t, json.Unmarshal(raw, &back))
		if d := cmp.Diff(facts, back, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}
}

func described(t testing.TB, file string) Tree {
	t.Helper()
	spec, err := hwtree.Read(file)
	must(t, err)
	tree, err := treeOf(spec)
	must(t, err)
	return tree
}

// built is where machines are built for all tests; TestMain removes it.
var built = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "machines-") })

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := built(); err == nil {
		_ = os.RemoveAll(dir)
	}
	for _, archive := range unpacked {
		_ = archive.Close()
	}
	os.Exit(code)
}

// unpacked are the archives that are open for all tests.
var unpacked []Opened

func treeOf(spec hwtree.Spec) (Tree, error) {
	dir, err := built()
	if err != nil {
		return nil, err
	}
	if dir, err = os.MkdirTemp(dir, ""); err != nil {
		return nil, err
	}
	if err := hwtree.Build(spec, dir); err != nil {
		return nil, err
	}
	return openRoot(dir)
}

func detect(t testing.TB, o ReadOptions) tape.Facts {
	t.Helper()
	facts, err := Detect(context.Background(), o)
	must(t, err)
	return facts
}

func encode(t testing.TB, facts tape.Facts) []byte {
	t.Helper()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", " ")
	must(t, encoder.Encode(facts))
	return b.Bytes()
}

// TestMachines compares the facts of every recorded machine with those that somebody has looked at.
func TestMachines(t *testing.T) {
	for name, tree := range recorded(t) {
		t.Run(name, func(t *testing.T) {
			facts := detect(t, ReadOptions{Tree: tree})
			got := encode(t, facts)
			for _, collection := range []string{"cores", "cpus", "hugepages", "numa", "pci", "accelerators", "nics", "interfaces", "ipv4", "ipv6", "id_like", "unknown", "offline", "infiniband", "guids"} {
				// numa of a device is a number, which may be null
				if collection != "numa" && bytes.Contains(got, []byte(`"`+collection+`": null`)) {
					t.Errorf("got null for the collection %s, want an empty one", collection)
				}
			}
			for _, u := range degraded(facts) {
				if name != "nvidiagpunumanodes" { // whose recording left the ids of its GPUs out
					t.Errorf("%s: got the failure %q, want none in a recorded machine", u.Fact, u.Why)
				}
			}
			golden := filepath.Join(machines, "facts", name+".json")
			if *update {
				must(t, os.WriteFile(golden, got, 0o644))
				return
			}
			want, err := os.ReadFile(golden)
			must(t, err)
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf(
					"facts differ (-want +got); if they are right, run go test ./internal/machine/probe/hardware -run "+
						"TestMachines -update:\n%s",
					diff,
				)
			}
		})
	}
}

// TestFolderIsRead reads a machine by the path of its folder.
func TestFolderIsRead(t *testing.T) {
	file := machines + "/spec/legacy-mt27710.json"
	dir := t.TempDir()
	must(t, hwtree.BuildFile(file, dir))
	want := string(encode(t, detect(t, ReadOptions{Tree: described(t, file)})))
	if diff := cmp.Diff(want, string(encode(t, detect(t, ReadOptions{Root: dir})))); diff != "" {
		t.Errorf("facts of the folder (-want +got): %s", diff)
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
