package reference

import (
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
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

// FactRow is a place of the tree of facts with its type.
type FactRow struct {
	Fact
	Type cty.Type `json:"type"`
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
