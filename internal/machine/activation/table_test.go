package activation

import (
	"slices"
	"testing"
)

func forEachPair(do func(phase, Trigger)) {
	for p := none; p <= returning; p++ {
		for on := OnFinish; on < done; on++ {
			do(p, on)
		}
	}
}

// rowsOf returns the rows of a pair, in the order of the table.
func rowsOf(p phase, on Trigger) (out []row) {
	for _, r := range table {
		if slices.Contains(r.In, p) && slices.Contains(r.On, on) {
			out = append(out, r)
		}
	}

	return out
}

// TestEveryPairHasOneRow: exactly the last row of each pair has no condition. A pair that cannot occur has one row with
// a reason.
func TestEveryPairHasOneRow(t *testing.T) {
	forEachPair(func(p phase, on Trigger) {
		name := phaseNames[p] + ", " + triggerNames[on]

		rows := rowsOf(p, on)
		if len(rows) == 0 {
			t.Errorf("%s: no row; want at least one", name)
			return
		}

		var asked []fact

		for i, r := range rows {
			if (r.When == always) != (i == len(rows)-1) {
				t.Errorf(
					"%s: row %d of %d has the condition %q; want one in each row but the last", name, i+1, len(rows),
					factNames[r.When],
				)
			}

			if slices.Contains(asked, r.When) {
				t.Errorf("%s: %q is asked twice; want it once", name, factNames[r.When])
			}

			asked = append(asked, r.When)
			if r.Never != "" && (len(rows) != 1 || len(r.Do) != 0) {
				t.Errorf("%s: cannot happen (%s), and has %d rows and the steps %v; want one row without steps",
					name, r.Never, len(rows), r.Do)
			}
		}
	})
}

// TestRowsLeadSomewhere: the trigger after a row has rows that can occur, in each phase that the row can lead to.
func TestRowsLeadSomewhere(t *testing.T) {
	for i, r := range table {
		if r.Never != "" {
			continue
		}

		for _, p := range r.In {
			for _, after := range phasesAfter(r, p) {
				for _, on := range nextTriggers(r) {
					if rows := rowsOf(after, on); len(rows) == 1 && rows[0].Never != "" {
						t.Errorf("row %d, from %s: leads to %s, %s, which cannot happen: %s; want no way there",
							i, phaseNames[p],
							phaseNames[after], triggerNames[on], rows[0].Never)
					}
				}
			}
		}
	}
}

// phasesAfter returns the phases that a row can lead to.
func phasesAfter(r row, from phase) []phase {
	switch {
	case slices.Contains(r.Do, commit):
		return []phase{mixed}
	case slices.Contains(r.Do, publish):
		return []phase{pending}
	case slices.Contains(r.Do, restore):
		return []phase{returning}
	case slices.Contains(r.Do, complete): // a journal without a verdict ends with that
		return []phase{settled, pending, returning}
	}

	return []phase{from}
}

func nextTriggers(r row) []Trigger {
	switch r.Then {
	case done, stepResult: // the result of watch is compared with the journal under the lock
		return nil
	case repeat:
		return r.On
	}

	return []Trigger{r.Then}
}

// TestNextIsTotal checks every pair with every combination of facts.
func TestNextIsTotal(t *testing.T) {
	forEachPair(func(p phase, on Trigger) {
		for bits := range 1 << 9 {
			is := func(i int) bool { return bits&(1<<i) != 0 }

			h := location{
				phase:     p,
				gateState: gateState{gateOpen: is(0), shutOnPurpose: is(1)},
				wayBack:   wayBack{exhausted: is(3)},
				newBoot:   is(2),
				mayWait:   is(4),
				mayPatch:  is(8),
			}
			if is(5) {
				h.blockReason = "x"
			}

			if is(6) {
				h.rollback = &rollback{}
			}

			if is(7) {
				h.rounds = maxRounds
			}

			r := next(table, h, on)
			if !slices.Contains(r.In, p) || !slices.Contains(r.On, on) || !h.holds(r.When) {
				t.Errorf("%s, %s with %09b: row %+v; want a row for this state",
					phaseNames[p], triggerNames[on], bits, r)
			}
		}
	})
}

// TestTableUsesEveryWord: each fact and step is in the table.
func TestTableUsesEveryWord(t *testing.T) {
	used := map[string]bool{}
	for _, r := range table {
		used["if "+factNames[r.When]] = true
		for _, s := range r.Do {
			if stepNames[s] == "" {
				t.Errorf("step %d has no name; want one", s)
			}

			used["do "+stepNames[s]] = true
		}
	}

	for _, name := range factNames[1:] {
		if !used["if "+name] {
			t.Errorf("no row asks whether %q; want one", name)
		}
	}

	for _, name := range stepNames {
		if !used["do "+name] {
			t.Errorf("no row does %q; want one", name)
		}
	}
}
