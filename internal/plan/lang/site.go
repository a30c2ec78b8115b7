// Package lang turns files into a site: it finds them in layers, as systemd finds units, checks their limits, parses
// them, applies overrides and checks every block against the schema. Load reads from Files, which OS provides, and
// Parse takes files that were read before. It must not evaluate anything: package eval does.
//
// A duplicate key of an object, and a --var that the site does not declare, are errors. HCL takes the last key
// silently; both are nearly always typing errors.
package lang

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/stages"
)

// Site is a checked site that is not evaluated. All bodies are native syntax trees with overrides applied; ranges are
// those of the file that an attribute comes from.
type Site struct {
	Files     []tape.SiteFile   // every file that was read, in order, vars files included
	Layers    []Layer           // where Load looked, in order, with the files without effect; nil in a recording
	Sources   map[string][]byte // by the file names of ranges, for snippets and explain
	Prelet    *hclsyntax.Body   // nil: not written
	Cluster   *hclsyntax.Body
	Node      *hclsyntax.Body
	Delivery  *hclsyntax.Body
	Variables map[string]*Variable
	Locals    map[string]*Local
	Detectors map[string]*Detector
	Stages    []*Instance                     // in site order: file, then position
	Values    map[string]hclsyntax.Expression // from vars files
	Overrides []Override
	Templates map[string]hclsyntax.Expression // the *.tftpl files, by name without folder
	Data      map[string]cty.Value            // of the data files, by name without folder
	Secrets   []string                        // what in the files is evidently a secret

	mentions *sync.Map // a Mentions for each expression that has been asked for
}

// Variable is a variable block. The default type is string.
type Variable struct {
	Name        string
	Type        cty.Type
	Default     hclsyntax.Expression // nil: none
	Description string
	Sensitive   bool
	Rules       []Rule
	Range       hcl.Range
}

// Rule is one validation block.
type Rule struct {
	Condition hclsyntax.Expression
	Message   hclsyntax.Expression // of literals and variables
	Range     hcl.Range
}

// Local is one name of a locals block.
type Local struct {
	Expr  hclsyntax.Expression
	Range hcl.Range
}

// Detector is a detector block.
type Detector struct {
	Name  string
	Body  *hclsyntax.Body
	Range hcl.Range
}

// Instance is a stage block. Body has the arguments of the stage type; those of all stages are fields here.
type Instance struct {
	Type, Name string
	Stage      stages.Stage
	Spec       stages.Spec
	Body       *hclsyntax.Body
	When       hclsyntax.Expression // nil: not written
	ForEach    hclsyntax.Expression
	Timeout    hclsyntax.Expression
	OnFailure  string // fail | continue
	Range      hcl.Range
}

// Addr returns TYPE.NAME.
func (i *Instance) Addr() string { return i.Type + "." + i.Name }

// Override is one change by an override block, for explain.
type Override struct {
	Address string    // "stage.reserve.node policy"
	Base    hcl.Range // zero: added
	Over    hcl.Range
	Dropped []string // keys of the replaced map that the new one lacks, as far as both are written out: "a", "b.c"
}

// Digest returns a hash of the files in effect, in their order: their names without folders, and their contents. It is
// the same on a node and for a checkout.
func (s *Site) Digest() string {
	hash := sha256.New()
	for _, f := range s.Files {
		fmt.Fprintf(hash, "%q %d\n%s", path.Base(f.Name), len(f.Text), f.Text)
	}

	return fmt.Sprintf("sha256:%x", hash.Sum(nil))
}

// Stage returns the stage with an address; nil if the site has none.
func (s *Site) Stage(addr string) *Instance {
	for _, i := range s.Stages {
		if i.Addr() == addr {
			return i
		}
	}

	return nil
}

// DetectorNames returns the names of the detectors, sorted.
func (s *Site) DetectorNames() []string { return slices.Sorted(maps.Keys(s.Detectors)) }

// OfType returns the stages of a type, in site order.
func (s *Site) OfType(typ string) (out []*Instance) {
	for _, i := range s.Stages {
		if i.Type == typ {
			out = append(out, i)
		}
	}

	return out
}
