package reserve

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/tape"
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
	must(t, err)

	return strings.NewReplacer(`"limits":{"memory":`, "", `},"numaNode":`, "@", `"`, "").Replace(string(raw))
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
	for _, c := range readCases(t, "memory manager") {
		t.Run(c.Name, func(t *testing.T) {
			in := c.inputs(t)
			in.Base.ConfigKnown = true
			r := mustDecide(t, c.Site+managed, in)
			if got := reservedMemoryOf(t, r); got != c.Want {
				t.Errorf("got reservedMemory %s, want %s", got, c.Want)
			}
			if got := r.node.Config["memoryManagerPolicy"]; got != "Static" {
				t.Errorf("got memoryManagerPolicy %v, want Static", got)
			}

			left := mustDecide(t, c.Site, in)
			if got, want := left.node.Config["memoryManagerPolicy"], in.Base.Config["memoryManagerPolicy"]; got != want {
				t.Errorf("without memory_manager: got memoryManagerPolicy %v, want %v as in the base", got, want)
			}
		})
	}
}

// TestMemoryManagerFollowsFlags: a flag changes the sum after the stage has decided.
func TestMemoryManagerFollowsFlags(t *testing.T) {
	in := machineOf(4, 8*gib)
	in.Base.Flags = []desired.Flag{{Name: "system-reserved", Value: "memory=333Mi"}}
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
		must(t, c.Merge(n.Config))
		facts := in.Facts
		for _, p := range rules.Check(rules.Subject{Config: c, Machine: rules.NewMachine(facts, tape.KubeletAns{})}) {
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
