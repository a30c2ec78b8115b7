// Package site turns files into a site: found as systemd finds units, bounded before they are parsed, JSON turned
// into the native syntax tree, layers laid over each other, every block checked against the schema, stages in
// order. It evaluates nothing; package eval below it does. It reads through the Files that its caller gives, and
// only os.go knows package os.
package site

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

// Site is what applies to a node: checked in form, not evaluated. All bodies are native syntax trees, overrides
// already applied, ranges those of the file that an attribute came from.
type Site struct {
	Files     []world.SiteFile  // every file that was read, in order, vars files included
	Sources   map[string][]byte // by file name as ranges have it: for snippets and explain
	Prelet    *hclsyntax.Body   // nil: not written
	Cluster   *hclsyntax.Body
	Node      *hclsyntax.Body
	Variables map[string]*Variable
	Locals    map[string]*Local
	Detectors map[string]*Detector
	Stages    []*Instance          // in site order: file, then position
	Values    map[string]FileValue // from *.prelet.vars
	Overrides []Override
	Templates map[string]hclsyntax.Expression // the *.tftpl files, by name without folder
}

// Variable is a variable block. Type is its declared type, string by default.
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
	Message   hclsyntax.Expression // a text, of literals and variables
	Range     hcl.Range
}

// FileValue is a value from a vars file.
type FileValue struct {
	Expr hclsyntax.Expression
}

// Local is one name of a locals block.
type Local struct {
	Name  string
	Expr  hclsyntax.Expression
	Range hcl.Range
}

// Detector is a detector block.
type Detector struct {
	Name  string
	Body  *hclsyntax.Body
	Range hcl.Range
}

// Instance is a stage block. Its body holds the type's own arguments; those that all stages take stand beside it.
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

// Addr is TYPE.NAME.
func (i *Instance) Addr() string { return i.Type + "." + i.Name }

// Override is one place that an override block changed, for explain.
type Override struct {
	Address string    // "stage.reserve.node policy"
	Base    hcl.Range // zero: it was not there
	Over    hcl.Range
}

// Stage finds a stage by its address.
func (s *Site) Stage(addr string) *Instance {
	for _, i := range s.Stages {
		if i.Addr() == addr {
			return i
		}
	}
	return nil
}

// OfType lists the stages of a type, in site order.
func (s *Site) OfType(typ string) (out []*Instance) {
	for _, i := range s.Stages {
		if i.Type == typ {
			out = append(out, i)
		}
	}
	return out
}
