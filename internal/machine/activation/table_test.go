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

		var asked []string

		for i, r := range rows {
			if (r.When == nil) != (i == len(rows)-1) {
				t.Errorf(
					"%s: row %d of %d has the condition %q; want one in each row but the last", name, i+1, len(rows),
					factName(r.When),
				)
			}

			if slices.Contains(asked, factName(r.When)) {
				t.Errorf("%s: %q is asked twice; want it once", name, factName(r.When))
			}

			asked = append(asked, factName(r.When))
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

// TestNextIsTotal checks every pair with every combination of the facts that its rows ask.
func TestNextIsTotal(t *testing.T) {
	forEachPair(func(p phase, on Trigger) {
		rows := rowsOf(p, on)
		for bits := range 1 << (len(rows) - 1) {
			isTrue := map[string]bool{}
			for i, r := range rows {
				isTrue[factName(r.When)] = bits&(1<<i) != 0
			}
			holds := func(f fact) (bool, error) { return isTrue[factName(f)], nil }

			r, err := next(table, p, on, holds)
			isWrong := r.When != nil && !isTrue[factName(r.When)]
			if err != nil || isWrong || !slices.Contains(r.In, p) || !slices.Contains(r.On, on) {
				t.Errorf("%s, %s with %b: row %+v, %v; want a row for this state",
					phaseNames[p], triggerNames[on], bits, r, err)
			}
		}
	})
}

// TestRowsReadWhatStepsNeed: a step that needs a fact that no other row reads has it named in its own row.
func TestRowsReadWhatStepsNeed(t *testing.T) {
	specSteps := []step{stop, reload, actUnits, requestStart, watch, retire, closeGood}
	preparing := []string{"exhausted", "can go back", "way back by hand"}

	for _, r := range table {
		read := []string{factName(r.When), factName(r.Reads)}
		isPrepared := slices.ContainsFunc(preparing, func(name string) bool { return slices.Contains(read, name) })
		hasSpec := isPrepared || factName(r.Reads) == "own spec"
		for _, s := range r.Do {
			switch {
			case s == restore && !isPrepared:
				t.Errorf("%s: it restores, and prepares no rollback", describeRow(r))
			case slices.Contains(specSteps, s) && !hasSpec:
				t.Errorf("%s: %s needs the spec, and the row does not read it", describeRow(r), stepNames[s])
			case s == holdBack && r.When == nil && len(rowsOf(r.In[0], r.On[0])) == 1:
				t.Errorf("%s: it holds back without a reason", describeRow(r))
			}
		}
	}
}

// TestTableUsesEveryWord: each step is in the table. A fact that no row asks is dead code, which the linter finds.
func TestTableUsesEveryWord(t *testing.T) {
	used := map[string]bool{}
	for _, r := range table {
		for _, s := range r.Do {
			if stepNames[s] == "" {
				t.Errorf("step %d has no name; want one", s)
			}

			used["do "+stepNames[s]] = true
		}
	}

	for _, name := range stepNames {
		if !used["do "+name] {
			t.Errorf("no row does %q; want one", name)
		}
	}
}
