package lab

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// maxFacts bounds a file of facts, in bytes.
const maxFacts = 16 << 20

// checkFacts refuses a file of facts that no machine has: a person has edited it, and a site would be tested for
// nothing. A file that cannot be decoded is not judged: to read its facts is an error.
func checkFacts(path string) error {
	text, err := nodefile.ReadFile(path, maxFacts)
	if err != nil {
		return nil
	}
	var document struct {
		tape.Facts

		Inner *tape.Facts `json:"facts"`
	}
	if tape.RecordingBounds.Check(text) != nil || json.Unmarshal(text, &document) != nil {
		return nil
	}
	facts := &document.Facts
	if document.Inner != nil {
		facts = document.Inner
	}
	f := newMadeUp(facts)

	if err := codec.DecodeStrict(text, new(json.RawMessage), f.suggest); err != nil {
		return codec.FaultIn(fault.HardwareFailed, path, text, err)
	}

	return nil
}

// madeUp finds values that facts contradict.
type madeUp struct {
	nodes   []string // the NUMA nodes
	logical int      // the CPUs that the cores have
	vendors []string
	cards   map[string]bool // the names of interfaces so far
}

func newMadeUp(f *tape.Facts) *madeUp {
	m := &madeUp{vendors: probe.Vendors(), cards: map[string]bool{}}
	for _, n := range f.NUMA {
		m.nodes = append(m.nodes, strconv.Itoa(n.ID))
	}
	for _, c := range f.CPU.Cores {
		m.logical += len(c.CPUs)
	}

	return m
}

// suggest is a codec.Suggest.
func (m *madeUp) suggest(path []string, value json.Token) string {
	isIndex := func(name string) bool { return strings.Trim(name, "0123456789") == "" }
	name := strings.Join(slices.DeleteFunc(slices.Clone(path), isIndex), ".")
	name = strings.TrimPrefix(name, "facts.")
	text := fmt.Sprint(value)
	_, isNumber := value.(json.Number)

	switch {
	case isNumber && strings.HasPrefix(text, "-"):
		return "Write a number from 0."
	case isNumber && (strings.HasSuffix(name, ".numa") || name == "cpu.cores.node"):
		if len(m.nodes) > 0 && !slices.Contains(m.nodes, text) {
			return "The NUMA nodes are: " + strings.Join(m.nodes, ", ") + "."
		}
	case isNumber && name == "cpu.logical":
		if m.logical > 0 && strconv.Itoa(m.logical) != text {
			return fmt.Sprintf("The cores have %d CPUs.", m.logical)
		}
	case name == "nics.interface" && value != nil:
		if m.cards[text] {
			return "Another card has this name."
		}
		m.cards[text] = true
	case name == "nics.vendor" || name == "accelerators.vendor" || name == "gpus.vendor":
		near := texts.Nearest(text, m.vendors)
		if value != nil && near != "" && near != text {
			return fmt.Sprintf("Did you mean %q?", near)
		}
	}

	return ""
}
