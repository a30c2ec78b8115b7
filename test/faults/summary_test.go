package faults

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// tally counts over all tests of a run.
type tally struct {
	sync.Mutex
	points, twice, states, broken, mutants, rows int
	systems                                      []string
	absent                                       []string // what this kernel cannot do
}

// The one line that a run ends with is of all its tests.
var summary tally

func (s *tally) add(f func(*tally)) {
	s.Lock()
	defer s.Unlock()
	f(s)
}

func (s *tally) on(system string) {
	s.add(func(s *tally) {
		if !slices.Contains(s.systems, system) {
			s.systems = append(s.systems, system)
		}
	})
}

func (s *tally) print() {
	s.Lock()
	defer s.Unlock()
	if s.points+s.mutants+s.rows == 0 {
		return
	}
	slices.Sort(s.systems)
	fmt.Printf(
		"faults: %d points swept, %d of them in a recovery (depth two), %d different disks after the cut, %d "+
			"invariants broken, file systems: %s; %d mutants caught; %d rows\n",
		s.points,
		s.twice,
		s.states,
		s.broken,
		strings.Join(s.systems, " "),
		s.mutants,
		s.rows,
	)
	for _, a := range s.absent {
		fmt.Println("faults: not shown:", a)
	}
}

// leastPoints is what a run of all tests sweeps at least. One that swept fewer has looked at next to nothing, however
// well it went.
const leastPoints = 200

func (s *tally) enough() bool {
	s.Lock()
	defer s.Unlock()
	if s.points < leastPoints {
		fmt.Printf("faults: %d points swept, and at least %d are there\n", s.points, leastPoints)
		return false
	}
	return true
}
