package machine

import (
	"cmp"
	"context"
	"time"

	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/tape"
)

// spanFunc takes a part of a run that took time.
type spanFunc = func(kind, name string, began time.Time, took time.Duration)

// spans passes the parts of a run to its report, once there is one.
type spans struct{ report spanFunc }

func (s spans) add(kind, name string, began time.Time, took time.Duration) {
	if s.report != nil {
		s.report(kind, name, began, took)
	}
}

// stageSpanFunc takes a part of a stage that took time.
type stageSpanFunc = func(stage, kind, name string, began time.Time, took time.Duration)

// TimeQuestions returns a source that reports how long each answer took, and for which stage. The tape in front of it
// asks a question once.
func TimeQuestions(next tape.Source, now func() time.Time, add stageSpanFunc) tape.Source {
	return tape.SourceFunc(func(ctx context.Context, q tape.Question) tape.Answer {
		began := now()
		a := next.Ask(ctx, q)
		add(tape.StageOf(ctx), spanKind(q.Kind), nameQuestion(q), began, now().Sub(began))

		return a
	})
}

// nameQuestion returns the name of a question for people.
func nameQuestion(q tape.Question) string {
	return cmp.Or(tape.InputName(q), "the "+string(q.Kind)+" files")
}

// showQuestions returns a source whose questions are shown as waits; the tape in front of it asks each once.
func (e *Env) showQuestions(next tape.Source) tape.Source {
	if e.Progress == nil {
		return next
	}

	return tape.SourceFunc(func(ctx context.Context, q tape.Question) tape.Answer {
		until, _ := ctx.Deadline()
		defer e.Wait(nameQuestion(q), until)()

		return next.Ask(ctx, q)
	})
}

func spanKind(kind tape.Kind) string {
	switch kind {
	case tape.KindTrust, tape.KindObject, tape.KindNode:
		return report.KindRequest
	case tape.KindDetector:
		return report.KindDetector
	case tape.KindHardware:
		return report.KindHardware
	case tape.KindKubelet, tape.KindAccepts:
		return report.KindKubelet
	}

	return report.KindRead
}
