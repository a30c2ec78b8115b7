package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// makePlan opens the node again and evaluates its site. It returns the plan, with what applying it needs if it is
// complete.
func (r *nodeRun) makePlan(ctx context.Context) commit.ProposalInput {
	r.close()

	now := r.host.Clock.Now
	began := now()
	where := *r.where
	where.IsRun = true
	stopLoading := r.host.ExtendTimeout(machine.MaxLoading)
	n := r.env.Open(where, r.Store)
	stopLoading()
	took := now().Sub(began)
	r.Report.Span(report.KindStep, "read the site", began, took)

	r.node = n
	r.Report.Delivery(n.Delivery)
	n.Source = machine.TimeQuestions(n.Source, now, r.Report.StageSpan)
	if n.Found.HasErrors() {
		return commit.ProposalInput{Plan: &evaluate.Plan{Site: n.Site, Diagnostics: n.Found}}
	}

	stopExtending := r.host.ExtendTimeout(machine.MaxPlanning)
	defer stopExtending()

	out := n.Plan(ctx, func(e evaluate.StageReport) {
		r.Report.Event(newEvent(e))
	})
	out.Diagnostics = append(n.Found, out.Diagnostics...)
	machine.KeepCounter(where.StateDir(), out)
	o := n.ApplyOptions(out)
	if !out.Complete {
		return o
	}

	o.Flags = commit.Flags(out)
	o.Healthz = commit.HealthzURL(out)
	o.NodeName = commit.NodeName(out, r.host.Hostname)
	o.Waits = r.whyWaits(ctx, out)
	if n.Delivery != nil {
		o.Site = n.Delivery.Used
	}

	return o
}

func (r *nodeRun) close() {
	if r.node != nil {
		r.node.Close()
	}
}

func newEvent(e evaluate.StageReport) report.Event {
	state := e.State
	if state == "running" {
		state = report.Started
	}
	return report.Event{
		Stage: e.Address,
		State: state,
		Took:  e.Took,
	}
}

// keepPrograms caches the version of the kubelet's binary and the digests of detectors, so that later boots need not
// start the one and read the others.
func (r *nodeRun) keepPrograms(context.Context) error {
	if r.Plan == nil || !r.Plan.Complete {
		return nil
	}

	if r.host.IsBelow() { // the kubelet's binary is that of an image, and is not started
		return r.node.KeepDigests()
	}

	return errors.Join(r.keepKubelet(), r.node.KeepDigests())
}

// keepKubelet stores the output of the kubelet's binary. Stored output of the same file is not written again.
func (r *nodeRun) keepKubelet() error {
	plan := r.Plan
	binary := r.node.Live.KubeletBinary()
	if plan.Kubelet.Version == nil || binary == nil {
		return nil
	}
	c, ok := binary.Keep(*plan.Kubelet.Version, plan.Accepts)
	if !ok {
		return nil
	}
	if isInPlace := r.Held == "" && r.Code == ""; isInPlace && r.node.Askers[""] != nil {
		c.Accepted = r.node.Askers[""].Digest()
	}
	text, err := c.Marshal()
	if err != nil {
		return err
	}

	return commit.WriteIfChanged(filepath.Join(r.host.StateDir(), kubeletbin.CacheFile), text)
}

// RecordingFile is the recording of the last run, in the run folder, which is empty after a boot.
const RecordingFile = "recording.prelet"

// keepRecording keeps the recording of a run for the group that the site names, or removes an older one where it names
// none. A plan with errors that names no group changes nothing: its prelet block may not have been read.
func (r *nodeRun) keepRecording(context.Context) error {
	plan := r.Plan
	if plan == nil || r.node == nil {
		return nil
	}

	path := filepath.Join(r.host.RunDir, RecordingFile)
	switch {
	case plan.Group != "" && plan.Tape != nil:
		return r.writeRecording(path)
	case plan.Group == "" && !plan.Diagnostics.HasErrors():
		return atomicfile.Remove(path)
	}

	return nil
}

// writeRecording writes the recording of the plan, without what `prelet record` leaves out, for a group to read. A
// reader sees the old file or the new one. If the new one cannot be written, the old one is removed: it is not of the
// last run.
func (r *nodeRun) writeRecording(path string) error {
	const mode = 0o640

	fresh := path + ".new"
	gid, err := nodefile.Root(r.host.Root).FindID(nodefile.Groups, r.Plan.Group)
	if err != nil {
		err = errors.New("group " + r.Plan.Group + ": " + err.Error())
		return errors.Join(err, atomicfile.Remove(path))
	}

	recording := r.node.Recording(r.Plan)
	err = recording.Withhold()
	if err == nil {
		err = atomicfile.With(fresh, 0o600, recording.Encode)
	}
	if err == nil {
		err = os.Chown(fresh, -1, gid)
	}
	if err == nil {
		err = os.Chmod(fresh, mode)
	}
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return errors.Join(err, atomicfile.Remove(fresh), atomicfile.Remove(path))
	}

	return nil
}

// rivalPatience is how long a run waits for the look at its Node after the plan: a boot does not wait for a cluster.
const rivalPatience = 250 * time.Millisecond

// beginRivalLook looks in parallel with the plan whether the Node of a joined node is another machine's, by which the
// run is degraded. At a boot only the other machine updates the Node. wait returns when the look has ended, or after
// rivalPatience; it may be called more than once.
func (r *nodeRun) beginRivalLook(ctx context.Context) (wait func()) {
	h := r.host
	cur, err := r.Store.Current()
	isUsed := err == nil && cur != nil && !r.Off && hasKubeconfig(h) && r.Machine.WhyForeign(cur.Gen) == ""
	if !isUsed {
		return func() {}
	}
	spec, err := r.Machine.SpecOf(cur.Gen)
	if err != nil || spec.Node == "" {
		return func() {}
	}

	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	found := make(chan string, 1)
	go func() {
		n, err := h.Probe.NodeObject(ctx, spec.Node)
		if err != nil || !n.Ready { // of a machine that no longer runs
			found <- ""
			return
		}
		found <- machine.DescribeOtherMachine(n, machineid.Of(h.Root))
	}()

	return sync.OnceFunc(func() {
		defer cancel()
		select {
		case why := <-found:
			if why != "" {
				r.Machine.Rival = why
				r.Report.ClearDegraded(fault.OtherMachine)
				r.Report.Degrade(fault.OtherMachine, why)
			}
		case <-time.After(rivalPatience):
		}
	})
}
