package reserve

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"k8s.io/utils/cpuset"
)

func TestTopology(t *testing.T) {
	for _, c := range readCases(t, "topology") {
		t.Run(c.Name, func(t *testing.T) {
			r := mustDecide(t, c.Site, c.inputs(t))
			if got := r.node.Config["reservedSystemCPUs"]; got != c.Want {
				t.Errorf("got %v, want %s", got, c.Want)
			}
			if got := r.out["reserved_cpus"].AsString(); got != c.Want {
				t.Errorf("reserved_cpus: got %s, want %s", got, c.Want)
			}
			if _, ok := r.c.Reserved.Kube[cpu]; ok {
				t.Error("cpu is reserved twice")
			}
		})
	}
}

// Whatever the machine: what is chosen are whole cores, as many as asked for, of threads that are online, and the
// order of the facts does not matter.
func TestChosenCoresAreWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		nodes, perNode := 1+random.IntN(4), 1+random.IntN(6)
		in := sockets(nodes, perNode, random.IntN(2) == 0, 64*gib)
		f := in.Facts
		want := nodes * (1 + random.IntN(perNode))
		for _, spread := range []string{spreadNUMA, spreadPacked} {
			set, _, refused := choose(f, want, spread, hcl.Range{})
			if refused != nil {
				t.Fatalf("%d of %d × %d, %s: got %v, want no refusal", want, nodes, perNode, spread, refused)
			}
			whole, perChosen := 0, map[int]int{}
			for _, c := range f.CPU.Cores {
				in := set.Intersection(cpuset.New(c.CPUs...))
				if !in.IsEmpty() && in.Size() != len(c.CPUs) {
					t.Fatalf("got %s, want core %v whole", set, c.CPUs)
				}
				if !in.IsEmpty() {
					whole++
					perChosen[*c.Node]++
				}
			}
			if whole != want {
				t.Fatalf("%s: got %d cores, want %d", set, whole, want)
			}
			for n := range nodes {
				if spread == spreadNUMA && perChosen[n] != want/nodes {
					t.Fatalf("%s: got %v on the nodes, want equally many", set, perChosen)
				}
			}
			shuffled := *f
			shuffled.CPU.Cores = slices.Clone(f.CPU.Cores)
			random.Shuffle(len(shuffled.CPU.Cores), func(i, j int) {
				shuffled.CPU.Cores[i], shuffled.CPU.Cores[j] = shuffled.CPU.Cores[j], shuffled.CPU.Cores[i]
			})
			if again, _, _ := choose(&shuffled, want, spread, hcl.Range{}); !again.Equals(set) {
				t.Fatalf("cores in another order: got %s, want %s", again, set)
			}
		}
	}
}

// A site with one reserve stage has nodes with and without whole cores: null is as if there were no block.
func TestTopologyOfNoCores(t *testing.T) {
	const policy = "policy = \"gke\"\nfloor = { cpu = \"2\" }\n"
	want := mustDecide(t, policy, machineOf(8, 8*gib))
	got := mustDecide(t, policy+"topology {\n cores = null\n spread = \"numa\"\n}", machineOf(8, 8*gib))
	if d := cmp.Diff(want.node.Config, got.node.Config); d != "" || got.node.Config["reservedSystemCPUs"] != nil {
		t.Errorf("topology with cores = null: -without it, +got\n%s", d)
	}
}

func TestTopologySaysWhichCores(t *testing.T) {
	r := mustDecide(t, "policy = \"gke\"\ntopology {\n cores = 4\n spread = \"numa\"\n}", sockets(2, 56, true, 1<<40))
	var words []string
	for _, s := range r.c.Settings {
		if s.Path[0] == "reservedSystemCPUs" {
			for _, o := range s.Origins {
				words = append(words, o.Text)
			}
		}
	}
	if got := strings.Join(words, "|"); !strings.Contains(
		got,
		"4 cores, 2 on each of 2 NUMA nodes, 8 threads: CPUs 0-1,56-57,112-113,168-169",
	) {
		t.Error(got)
	}
	notes := decide(
		t,
		"policy = \"static\"\nstatic {\n cpu = 2\n memory = \"1Gi\"\n}\ntopology { cores = 1 }",
		machineOf(8, 8*gib),
	)
	if got := formatDiagnostics(notes.diags); !strings.Contains(got, "cpu of block static is not used") {
		t.Errorf("got %s, want a note that cpu of the block is not used", got)
	}
}
