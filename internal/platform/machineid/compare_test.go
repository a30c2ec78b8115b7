package machineid

import (
	"encoding/json"
	"io/fs"
	"testing"
)

// oneGeneration is a store with generation 1.
type oneGeneration struct {
	plan     Machine
	node     string
	accepted *Accepted
}

func (g oneGeneration) Blob(gen int, name string) ([]byte, error) {
	switch {
	case gen != 1:
		return nil, fs.ErrNotExist
	case name == "plan.json":
		return json.Marshal(g.plan)
	case name == "activation.json":
		return json.Marshal(map[string]string{"node": g.node})
	}

	return nil, fs.ErrNotExist
}

func (g oneGeneration) StateFile(string) ([]byte, error) {
	if g.accepted == nil {
		return nil, fs.ErrNotExist
	}

	return json.Marshal(g.accepted)
}

func TestCompare(t *testing.T) {
	was := Machine{ID: "i", Product: "p", Host: hashHost("n1")}
	renewed := Accepted{FormatVersion: 1, Generation: 1, Machine: Machine{ID: "new", Product: "p", Host: hashHost("n1")}}
	for _, c := range []struct {
		name      string
		store     oneGeneration
		here      Machine
		isForeign bool
		isCertain bool
		isChanged bool
	}{
		{"the same", oneGeneration{plan: was}, was, false, false, false},
		{"nothing is known here", oneGeneration{plan: was}, Machine{}, false, false, false},
		{"an empty machine id", oneGeneration{plan: was}, Machine{Product: "p"}, false, false, false},
		{"another machine id", oneGeneration{plan: was}, Machine{ID: "x", Product: "p"}, false, false, true},
		{"another board", oneGeneration{plan: was}, Machine{ID: "i", Product: "x"}, false, false, true},
		{"another name", oneGeneration{plan: was}, Machine{ID: "i", Host: "x"}, false, false, false},
		{"two of three", oneGeneration{plan: was}, Machine{ID: "x", Product: "p", Host: "x"}, true, true, false},
		{"only the machine id", oneGeneration{plan: was}, Machine{ID: "x"}, true, false, false},
		{"only the name", oneGeneration{plan: was}, Machine{Host: "x"}, true, false, false},
		{"accepted", oneGeneration{was, "", &renewed}, Machine{ID: "new", Product: "p"}, false, false, false},
		{"a copy of an accepted one", oneGeneration{was, "", &renewed}, Machine{ID: "x", Product: "x"}, true, true, false},
		{
			"an older generation, whose node has the name of the host",
			oneGeneration{Machine{ID: "i", Product: "p"}, "n1", nil},
			Machine{ID: "i", Product: "x", Host: hashHost("n2")}, true, true, false,
		},
		{
			"a generation of an image",
			oneGeneration{Machine{}, "debian", nil}, Machine{ID: "i", Product: "p", Host: hashHost("n1")}, false, false, false,
		},
	} {
		v := Compare(c.store, 1, c.here)
		if (v.Why != "") != c.isForeign || v.IsCertain != c.isCertain || (v.Changed != "") != c.isChanged {
			t.Errorf("%s: got %+v; want foreign %t, certain %t, changed %t", c.name, v, c.isForeign, c.isCertain, c.isChanged)
		}
	}

	// A mark that is unknown here is not forgotten.
	v := Compare(oneGeneration{plan: was}, 1, Machine{ID: "x", Product: "p"})
	if want := (Machine{ID: "x", Product: "p", Host: was.Host}); v.Here != want || !v.IsNews {
		t.Errorf("got %+v; want %+v, and that it is news", v, want)
	}
}
