package machineid

import (
	"encoding/json"
	"io/fs"
	"testing"
)

// oneGeneration is a store with generation 1.
type oneGeneration struct {
	plan     Hashes
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
	was := Hashes{ID: "i", Product: "p", Host: hashHost("n1")}
	renewed := Accepted{FormatVersion: 1, Generation: 1, Hashes: Hashes{ID: "new", Product: "p", Host: hashHost("n1")}}
	const other, both, three = "the machine id is not the one of generation 1",
		"the machine id and the host name are not those of generation 1",
		"the machine id and the product uuid and the host name are not those of generation 1"
	for _, c := range []struct {
		name      string
		store     oneGeneration
		here      Hashes
		certified string
		want      Verdict
		differing string
	}{
		{"the same", oneGeneration{plan: was}, was, "n1", ThisMachine, ""},
		{"nothing is known here", oneGeneration{plan: was}, Hashes{}, "n1", ThisMachine, ""},
		{"an empty machine id", oneGeneration{plan: was}, Hashes{Product: "p"}, "", ThisMachine, ""},
		{"another machine id", oneGeneration{plan: was}, Hashes{ID: "x", Product: "p"}, "", ThisMachine, other},
		{
			"another board", oneGeneration{plan: was}, Hashes{ID: "i", Product: "x"}, "", ThisMachine,
			"the product uuid is not the one of generation 1",
		},
		{"another name", oneGeneration{plan: was}, Hashes{ID: "i", Host: hashHost("n2")}, "n1", ThisMachine, ""},
		{
			"all but the board", oneGeneration{plan: was}, Hashes{ID: "x", Product: "p", Host: hashHost("n2")}, "n1", NotKnown, both,
		},
		{"all", oneGeneration{plan: was}, Hashes{ID: "x", Product: "y", Host: hashHost("n2")}, "n1", AnotherMachine, three},
		{
			"the certificate has the name of the host", oneGeneration{plan: Hashes{ID: "i", Host: hashHost("n9")}},
			Hashes{ID: "x", Host: hashHost("n1")}, "N1", ThisMachine, other,
		},
		{
			"the certificate has another name", oneGeneration{plan: Hashes{ID: "i"}},
			Hashes{ID: "x", Host: hashHost("n2")}, "n1", AnotherMachine, both,
		},
		{
			"a copy that has joined", oneGeneration{was, "n1", nil},
			Hashes{ID: "x", Product: "y", Host: hashHost("n7")}, "n7", AnotherMachine, three,
		},
		{"a certificate alone", oneGeneration{plan: Hashes{ID: "i"}}, Hashes{ID: "i", Host: hashHost("n2")}, "n1", ThisMachine, ""},
		{"only the machine id", oneGeneration{plan: was}, Hashes{ID: "x"}, "", NotKnown, other},
		{
			"only the name", oneGeneration{plan: was}, Hashes{Host: hashHost("n2")}, "", NotKnown,
			"the host name is not the one of generation 1",
		},
		{"accepted", oneGeneration{was, "", &renewed}, Hashes{ID: "new", Product: "p"}, "", ThisMachine, ""},
		{
			"a copy of an accepted one", oneGeneration{was, "", &renewed}, Hashes{ID: "x", Product: "x"}, "", AnotherMachine,
			"the machine id and the product uuid are not those of generation 1",
		},
		{
			"an older generation, whose node has the name of the host",
			oneGeneration{Hashes{ID: "i", Product: "p"}, "n1", nil},
			Hashes{ID: "x", Product: "x", Host: hashHost("n2")}, "", AnotherMachine, three,
		},
		{
			"a generation of an image", oneGeneration{Hashes{}, "debian", nil},
			Hashes{ID: "i", Product: "p", Host: hashHost("n1")}, "n7", ThisMachine, "",
		},
	} {
		v := Compare(c.store, 1, c.here, func() (string, bool) { return c.certified, c.certified != "n7" })
		if v.Verdict != c.want || v.Differing != c.differing {
			t.Errorf("%s: got %s, %q; want %s, %q", c.name, v.Verdict, v.Differing, c.want, c.differing)
		}
	}

	// A mark that is unknown here is not forgotten.
	v := Compare(oneGeneration{plan: was}, 1, Hashes{ID: "x", Product: "p"}, nil)
	if want := (Hashes{ID: "x", Product: "p", Host: was.Host}); v.Here != want || !v.IsNews {
		t.Errorf("got %+v; want %+v, and that it is news", v, want)
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
