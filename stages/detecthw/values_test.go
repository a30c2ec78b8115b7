package detecthw

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
)

// machine is one of everything that facts can hold, and of everything that they can lack.
func machine() world.Facts {
	one, gib, yes := 1, 79.6, "10de:2330"
	bytes := int64(2151633289216)
	return world.Facts{
		CPU:          world.CPU{Vendor: &yes, Logical: &one, Cores: []world.CPUCore{{Node: &one, CPUs: []int{0, 1}}, {CPUs: []int{2, 1 << 40}}}},
		Memory:       world.Memory{TotalBytes: &bytes, HugePages: map[string]int{"1Gi": 0, "2Mi": 7}},
		NUMA:         []world.NUMANode{{ID: 3, MemoryBytes: &bytes}},
		PCI:          []world.PCIDevice{{Address: "0000:1b:00.0", Device: yes, Class: "030200", NUMA: &one}},
		Accelerators: []world.Accelerator{{Kind: "gpu", MemoryGiB: &gib, SRIOV: world.SRIOV{TotalVFs: &one}}},
		NICs:         []world.NIC{},
		Interfaces:   map[string]world.Interface{"eth0": {IPv4: []string{"192.0.2.7"}, MTU: &one}},
		OS:           world.OS{IDLike: []string{"debian"}},
		Unknown:      []world.UnknownFact{{Fact: "product.name", Why: "an äöü", Degraded: true}},
	}
}

// TestFactsValue compares with the reader of JSON, which is bounded and slow and knows nothing of Go's types.
func TestFactsValue(t *testing.T) {
	for name, f := range map[string]world.Facts{"full": machine(), "empty": {}} {
		raw, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		want, err := value.FromJSONTyped(raw, factsType())
		if err != nil {
			t.Fatal(err)
		}
		all, err := factsValue(f, func(string) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		got := cty.ObjectVal(all)
		if !got.Type().Equals(factsType()) {
			t.Errorf("%s: the type is not that of the stage's outputs", name)
		}
		if !got.RawEquals(want) {
			t.Errorf("%s: got %#v, want %#v", name, got, want)
		}
	}
}

// What nobody wants is unknown and of its type, never null: nobody may take it for a fact.
func TestFactsValueUnwanted(t *testing.T) {
	got, err := factsValue(machine(), func(name string) bool { return name == "memory" })
	if err != nil {
		t.Fatal(err)
	}
	for name, typ := range factsType().AttributeTypes() {
		if v := got[name]; !v.Type().Equals(typ) || v.IsKnown() != (name == "memory") {
			t.Errorf("%s is %#v", name, v)
		}
	}
}

func TestFactsValueRefuses(t *testing.T) {
	bad := "\ue000cred:x\ue001"
	for path, change := range map[string]func(*world.Facts){
		".product.name":       func(f *world.Facts) { f.Product.Name = &bad },
		".pci[0].class":       func(f *world.Facts) { f.PCI[0].Class = bad },
		".interfaces[":        func(f *world.Facts) { f.Interfaces[bad] = world.Interface{} },
		".os.id_like[0]":      func(f *world.Facts) { f.OS.IDLike[0] = bad },
		".unknown[0].why: th": func(f *world.Facts) { f.Unknown[0].Why = bad },
	} {
		f := machine()
		change(&f)
		var said []string
		for _, wanted := range []bool{true, false} {
			_, err := factsValue(f, func(string) bool { return wanted })
			if err == nil || !strings.HasPrefix(err.Error(), path) {
				t.Fatalf("%s, wanted %v: a placeholder of a credential came in as a fact: %v", path, wanted, err)
			}
			said = append(said, err.Error())
		}
		if said[0] != said[1] {
			t.Errorf("%s: one machine, two reasons: %q", path, said)
		}
	}
}

// BenchmarkFactsValue is 112 cores of two threads.
func BenchmarkFactsValue(b *testing.B) {
	f, node := machine(), 0
	f.CPU.Cores = nil
	for i := range 112 {
		f.CPU.Cores = append(f.CPU.Cores, world.CPUCore{Node: &node, Package: &node, CPUs: []int{i, i + 112}})
	}
	b.ReportAllocs()
	var v map[string]cty.Value
	for b.Loop() {
		v, _ = factsValue(f, func(string) bool { return true })
	}
	_ = v
}
