package eval

import (
	"fmt"
	"runtime/metrics"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
)

// Bounds on one expression: HCL's evaluator takes no context, and a few nested loops in a line take hours. A count
// gives the same result on each machine.
const (
	maxParts = 500_000   // evaluated expressions in it, those of a loop once for each element
	maxHeap  = 512 << 20 // bytes that the heap of the program may grow by
	lookAt   = 1 << 8    // parts between two looks at the heap
)

// meter counts the parts of one expression while they are evaluated.
type meter struct {
	parts  int
	before uint64 // the heap
	limit  string // that was reached; "" for none
}

func newMeter() *meter { return &meter{before: readHeap()} }

// tooLarge is the value of the panic that ends an evaluation: a loop of HCL goes on after an error.
type tooLarge struct{}

// count counts an expression that is evaluated next. It panics at a limit, and each time after it.
func (m *meter) count(x hclsyntax.Expression) {
	if m == nil {
		return
	}
	m.parts++
	_, isCall := x.(*hclsyntax.FunctionCallExpr) // one call may double what another has made
	switch {
	case m.limit != "":
	case m.parts > maxParts:
		m.limit = fmt.Sprintf("more than %d steps", maxParts)
	case (isCall || m.parts%lookAt == 0) && readHeap() > m.before+maxHeap:
		m.limit = fmt.Sprintf("more than %d MiB of memory", maxHeap>>20)
	}
	if m.limit != "" {
		panic(tooLarge{})
	}
}

// excess names the limit that was reached, or returns "".
func (m *meter) excess() string {
	if m == nil {
		return ""
	}

	return m.limit
}

func (m *meter) report(x hclsyntax.Expression) *hcl.Diagnostic {
	return origin.Error(fault.Limit, x.Range(), "This expression is too large",
		"Evaluating it took %s. Look for nested for expressions, and for texts that are multiplied.", m.limit)
}

// readHeap does not stop the other goroutines, as runtime.ReadMemStats does.
func readHeap() uint64 {
	size := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(size)

	return size[0].Value.Uint64()
}
