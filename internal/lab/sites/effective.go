package sites

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/lang"
)

// Effective lists the files, variables and overrides of a site, those without effect too. As JSON it is the document of
// `site`.
type Effective struct {
	FormatVersion int        `json:"format_version"`
	Digest        string     `json:"digest"`
	Signature     string     `json:"signature"`         // see machine.LoadedSite
	Counter       uint64     `json:"counter,omitempty"` // of a signed list of all layers
	Layers        []Layer    `json:"layers"`
	Variables     []Variable `json:"variables"`
	Overrides     []Override `json:"overrides"`

	Site        *lang.Site      `json:"-"`
	Diagnostics hcl.Diagnostics `json:"-"`
}

// Layer is a folder or file of a site, with the state of each of its files. Later layers win.
type Layer struct {
	Path  string           `json:"path"`
	List  *lang.SignedList `json:"list,omitempty"` // its signed list, if that is of this layer
	Files []LayerEntry     `json:"files"`
}

type LayerEntry struct {
	Path  string          `json:"path"`
	State lang.LayerState `json:"state"`
	Why   string          `json:"why,omitempty"` // it is ignored
	By    string          `json:"by,omitempty"`  // the file that hides or masks it
}

// Variable is a variable with the value that it has in the site. The sources of a machine win over it.
type Variable struct {
	Name      string   `json:"name"`
	Sensitive bool     `json:"sensitive,omitempty"`
	Value     string   `json:"value,omitempty"` // as it is written; "" where the site has none
	From      string   `json:"from,omitempty"`  // the place of the value
	Lost      []string `json:"lost,omitempty"`  // the places of other values, the last of them wins over the others
}

// Override is a part of a block that an override has replaced or added.
type Override struct {
	Address string `json:"address"`
	From    string `json:"from"`
	Lost    string `json:"lost,omitempty"`
}

// toLine returns FILE:LINE of a place; "" for none.
func toLine(at hcl.Range) string {
	if at.Filename == "" {
		return ""
	}

	return fmt.Sprintf("%s:%d", at.Filename, at.Start.Line)
}

// Effect lists the files, variables and overrides of a site. It needs no machine.
func Effect(e *machine.Env, w lab.Request) (Effective, error) {
	g, err := lab.Read(e, w)
	if err != nil {
		return Effective{}, err
	}

	s := g.Loaded.Site
	out := Effective{
		FormatVersion: 1,
		Digest:        s.Digest(),
		Signature:     g.Loaded.Signature,
		Layers:        []Layer{},
		Variables:     []Variable{},
		Overrides:     []Override{},
		Site:          s,
		Diagnostics:   slices.DeleteFunc(g.Loaded.Diags, origin.IsNote), // the listing has them
	}
	for _, l := range s.Layers {
		layer := Layer{Path: l.Path, List: l.List, Files: []LayerEntry{}}
		if l.List != nil && l.List.Name == "" {
			layer.List, out.Counter = nil, l.List.Counter
		}
		for _, f := range l.Files {
			file := LayerEntry{Path: f.Path, State: f.State, By: f.By}
			if f.State == lang.Ignored {
				file.Why = f.WhyIgnored()
			}
			layer.Files = append(layer.Files, file)
		}
		out.Layers = append(out.Layers, layer)
	}

	lost := map[string][]string{}
	for _, o := range s.Overrides {
		name, isVariable := strings.CutPrefix(o.Address, "var.")
		if isVariable {
			lost[name] = append(lost[name], toLine(o.Base))
		} else {
			out.Overrides = append(out.Overrides, Override{o.Address, toLine(o.Over), toLine(o.Base)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Variables)) {
		v := s.Variables[name]
		x := Variable{Name: name, Sensitive: v.Sensitive}
		value := cmp.Or(s.Values[name], v.Default)
		if value != nil {
			at := value.Range()
			x.Value = strings.Join(strings.Fields(string(at.SliceBytes(s.Sources[at.Filename]))), " ")
			x.From = toLine(at)
		}
		if v.Default != nil && value != v.Default {
			x.Lost = []string{toLine(v.Default.Range())}
		}
		x.Lost = append(x.Lost, lost[name]...)
		out.Variables = append(out.Variables, x)
	}

	return out, nil
}
