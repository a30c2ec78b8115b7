package planning

import (
	"context"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/machine"
)

// eachMachine calls do for the node of w with source "", or for each recording of the folder w.From, or each machine of
// the repository, with its path. Before each machine it calls begin. It stops at the first error of do, and when a
// signal has come. It returns the code of a command that ended with those of do.
func eachMachine(
	ctx context.Context,
	e *machine.Env,
	w lab.Request,
	begin func(source string),
	do func(one lab.Request, source string) (fault.Code, error),
) (fault.Code, error) {
	machines, err := lab.ListMachines(w)
	if err != nil {
		return "", err
	}
	if machines == nil {
		return do(w, "")
	}

	var lowest fault.Code
	for done, source := range machines {
		e.Count(done, len(machines))
		begin(source)
		if err := machine.CheckStopped(ctx); err != nil {
			return lowest, err
		}
		code, err := do(w.On(source), source)
		lowest = fault.Lower(lowest, code)
		if err != nil {
			return lowest, err
		}
	}

	e.Count(len(machines), len(machines))

	return lowest, nil
}
