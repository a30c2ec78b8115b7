package main

import (
	"cmp"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/nodeobject"
	"github.com/prelet/prelet/internal/lab/planning"
	"github.com/prelet/prelet/internal/lab/printer"
)

// nodePrinter prints the Node objects of plans, one after another, because those of a fleet may not fit into memory. Of
// a capacity it prints the pools at the end.
type nodePrinter struct {
	*cli
	from   string // the recording, or recorded hardware, of a single node
	output string // nodes or capacity
	set    nodeobject.Set
	lowest fault.Code // of the nodes without an object
}

// show prints the Node of one plan as a document of YAML, or why there is none.
func (n *nodePrinter) show(p planning.Planned) error {
	var object map[string]any
	err := p.Err
	source := cmp.Or(p.Source, n.from)
	switch {
	case err != nil:
	case n.output == "capacity":
		err = n.set.AddToPool(p.Plan, source)
	default:
		object, err = n.set.Add(p.Plan, source)
	}
	if err != nil {
		n.lowest = fault.Lower(n.lowest, fault.CodeOf(err))
		n.printUnusable(p.Source, err)
		return nil
	}
	if object == nil {
		return nil
	}

	if err := printer.WriteYAML(n.stdout, object, n.secrets()); err != nil {
		return fault.CannotWrite.Errorf("cannot print: %s", err)
	}

	return nil
}

// end prints the pools and the assumptions, and returns the exit status of the command: part of a fleet must not be
// taken for all of it.
func (n *nodePrinter) end() error {
	if n.output == "capacity" {
		if err := n.printJSON(n.set.Capacity()); err != nil {
			return err
		}
	}
	for _, line := range n.set.Assumed() {
		n.printNotice(line)
	}

	return quit(n.lowest)
}
