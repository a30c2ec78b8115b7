package machineid

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// row is a row of the table of the page: counts such as "0", "1" and "2 or more", and a verdict.
type row struct{ agree, differ, verdict string }

// TestJudge compares each combination of marks with the table that operators read, and holds what must never happen: an
// identity is given up only if two marks differ and none agrees.
func TestJudge(t *testing.T) {
	rows := readTable(t, "../../../docs/image-builders/trust.md")
	used := map[row]bool{}
	states := []Mark{Absent, Agrees, Differs}

	for i := range 3 * 3 * 3 * 3 * 3 {
		m := Marks{states[i%3], states[i/3%3], states[i/9%3], states[i/27%3], states[i/81%3]}
		name := m.Host // the host name, compared with the generation and with the certificate, is one mark
		if m.Node == Agrees || name == Absent {
			name = m.Node
		}
		if m.Host == Agrees {
			name = Agrees
		}
		agree, differ := 0, 0
		for _, mark := range []Mark{m.ID, m.Product, name, m.Site} {
			switch mark {
			case Agrees:
				agree++
			case Differs:
				differ++
			}
		}

		at := slices.IndexFunc(rows, func(r row) bool { return covers(t, r.agree, agree) && covers(t, r.differ, differ) })
		if at < 0 {
			t.Fatalf("%+v: no row of the page for %d that agree and %d that differ", m, agree, differ)
		}
		used[rows[at]] = true
		got := m.Judge()
		if got.String() != rows[at].verdict {
			t.Errorf("%+v: got %s; the page has %s for %d that agree and %d that differ", m, got, rows[at].verdict, agree, differ)
		}
		if got == AnotherMachine && (agree > 0 || differ < 2) {
			t.Errorf("%+v: another machine, with %d marks that agree and %d that differ", m, agree, differ)
		}
	}

	for _, r := range rows {
		if !used[r] {
			t.Errorf("row %+v of the page: no combination of marks", r)
		}
	}
}

// readTable reads the table with the columns "agree", "differ" and the verdict.
func readTable(t *testing.T, path string) (rows []row) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	_, table, ok := strings.Cut(string(text), "| agree | differ | the identity is of |\n| --- | --- | --- |\n")
	if !ok {
		t.Fatalf("%s: there is no table with the columns agree, differ, the identity is of", path)
	}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			break
		}
		verdict, _, _ := strings.Cut(cells[3], ":")
		rows = append(rows, row{strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2]), strings.TrimSpace(verdict)})
	}

	return rows
}

// covers reports whether a count is in a cell: "any", "1" or "2 or more".
func covers(t *testing.T, cell string, n int) bool {
	t.Helper()
	if cell == "any" {
		return true
	}
	text, isMinimum := strings.CutSuffix(cell, " or more")
	want, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(fmt.Errorf("cell %q of the page: want any, a number, or N or more", cell))
	}

	return n == want || isMinimum && n > want
}
