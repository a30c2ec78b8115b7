package machineid

import (
	"encoding/json"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
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

// parseHashes returns what "id=ID product=UUID host=NAME" says, in any part.
func parseHashes(words []string) (h Hashes) {
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "id":
			h.ID = value
		case "product":
			h.Product = value
		case "host":
			h.Host = hashHost(value)
		}
	}

	return h
}

func TestCompare(t *testing.T) {
	was := Hashes{ID: "i", Product: "p", Host: hashHost("n1")}
	renewed := Accepted{FormatVersion: 1, Generation: 1, Hashes: Hashes{ID: "new", Product: "p", Host: hashHost("n1")}}
	for name, c := range table.Map[struct {
		Plan       []string
		Node       string // of the activation
		IsAccepted bool
		Here       []string
		Certified  string
		Want       string
		Differing  string
	}](t, `
		the same                  | {was}       |    | false | {was}                | n1 | {this}  |
		nothing is known here     | {was}       |    | false |                      | n1 | {this}  |
		an empty machine id       | {was}       |    | false | product=p            |    | {this}  |
		another machine id        | {was}       |    | false | id=x product=p       |    | {this}  | the machine id is not the {one}
		another board             | {was}       |    | false | id=i product=x       |    | {this}  | the product uuid is not the {one}
		another name              | {was}       |    | false | id=i host=n2         | n1 | {this}  |
		all but the board         | {was}       |    | false | id=x product=p host=n2 | n1 | {unclear} | {both}
		all                       | {was}       |    | false | id=x product=y host=n2 | n1 | {other} | {three}
		the certificate has the name of the host | id=i host=n9 | | false | id=x host=n1 | N1 | {this} | the machine id is not the {one}
		the certificate has another name | id=i |    | false | id=x host=n2         | n1 | {other} | {both}
		a copy that has joined    | {was}       | n1 | false | id=x product=y host=n7 | n7 | {other} | {three}
		a certificate alone       | id=i        |    | false | id=i host=n2         | n1 | {this}  |
		only the machine id       | {was}       |    | false | id=x                 |    | {unclear} | the machine id is not the {one}
		only the name             | {was}       |    | false | host=n2              |    | {unclear} | the host name is not the {one}
		accepted                  | {was}       |    | true  | id=new product=p     |    | {this}  |
		a copy of an accepted one | {was}       |    | true  | id=x product=x       |    | {other} | the machine id and the product uuid {are}
		an older generation, whose node has the name of the host | id=i product=p | n1 | false | id=x product=x host=n2
		  |    | {other} | {three}
		a generation of an image  |             | debian | false | id=i product=p host=n1 | n7 | {this} |
	`, "was", "was", "this", ThisMachine.String(), "unclear", NotKnown.String(), "other", AnotherMachine.String(),
		"one", "one of generation 1", "are", "are not those of generation 1",
		"both", "the machine id and the host name are not those of generation 1",
		"three", "the machine id and the product uuid and the host name are not those of generation 1") {
		parse := func(words []string) Hashes {
			if slices.Equal(words, []string{"was"}) {
				return was
			}
			return parseHashes(words)
		}
		store := oneGeneration{plan: parse(c.Plan), node: c.Node}
		if c.IsAccepted {
			store.accepted = &renewed
		}
		v := Compare(store, 1, parse(c.Here), func() (string, bool) { return c.Certified, c.Certified != "n7" })
		if v.Verdict.String() != c.Want || v.Differing != c.Differing {
			t.Errorf("%s: got %s, %q; want %s, %q", name, v.Verdict, v.Differing, c.Want, c.Differing)
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
