package detecthw

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
)

// machine is one of everything that facts can hold, and of everything that they can lack.
func machine() tape.Facts {
	one, gib, yes := 1, 79.6, "10de:2330"
	bytes := int64(2151633289216)
	return tape.Facts{
		CPU: tape.CPU{
			Vendor:  &yes,
			Logical: &one,
			Cores:   []tape.CPUCore{{Node: &one, CPUs: []int{0, 1}}, {CPUs: []int{2, 1 << 40}}},
		},
		Memory:       tape.Memory{TotalBytes: &bytes, HugePages: map[string]int{"1Gi": 0, "2Mi": 7}},
		NUMA:         []tape.NUMANode{{ID: 3, MemoryBytes: &bytes}},
		PCI:          []tape.PCIDevice{{Address: "0000:1b:00.0", Device: yes, Class: "030200", NUMA: &one}},
		Accelerators: []tape.Accelerator{{Kind: "gpu", MemoryGiB: &gib, SRIOV: tape.SRIOV{TotalVFs: &one}}},
		NICs:         []tape.NIC{},
		Interfaces:   map[string]tape.Interface{"eth0": {IPv4: []string{"192.0.2.7"}, MTU: &one}},
		OS:           tape.OS{IDLike: []string{"debian"}},
		Unknown:      []tape.UnknownFact{{Fact: "product.name", Why: "an äöü", Degraded: true}},
	}
}

// TestFactsValue: a nil pointer is null, a nil list or map is empty, and numbers are exact.
func TestFactsValue(t *testing.T) {
	for name, c := range map[string]struct {
		facts tape.Facts
		want  map[string]cty.Value
	}{
		"empty": {tape.Facts{}, map[string]cty.Value{
			"machine_id": cty.NullVal(cty.String),
			"pci":        value.Absent(factsType().AttributeType("pci")),
			"interfaces": value.Absent(factsType().AttributeType("interfaces")),
		}},
		"full": {machine(), map[string]cty.Value{
			"numa": cty.ListVal([]cty.Value{cty.ObjectVal(map[string]cty.Value{
				"id": cty.NumberIntVal(3), "cpus": cty.ListValEmpty(cty.Number),
				"memory_bytes": cty.NumberIntVal(2151633289216), "hugepages": cty.MapValEmpty(cty.Number),
			})}),
			"unknown": cty.ListVal([]cty.Value{cty.ObjectVal(map[string]cty.Value{
				"fact": cty.StringVal("product.name"), "why": cty.StringVal("an äöü"), "degraded": cty.True,
			})}),
		}},
	} {
		got, err := factsValue(c.facts, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Type().Equals(factsType()) {
			t.Errorf("%s: got type %#v, want that of the stage's outputs", name, got.Type())
		}
		for fact, want := range c.want {
			if v := got.GetAttr(fact); !v.RawEquals(want) {
				t.Errorf("%s: %s: got %#v, want %#v", name, fact, v, want)
			}
		}
	}
}

// TestFactsValueRefuses: a text that cannot be a value is refused with its place, whether or not the site refers to
// the fact.
func TestFactsValueRefuses(t *testing.T) {
	bad := "\ue000cred:x\ue001"
	for path, change := range map[string]func(*tape.Facts){
		".product.name":       func(f *tape.Facts) { f.Product.Name = &bad },
		".pci[0].class":       func(f *tape.Facts) { f.PCI[0].Class = bad },
		".interfaces[":        func(f *tape.Facts) { f.Interfaces[bad] = tape.Interface{} },
		".os.id_like[0]":      func(f *tape.Facts) { f.OS.IDLike[0] = bad },
		".unknown[0].why: th": func(f *tape.Facts) { f.Unknown[0].Why = bad },
	} {
		f := machine()
		change(&f)
		if _, err := factsValue(f, nil); err == nil || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("a placeholder of a credential as a fact: got error %v, want one at %s", err, path)
		}
	}
}

// TestFactsValueIsThatOfJSON: sites and recordings name facts as their JSON does, so both make the same value, also
// with numbers of the same precision.
func TestFactsValueIsThatOfJSON(t *testing.T) {
	files, err := filepath.Glob("../../testdata/hardware/facts/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("recorded facts: got %d files, %v; want some", len(files), err)
	}
	all := []tape.Facts{machine(), {Unknown: []tape.UnknownFact{{Fact: "gpus"}}}}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var facts tape.Facts
		if err := json.Unmarshal(raw, &facts); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, facts)
	}

	var made []madeFacts
	for i, facts := range all {
		raw, err := json.Marshal(facts)
		if err != nil {
			t.Fatal(err)
		}
		want, err := codec.FromJSONTyped(raw, factsType())
		if err != nil {
			t.Fatal(err)
		}
		got, err := factsValue(facts, nil)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("facts %d: got %#v, %v; want %#v", i, got, err, want)
		}
		made = append(made, madeFacts{facts, got})
	}

	for i, one := range made { // after any other machine it is the same
		for j, before := range made {
			got, err := factsValue(one.facts, &before)
			if err != nil || !reflect.DeepEqual(got, one.value) {
				t.Errorf("facts %d after %d: got %#v, %v; want %#v", i, j, got, err, one.value)
			}
		}
	}
}
