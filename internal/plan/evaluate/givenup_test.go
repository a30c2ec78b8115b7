package evaluate

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/limit"
)

// TestGivenUpWritesToNothing gives up an expression of each step while it waits for an answer, and lets it go on
// while the plan is read. What it then comes to must reach nothing that anybody reads: run this with the race
// detector.
func TestGivenUpWritesToNothing(t *testing.T) {
	const locals = "locals {\n  slow = file(\"/etc/slow\")\n  last = \"${local.slow}${file(\"/etc/last\")}\"\n}\n"
	for step, text := range map[string]string{
		"gather": cluster + "stage \"fetch-config\" \"f\" {\n  file = local.last\n}\n",
		"decide": "stage \"label\" \"b\" {\n  labels = { \"example.com/b\" = local.last }\n}\n",
		"render": "stage \"write\" \"k\" {\n  bootstrap_kubeconfig { when = false }\n  ca_certificate { when = " +
			"false }\n" +
			"  kubelet_config { when = false }\n  file \"x\" {\n    path = \"/etc/x\"\n    content = " +
			"local.last\n  }\n}\n",
	} {
		t.Run(step, func(t *testing.T) {
			goOn, asked := make(chan struct{}), make(chan struct{})
			src := tape.SourceFunc(func(_ context.Context, q tape.Question) tape.Answer {
				switch {
				case q.Kind == tape.KindFile && strings.Contains(q.Args, "slow"):
					<-goOn
				case q.Kind == tape.KindFile && strings.Contains(q.Args, "last"):
					close(asked)
				case q.Kind != tape.KindFile:
					return answerAsUsual(q, nil)
				}
				return tape.File.Answer(tape.FileAns{Text: "a"})
			})
			var over atomic.Bool
			o := RunInput{Source: src, Event: func(e StageReport) {
				if over.Load() {
					t.Errorf("got an event of %s, want none of a step that was given up", e.Address)
				}
			}}
			dog := limit.Limits{Time: 50 * time.Millisecond, Heap: 1 << 40, Look: time.Second}
			const label = "stage \"label\" \"a\" {\n  labels = { \"example.com/a\" = \"a\" }\n}\n"
			p := runSteps(t.Context(), mustParse(t, locals+label+text), o, dog)
			over.Store(true)
			if n := len(p.Diagnostics); n == 0 || origin.CodeOf(p.Diagnostics[n-1]) != fault.Limit || p.Complete {
				t.Fatalf("the plan of what was given up is %s; want an incomplete one with code %s",
					showPlan(p), fault.Limit)
			}

			before, entries := showPlan(p), len(p.Tape.Entries())
			close(goOn)
			if v, diags := p.Eval.Local("last"); diags.HasErrors() ||
				v.AsString() != "aa" { // runs in parallel with the abandoned one
				t.Errorf("local.last is %#v, %v; want aa", v, diags)
			}
			<-asked
			for range 1000 {
				for _, i := range p.Site.Stages {
					p.Eval.Output(i.Addr())
				}
				if after := showPlan(p); after != before {
					t.Fatalf("the plan changed: got\n%s\nwant\n%s", after, before)
				}
				if after := p.Tape.Entries(); len(after) != entries {
					t.Fatalf("answers on the tape: got %d, want %d: %v", len(after), entries, after)
				}
				runtime.Gosched()
			}
		})
	}
}
