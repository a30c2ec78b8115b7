package machine

import (
	"cmp"
	"context"
	"time"

	"github.com/prelet/prelet/internal/machine/activation"
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

// ShowSteps shows the waits of a machine: the jobs of units, and the verdict on the kubelet.
func (e *Env) ShowSteps(m *activation.StateMachine) {
	if e.Progress == nil || m.Note == nil {
		return
	}

	note, extend := m.Note, m.Extend
	step := ""
	end := func() {}
	m.Note = func(ev report.Event) {
		end()
		end = func() {}
		if step = ""; ev.State == report.Started {
			step = ev.Stage + " " + ev.Summary
			end = e.Wait(step, time.Time{})
		}
		note(ev)
	}
	m.Extend = func(d time.Duration) {
		if step != "" {
			end()
			end = e.Wait(step, time.Now().Add(d-activation.WaitMargin))
		}
		extend(d)
	}
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

// timedUnits is systemd that reports how long its jobs took.
type timedUnits struct {
	activation.Units
	host *Host
}

// time runs a call of systemd as a span of the timeline.
func (u timedUnits) time(name string, call func() (string, error)) (string, error) {
	began := u.host.Clock.Now()
	result, err := call()
	u.host.spans.add(report.KindSystemd, name, began, u.host.Clock.Now().Sub(began))

	return result, err
}

// Reload implements activation.Units.
func (u timedUnits) Reload(ctx context.Context) error {
	_, err := u.time("daemon-reload", func() (string, error) {
		return "", u.Units.Reload(ctx)
	})

	return err
}

// Stop implements activation.Units.
func (u timedUnits) Stop(
	ctx context.Context,
	unit string,
	wait time.Duration,
) (result string, err error) {
	return u.time("stop "+unit, func() (string, error) {
		return u.Units.Stop(ctx, unit, wait)
	})
}

// Act implements activation.Units.
func (u timedUnits) Act(
	ctx context.Context,
	verb, unit string,
	wait time.Duration,
) (result string, err error) {
	return u.time(verb+" "+unit, func() (string, error) {
		return u.Units.Act(ctx, verb, unit, wait)
	})
}

// CreateTmpfiles implements activation.Units.
func (u timedUnits) CreateTmpfiles(
	ctx context.Context, files []string, wait time.Duration,
) (result string, err error) {
	return u.time("systemd-tmpfiles --create", func() (string, error) {
		return u.Units.CreateTmpfiles(ctx, files, wait)
	})
}
