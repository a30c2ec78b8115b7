package hardware

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// whole are the machines whose facts are compared whole, with reasons and evidence. They differ most: of the 442
// different values, reasons and sources of all recorded machines (without numbers), no other three have as many, 337.
var whole = []string{
	"32em64t-2n8c+1mic",    // all of /sys of an old kernel: InfiniBand, four kinds of cards, bridges, a disk
	"dgx-h100",             // described by us, so nothing is missing: GPUs, virtual functions, firmware, routes
	"linux-s390x-snapshot", // another architecture, of which ghw keeps a part: no DMI, SMT or NUMA as on x86
}

// TestMachines compares the facts of each recorded machine with its file, on which sites are planned, too. A new fact
// must change only the files of the machines that are compared whole. In the others it is missing, as in a recording of
// an older prelet: what they have must be right, and the properties prove the rest.
func TestMachines(t *testing.T) {
	for name, tree := range recorded(t) {
		t.Run(name, func(t *testing.T) { checkMachine(t, name, tree, detect(t, ReadOptions{Tree: tree})) })
	}
}

func checkMachine(t *testing.T, name string, tree Tree, facts tape.Facts) {
	t.Helper()
	checkProperties(t, tree, facts)
	checkAgreement(t, facts)
	for _, u := range degraded(facts) {
		if name != "nvidiagpunumanodes" { // whose recording left the ids of its GPUs out
			t.Errorf("%s: got the failure %q, want none in a recorded machine", u.Fact, u.Why)
		}
	}

	file, text := filepath.Join(machines, "facts", name+".json"), encode(t, facts)
	old, err := os.ReadFile(file)
	if !*update {
		must(t, err)
	}
	diff := cmp.Diff(string(old), string(text))
	if !slices.Contains(whole, name) {
		got, want := map[string]any{}, map[string]any{}
		_ = json.Unmarshal(old, &want)
		must(t, json.Unmarshal(text, &got))
		for _, all := range []map[string]any{got, want} {
			all["unknown"] = namesOfUnknown(all["unknown"])
			delete(all, "evidence")
		}
		diff = cmp.Diff(any(want), restrict("", got, want))
	}
	if diff != "" && *update {
		must(t, os.WriteFile(file, text, 0o644))
	} else if diff != "" {
		t.Errorf("facts differ (-want +got); if they are right, run go test ./internal/machine/probe/hardware "+
			"-run TestMachines -update:\n%s", diff)
	}
}

// namesOfUnknown returns the facts that are unknown as a map, of which restrict keeps those that were unknown before.
func namesOfUnknown(list any) map[string]any {
	names := map[string]any{}
	all, _ := list.([]any)
	for _, u := range all {
		names[u.(map[string]any)["fact"].(string)] = "unknown"
	}
	return names
}

// restrict returns facts without those that others lack. The elements of lists and of maps by names are kept.
func restrict(name string, got, want any) any {
	switch got := got.(type) {
	case map[string]any:
		kept := map[string]any{}
		others, isMap := want.(map[string]any)
		for key, inner := range got {
			if other, exists := others[key]; exists || !isMap || hasNames(name) {
				kept[key] = restrict(key, inner, other)
			}
		}
		return kept
	case []any:
		kept := slices.Clone(got)
		others, _ := want.([]any)
		for i, other := range others[:min(len(others), len(got))] {
			kept[i] = restrict("", got[i], other)
		}
		return kept
	}
	return got
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
