package machine

import (
	"context"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/dryrun"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/judge"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// hostNode is the node of a state machine: it measures the jobs of units, and shows the waits of its command.
type hostNode struct {
	activation.Units
	activation.Clock
	activation.Probe
	host   *Host
	store  *generation.Store
	env    *Env             // shows the waits; nil: nothing does
	report *report.Reporter // nil: nothing is reported
	redact func(string) string
	step   string // that is shown; "" for none
	shown  func() // ends that
}

// Machine returns the state machine that activates a generation, for a command without a report.
func (h *Host) Machine(store *generation.Store) *activation.StateMachine {
	rival := ""
	if s, err := h.LoadReport(); err == nil && s.BootID == h.BootID {
		rival = s.Rival()
	}
	node := &hostNode{
		Units:  h.Units,
		Clock:  h.Clock,
		Probe:  h.Probe,
		host:   h,
		store:  store,
		redact: strings.Clone,
		shown:  func() {},
	}

	return &activation.StateMachine{
		Node:     node,
		Store:    store,
		Gate:     h.Gate(),
		BootID:   h.BootID,
		StateDir: h.StateDir(),
		Rival:    rival,
	}
}

// ReportingMachine returns the state machine of a command with a report. Its report and its verdicts have no secrets.
func (e *Env) ReportingMachine(h *Host, store *generation.Store, rep *report.Reporter) *activation.StateMachine {
	m := h.Machine(store)
	n := m.Node.(*hostNode)
	n.env = e
	n.report = rep
	n.redact = e.Redactor.String

	return m
}

// Foreign implements activation.Node.
func (n *hostNode) Foreign(gen int) string {
	return machineid.Compare(n.store, gen, machineid.Of(n.host.Root), n.host.CertifiedNode).Foreign()
}

// OtherMachine implements activation.Node.
func (n *hostNode) OtherMachine(o kubelet.NodeObject) string {
	return DescribeOtherMachine(o, machineid.Of(n.host.Root))
}

// WhyNotJoined implements activation.Node.
func (n *hostNode) WhyNotJoined() string { return n.host.WhyNotJoined() }

// Waits implements activation.Node.
func (n *hostNode) Waits(unit string, files map[string][]byte) bool {
	u, err := systemd.ReadPlannedUnit(nodefile.Root(n.host.Root), unit, files)

	return err == nil && u.Define(kubelet.Argv).RequiresFile(unitfile.Gate)
}

// AskBinary implements activation.Node.
func (n *hostNode) AskBinary(ctx context.Context, unit string) string {
	h := n.host
	root := nodefile.Root(h.Root)
	file, err := systemd.ReadPlannedUnit(root, unit, nil)
	binary := kubeletbin.Find(h.Root, "", file.Define(kubelet.Argv).Command)
	if err != nil || binary == nil || h.DryRun == nil {
		return ""
	}

	a := dryrun.Asker{
		Binary: func() *kubeletbin.Binary { return binary },
		Run:    h.DryRun,
		Root:   root,
		Secret: func(string) ([]byte, error) { return nil, nil }, // nothing is planned
		Redact: strings.Clone,                                    // the report hides secrets
		Folder: h.RunDir,
	}
	a.Finish(judge.FinishedKubelet{Unit: unit})
	verdict, _, _ := tape.DryRun.Ask(ctx, tape.Adapters{tape.DryRun.Adapt(a.Answer)}, tape.DryRunReq{})

	return verdict.Refusal // "" without an answer
}

// Redact implements activation.Node.
func (n *hostNode) Redact(text string) string { return n.redact(text) }

// Note implements activation.Node: it reports a step, and shows it while it lasts.
func (n *hostNode) Note(ev report.Event) {
	if n.report == nil {
		return
	}

	n.shown()
	n.shown = func() {}
	n.step = ""
	if ev.State == report.Started {
		n.step = ev.Stage + " " + ev.Summary
		n.shown = n.env.Wait(n.step, time.Time{})
	}
	n.report.Event(ev)
}

// Extend implements activation.Node: it extends the time that systemd gives to this unit, and shows until when.
func (n *hostNode) Extend(d time.Duration) {
	if n.step != "" {
		n.shown()
		n.shown = n.env.Wait(n.step, time.Now().Add(d-activation.WaitMargin))
	}
	_ = n.host.Notify.Extend(d)
}

// time runs a call of systemd as a span of the timeline.
func (n *hostNode) time(name string, call func() (string, error)) (string, error) {
	began := n.host.Clock.Now()
	result, err := call()
	n.host.spans.add(report.KindSystemd, name, began, n.host.Clock.Now().Sub(began))

	return result, err
}

// Reload implements activation.Units.
func (n *hostNode) Reload(ctx context.Context) error {
	_, err := n.time("daemon-reload", func() (string, error) {
		return "", n.Units.Reload(ctx)
	})

	return err
}

// Stop implements activation.Units.
func (n *hostNode) Stop(
	ctx context.Context,
	unit string,
	wait time.Duration,
) (result string, err error) {
	return n.time("stop "+unit, func() (string, error) {
		return n.Units.Stop(ctx, unit, wait)
	})
}

// Act implements activation.Units.
func (n *hostNode) Act(
	ctx context.Context,
	verb, unit string,
	wait time.Duration,
) (result string, err error) {
	return n.time(verb+" "+unit, func() (string, error) {
		return n.Units.Act(ctx, verb, unit, wait)
	})
}

// CreateTmpfiles implements activation.Units.
func (n *hostNode) CreateTmpfiles(
	ctx context.Context, files []string, wait time.Duration,
) (result string, err error) {
	return n.time("systemd-tmpfiles --create", func() (string, error) {
		return n.Units.CreateTmpfiles(ctx, files, wait)
	})
}
