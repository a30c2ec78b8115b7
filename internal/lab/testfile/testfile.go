// Package testfile is the language of *.prelettest.hcl files: the declarations of a file of tests, the comparison
// of a finished plan with them, and the result of a run. It must not open a machine or evaluate a site; its
// callers do.
package testfile

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
)

// Suite is one file of tests.
type Suite struct {
	Name   string // as it was given
	Source []byte
	Runs   []*Run

	functions map[string]function.Function
}

// Run is one run block: a machine, or several, and what must be true of the plan for each.
type Run struct {
	Name string
	File *Suite
	At   hcl.Range // of its head

	Machines schema.Value[string] // a glob of recorded machines, or of recordings
	IsFrom   bool                 // Machines are recordings
	Root     schema.Value[string] // the folder with the files of the node; "" is an empty one

	HasObjects    bool
	ObjectsFolder string             // "" for none
	ObjectsAt     hcl.Range          // of `objects`
	CA            string             // PEM; "" is not given
	Objects       map[string]Data    // ConfigMaps by NAMESPACE/NAME
	Variables     map[string]Literal // of the run and its file, by name; a null is not given
	Detectors     map[string]Detector
	Without       schema.Value[[]string] // PCI addresses
	Kubelet       schema.Value[string]   // a version; "" is unknown

	Asserts  []Assert
	Expected []fault.Code // the plan must fail with these
	ExpectAt hcl.Range
	Snapshot schema.Value[string] // its name; "" is none
}

// Data is the data of a ConfigMap.
type Data map[string]string

// Literal is the value of a variable with its place.
type Literal struct {
	Value cty.Value
	At    hcl.Range
}

// Detector is the reply of a detector.
type Detector struct {
	State string // ok, failed, absent or skipped
	Reply tape.DetectorAns
	At    hcl.Range
}

// Assert is one assert block.
type Assert struct {
	Condition hclsyntax.Expression
	Message   hclsyntax.Expression // nil: none
	At        hcl.Range
}

// ReadFunc reads a file whose path is relative to the folder of a test file.
type ReadFunc func(path string) ([]byte, error)

// Parse parses and checks a test file. Its file() calls read. With errors, the file must not be used.
func Parse(name string, source []byte, read ReadFunc) (*Suite, hcl.Diagnostics) {
	f := &Suite{
		Name:      name,
		Source:    source,
		functions: fileFunctions(read),
	}
	body, diags := lang.ParseBlocks(name, source)
	if diags.HasErrors() {
		return f, diags
	}

	diags = append(diags, fileBlock.Check(body, fileBlock.Blocks)...)
	if diags.HasErrors() {
		return f, diags
	}

	d := decoder{file: f}
	d.decode(body)

	return f, append(diags, d.Diags...)
}
