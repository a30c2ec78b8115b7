package lab

import (
	"encoding/json"
	"fmt"
	"slices"
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
	if json.Unmarshal(text, &document) != nil {
		return nil
	}
	f := madeUp{facts: &document.Facts, vendors: probe.Vendors()}
	if document.Inner != nil {
		f.facts = document.Inner
	}

	if err := codec.DecodeStrict(text, new(json.RawMessage), f.suggest); err != nil {
		return codec.FaultIn(fault.HardwareFailed, path, text, err)
	}

	return nil
}

// madeUp finds values that facts contradict.
type madeUp struct {
	facts   *tape.Facts
	vendors []string
	cards   []string // the names of interfaces so far
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
		return m.suggestNode(text)
	case isNumber && name == "cpu.logical":
		return m.suggestLogical(text)
	case name == "nics.interface" && value != nil:
		isTwice := slices.Contains(m.cards, text)
		m.cards = append(m.cards, text)
		if isTwice {
			return "Another card has this name."
		}
	case name == "nics.vendor" || name == "accelerators.vendor" || name == "gpus.vendor":
		near := texts.Nearest(text, m.vendors)
		if value != nil && near != "" && near != text {
			return fmt.Sprintf("Did you mean %q?", near)
		}
	}

	return ""
}

// suggestNode returns the NUMA nodes of the machine in place of another number.
func (m *madeUp) suggestNode(text string) string {
	var ids []string
	for _, n := range m.facts.NUMA {
		ids = append(ids, fmt.Sprint(n.ID))
	}
	if len(ids) == 0 || slices.Contains(ids, text) {
		return ""
	}

	return "The NUMA nodes are: " + strings.Join(ids, ", ") + "."
}

// suggestLogical returns the number of CPUs that the cores have, if it is another one.
func (m *madeUp) suggestLogical(text string) string {
	count := 0
	for _, c := range m.facts.CPU.Cores {
		count += len(c.CPUs)
	}
	if count == 0 || fmt.Sprint(count) == text {
		return ""
	}

	return fmt.Sprintf("The cores have %d CPUs.", count)
}
