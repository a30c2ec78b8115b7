package evaluate

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
)

// TestFindingsInSiteOrder has three objects that cannot be fetched, whose answers come in every order there is: what is
// said of them, the degradations and the stages are in the order of the site.
func TestFindingsInSiteOrder(t *testing.T) {
	const optional = "  on_failure = \"continue\"\n"
	want := ""
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		answered := []chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})}
		src := tape.SourceFunc(func(_ context.Context, q tape.Question) tape.Answer {
			if q.Kind != tape.KindObject {
				return answerAsUsual(q, nil)
			}
			r, _ := tape.Object.Request(q)
			var mine int
			if _, err := fmt.Sscanf(r.Name, "c%d", &mine); err != nil {
				panic(err)
			}
			if at := slices.Index(order, mine); at > 0 {
				<-answered[order[at-1]]
			}
			defer close(answered[mine])
			return tape.Failure(fault.ClusterUnreachable, r.Name+" does not answer", "")
		})
		p := Run(t.Context(), mustParse(t, writeFetches(3, optional)), RunInput{Source: src})

		got := showPlan(p)
		if len(p.Stages) != 3 || len(p.Degraded) != 3 || len(p.Diagnostics) != 3 {
			t.Fatalf("answers in order %v: got %s; want three stages, degradations and messages", order, got)
		}
		for n, s := range p.Stages {
			if addr := fmt.Sprintf("fetch-config.c%d", n); s.Address != addr {
				t.Errorf("answers in order %v: stage %d is %s, want %s", order, n, s.Address, addr)
			}
		}
		for n, d := range p.Diagnostics {
			if line := 6 + n*4; d.Subject == nil || d.Subject.Start.Line != line {
				t.Errorf("answers in order %v: message %d is at %v, want line %d", order, n, d.Subject, line)
			}
		}
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("answers in order %v: got\n%s\nwant\n%s", order, got, want)
		}
	}
}
