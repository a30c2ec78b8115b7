package reserve

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

const managed = "\nmemory_manager = \"Static\""

// reservedMemoryOf returns reservedMemory of the finished node as the boot writes it, as JSON.
func reservedMemoryOf(t *testing.T, r result) string {
	t.Helper()
	if r.node.Reserved == nil {
		return "not finished"
	}
	n := r.node.Replace(r.node.Reserved.Settings)
	raw, err := json.Marshal(n.Config["reservedMemory"])
	if err != nil {
		t.Fatal(err)
	}

	return strings.NewReplacer(`"limits":{"memory":`, "", `},"numaNode":`, "@", `"`, "").Replace(string(raw))
}

// grace is a machine with two CPUs, each with its memory, the memory of four GPUs as NUMA nodes without CPUs, and thirty
// nodes without memory for the instances of GPUs (as GB200 has 36).
func grace(memoryOfCPU, memoryOfGPU int64) stages.Inputs {
	in := sockets(2, 72, false, 2*memoryOfCPU)
	for i := range 34 {
		bytes := int64(0)
		if i < 4 {
			bytes = memoryOfGPU
		}
		in.Facts.NUMA = append(in.Facts.NUMA, world.NUMANode{ID: i + 2, CPUs: []int{}, MemoryBytes: ptr(bytes)})
	}
	in.Facts.Memory.TotalBytes = ptr(2*memoryOfCPU + 4*memoryOfGPU)

	return in
}

// withMemory gives one NUMA node another size.
func withMemory(in stages.Inputs, node int, bytes int64) stages.Inputs {
	*in.Facts.Memory.TotalBytes += bytes - *in.Facts.NUMA[node].MemoryBytes
	in.Facts.NUMA[node].MemoryBytes = ptr(bytes)

	return in
}

func withHugePages(in stages.Inputs, byNode ...map[string]int) stages.Inputs {
	all := map[string]int{}
	for i, pages := range byNode {
		in.Facts.NUMA[i].HugePages = pages
		for size, n := range pages {
			all[size] += n
		}
	}
	in.Facts.Memory.HugePages = all

	return in
}

func TestMemoryManager(t *testing.T) {
	percent := map[string]any{"evictionHard": map[string]any{"memory.available": "3.3%"}}
	for _, c := range []struct {
		name, site string
		in         stages.Inputs
		base       map[string]any
		want       string // AMOUNT@NODE
	}{
		{name: "one node", site: `policy = "gke"`, in: machineOf(16, 64*gib), want: "[{5711Mi@0}]"},
		{name: "two nodes, an odd sum", site: "policy = \"static\"\nstatic { memory = \"1234567Ki\" }",
			in: sockets(2, 8, true, 64*gib), want: "[{669319Ki@0},{652Mi@1}]"},
		{name: "a threshold in percent, to the byte", site: "policy = \"static\"\nstatic { memory = \"1Gi\" }",
			in: sockets(2, 8, true, 64*gib+4096), base: percent, want: "[{1671103111@0},{1593Mi@1}]"},
		{name: "the first node is full of huge pages", site: "policy = \"static\"\nstatic { memory = \"8Gi\" }",
			in:   withHugePages(sockets(2, 8, true, 64*gib), map[string]int{"1Gi": 30}, map[string]int{"2Mi": 0}),
			want: "[{2Gi@0},{6244Mi@1}]"},
		{name: "a node has nothing but huge pages", site: "policy = \"static\"\nstatic { memory = \"8Gi\" }",
			in:   withHugePages(sockets(2, 8, true, 64*gib), map[string]int{"1Gi": 32}, map[string]int{"2Mi": 512}),
			want: "[{8292Mi@1}]"},
		{name: "a first node with little memory, at two boots: one", site: "policy = \"static\"\nstatic { memory = \"8G\" }",
			in: withMemory(sockets(2, 8, true, 64*gib), 0, 3*gib-20*mib), want: "[{3008Mi@0},{4834708Ki@1}]"},
		{name: "and the other", site: "policy = \"static\"\nstatic { memory = \"8G\" }",
			in: withMemory(sockets(2, 8, true, 64*gib), 0, 3*gib-20*mib-8192), want: "[{3008Mi@0},{4834708Ki@1}]"},
		{name: "36 nodes, most without CPUs or memory", site: "policy = \"static\"\nstatic { memory = \"8Gi\" }",
			in: grace(480*gib, 186*gib), want: "[{4146Mi@0},{4146Mi@1}]"},
		{name: "more than the nodes with CPUs have", site: "policy = \"static\"\nstatic { memory = \"8Gi\" }",
			in: grace(3*gib, 16*gib), want: "[{3Gi@0},{3Gi@1},{537Mi@2},{537Mi@3},{537Mi@4},{537Mi@5}]"},
		{name: "a kernel without NUMA", site: "policy = \"static\"\nstatic { memory = \"1Gi\" }",
			in: func() stages.Inputs {
				in := machineOf(4, 8*gib)
				in.Facts.NUMA = nil
				return in
			}(), want: "[{1124Mi@0}]"},
		{name: "the base reserves, and another list of its own is replaced",
			site: "policy = \"static\"\nstatic { cpu = 1 }", in: machineOf(4, 8*gib),
			base: map[string]any{
				"systemReserved":      map[string]any{"memory": "500M"},
				"memoryManagerPolicy": "None",
				"reservedMemory":      []any{map[string]any{"numaNode": 7, "limits": map[string]any{"memory": "1Gi"}}},
			}, want: "[{604857600@0}]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustDecide(t, c.site+managed, withBase(c.in, c.base))
			if got := reservedMemoryOf(t, r); got != c.want {
				t.Errorf("got reservedMemory %s, want %s", got, c.want)
			}
			if got := r.node.Config["memoryManagerPolicy"]; got != "Static" {
				t.Errorf("got memoryManagerPolicy %v, want Static", got)
			}

			left := mustDecide(t, c.site, withBase(c.in, c.base))
			if got, want := left.node.Config["memoryManagerPolicy"], c.base["memoryManagerPolicy"]; got != want {
				t.Errorf("without memory_manager: got memoryManagerPolicy %v, want %v as in the base", got, want)
			}
		})
	}
}

// TestMemoryManagerFollowsFlags: a flag changes the sum after the stage has decided.
func TestMemoryManagerFollowsFlags(t *testing.T) {
	in := machineOf(4, 8*gib)
	in.Base.Flags = []node.Flag{{Name: "system-reserved", Value: "memory=333Mi"}}
	r := mustDecide(t, "policy = \"static\"\nstatic { memory = \"1Gi\" }"+managed, in)
	if got := reservedMemoryOf(t, r); got != "[{1457Mi@0}]" {
		t.Errorf("got reservedMemory %s, want 1Gi, 333Mi of the flag and 100Mi on node 0", got)
	}
}

// TestMemoryManagerByTheRules: whatever the machine and the base, the kubelet's rules accept the result, and no node keeps
// more than it has besides its huge pages.
func TestMemoryManagerByTheRules(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	thresholds := []string{"100Mi", "3.3%", "0.7%", "1G", "0%"}
	for range 500 {
		nodes := 1 + random.IntN(8)
		in := sockets(nodes, 4, true, int64(nodes)*(4*gib+random.Int64N(1<<20)*4096))
		total := int64(0)
		var pages []map[string]int
		for i := range in.Facts.NUMA {
			bytes := *in.Facts.NUMA[i].MemoryBytes
			total += bytes
			pages = append(pages, map[string]int{"2Mi": random.IntN(int(bytes / (2 * mib) * 3 / 4))})
		}
		in = withHugePages(in, pages...)
		in.Facts.Memory.TotalBytes = ptr(total)
		base := map[string]any{"evictionHard": map[string]any{
			"memory.available": thresholds[random.IntN(len(thresholds))],
		}}
		site := fmt.Sprintf("policy = \"static\"\nstatic { memory = \"%dKi\" }%s", 16<<10+random.IntN(512<<10), managed)

		r := mustDecide(t, site, withBase(in, base))
		n := r.node.Replace(r.node.Reserved.Settings)
		c := kubelet.NewConfig()
		if err := c.Merge(n.Config); err != nil {
			t.Fatal(err)
		}
		facts := in.Facts
		for _, p := range rules.Check(rules.Subject{Config: c, Machine: rules.NewMachine(facts, world.KubeletAns{})}) {
			if strings.Contains(p.Rule, "memory") || strings.Contains(p.Rule, "numa") {
				t.Fatalf("%s on %d nodes with %v: got %+v, want no finding", site, nodes, base, p)
			}
		}
		for _, v := range n.Config["reservedMemory"].([]any) {
			one := v.(map[string]any)
			id := int(one["numaNode"].(int64))
			bytes := resource.MustParse(one["limits"].(map[string]any)["memory"].(string))
			room := *facts.NUMA[id].MemoryBytes - countHugePages(facts.NUMA[id])
			if bytes.Value() > room {
				t.Fatalf("%s on %d nodes: got %d bytes on node %d, want at most %d", site, nodes, bytes.Value(), id, room)
			}
		}
	}
}

func TestMemoryManagerMessages(t *testing.T) {
	nothing := map[string]any{"evictionHard": map[string]any{"nodefs.available": "5%"}}
	percent := map[string]any{"evictionHard": map[string]any{"memory.available": "5%"}}
	for _, c := range []struct {
		name, site string
		base       map[string]any
		want       string
	}{
		{name: "nothing is reserved", site: "policy = \"static\"\nstatic { cpu = 1 }" + managed, base: nothing,
			want: "The memory manager needs some reserved memory"},
		{name: "a threshold in percent", site: "policy = \"static\"\nstatic { memory = \"1Gi\" }" + managed,
			base: percent, want: "evictionHard of memory.available is 5%, which is 429496736 here"},
		{name: "another word", site: "policy = \"gke\"\nmemory_manager = \"static\"", want: "is not one of Static"},
		{name: "null", site: "policy = \"gke\"\nmemory_manager = null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := decide(t, c.site, withBase(machineOf(4, 8*gib), c.base))
			if got := formatDiagnostics(r.diags); !strings.Contains(got, c.want) || c.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
