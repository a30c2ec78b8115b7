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
	for name, c := range table.YAML[map[string]struct {
		Plan       []string
		Node       string // of the activation
		IsAccepted bool
		Here       []string
		Certified  string
		Want       string
		Differing  string
	}](t, `
the same: {plan: ['{was}'], here: ['{was}'], certified: n1, want: '{this}'}
nothing is known here: {plan: ['{was}'], certified: n1, want: '{this}'}
an empty machine id: {plan: ['{was}'], here: [product=p], want: '{this}'}
another machine id: {plan: ['{was}'], here: [id=x, product=p], want: '{this}',
  differing: 'the machine id is not the {one}'}
another board: {plan: ['{was}'], here: [id=i, product=x], want: '{this}',
  differing: 'the product uuid is not the {one}'}
another name: {plan: ['{was}'], here: [id=i, host=n2], certified: n1, want: '{this}'}
all but the board: {plan: ['{was}'], here: [id=x, product=p, host=n2], certified: n1, want: '{unclear}',
  differing: '{both}'}
all: {plan: ['{was}'], here: [id=x, product=y, host=n2], certified: n1, want: '{other}', differing: '{three}'}
the certificate has the name of the host: {plan: [id=i, host=n9], here: [id=x, host=n1], certified: N1,
  want: '{this}', differing: 'the machine id is not the {one}'}
the certificate has another name: {plan: [id=i], here: [id=x, host=n2], certified: n1, want: '{other}',
  differing: '{both}'}
a copy that has joined: {plan: ['{was}'], node: n1, here: [id=x, product=y, host=n7], certified: n7, want: '{other}',
  differing: '{three}'}
a certificate alone: {plan: [id=i], here: [id=i, host=n2], certified: n1, want: '{this}'}
only the machine id: {plan: ['{was}'], here: [id=x], want: '{unclear}', differing: 'the machine id is not the {one}'}
only the name: {plan: ['{was}'], here: [host=n2], want: '{unclear}', differing: 'the host name is not the {one}'}
accepted: {plan: ['{was}'], isAccepted: true, here: [id=new, product=p], want: '{this}'}
a copy of an accepted one: {plan: ['{was}'], isAccepted: true, here: [id=x, product=x], want: '{other}',
  differing: 'the machine id and the product uuid {are}'}
an older generation, whose node has the name of the host: {plan: [id=i, product=p], node: n1,
  here: [id=x, product=x, host=n2], want: '{other}', differing: '{three}'}
a generation of an image: {node: debian, here: [id=i, product=p, host=n1], certified: n7, want: '{this}'}
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
