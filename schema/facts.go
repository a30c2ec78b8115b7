package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/texts"
)

// Facts is the tree of the facts that detect-hw finds.
type Facts struct {
	Type cty.Type // an object
	Docs []Fact   // in the order of the pages
}

// Fact documents one place of the tree. Its path is written with [] for each element of a list and {} for each
// element of a map: nics[].speed_gbps.
type Fact struct {
	Path string `json:"path"`
	Doc  string `json:"doc"`
	Like string `json:"like,omitempty"` // the path of a fact with the same attributes, which are documented there
}

// pciAddress matches an address on the PCI bus in lower case, as programs write it.
var pciAddress = texts.LazyRegexp(`^(?:([0-9a-f]{1,8})[:.])?([0-9a-f]{1,2}):([0-9a-f]{1,2})[.:]([0-7])$`)

// inLowerCase are the paths of facts that are in lower case.
const inLowerCase = "accelerators.vendor accelerators.device nics.vendor nics.device pci.device"

// SuggestFact returns the possible values of a fact, in place of a word that it never is; "" if it may be that word.
// Here a path has no index: nics.link.
func SuggestFact(path, word string) string {
	path = strings.Replace(path, "gpus.", "accelerators.", 1)
	right := word
	switch {
	case slices.Contains(strings.Fields(inLowerCase), path):
		right = strings.ToLower(word)
	case path == "cpu.architecture":
		right = strings.NewReplacer("x86_64", "amd64", "aarch64", "arm64").Replace(word)
	case strings.HasPrefix(path, "interfaces.") && strings.HasSuffix(path, "mac"):
		right = strings.ReplaceAll(strings.ToLower(word), "-", ":")
	case slices.Contains(strings.Fields("accelerators.address nics.address pci.address pci.physfn pci.parent"), path):
		part := pciAddress().FindStringSubmatch(strings.ToLower(word))
		if part == nil {
			return `It is an address on the PCI bus, as "0000:1b:00.0".`
		}
		right = fmt.Sprintf("%04s:%02s:%02s.%s", strings.TrimLeft(part[1], "0"), part[2], part[3], part[4])
	}
	if right != word {
		return fmt.Sprintf("Write %q.", right)
	}
	words := strings.Fields(map[string]string{
		"accelerators.kind":          "dpu fpga gpu npu",
		"cpu.cores.kind":             "efficient low-power performance",
		"nics.infiniband.link_layer": "ethernet infiniband unspecified",
		"nics.link":                  "down up",
		"runtime.cgroup_driver":      "cgroupfs systemd",
	}[path])
	if len(words) == 0 || slices.Contains(words, word) {
		return ""
	}

	return Suggest(word, words)
}

// FactRow is a place of the tree of facts with its type.
type FactRow struct {
	Fact
	Type cty.Type `json:"type"`
}

// MarshalJSON returns the rows.
func (f Facts) MarshalJSON() ([]byte, error) {
	return encode(f.Rows())
}

// Rows returns every place of the tree in the order of the docs; places without docs come last.
func (f Facts) Rows() []FactRow {
	var rows []FactRow
	f.walk("", f.Type, &rows)
	at := func(path string) int {
		if i := slices.IndexFunc(f.Docs, func(d Fact) bool {
			return d.Path == path
		}); i >= 0 {
			return i
		}
		return len(f.Docs)
	}
	slices.SortStableFunc(rows, func(a, b FactRow) int {
		if c := at(a.Path) - at(b.Path); c != 0 {
			return c
		}
		return strings.Compare(a.Path, b.Path)
	})
	return rows
}

func (f Facts) walk(path string, t cty.Type, rows *[]FactRow) {
	row := FactRow{Fact: Fact{Path: path}, Type: t}
	if i := slices.IndexFunc(f.Docs, func(d Fact) bool {
		return d.Path == path
	}); i >= 0 {
		row.Fact = f.Docs[i]
	}
	if path != "" {
		*rows = append(*rows, row)
	}
	if row.Like != "" {
		return
	}
	switch {
	case t.IsListType() && t.ElementType().IsObjectType():
		path = path + "[]"
		t = t.ElementType()
	case t.IsMapType() && t.ElementType().IsObjectType():
		path = path + "{}"
		t = t.ElementType()
	case !t.IsObjectType():
		return
	}
	if path != "" {
		path += "."
	}
	names := make([]string, 0, len(t.AttributeTypes()))
	for n := range t.AttributeTypes() {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		f.walk(path+n, t.AttributeType(n), rows)
	}
}
