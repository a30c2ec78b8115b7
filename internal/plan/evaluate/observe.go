package evaluate

import (
	"cmp"
	"context"
	"slices"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/identity"
	"github.com/prelet/prelet/internal/plan/states"
	"github.com/prelet/prelet/stages"
)

type observation struct {
	tape      *tape.Tape
	node      desired.Node // finished
	previous  *identity.Previous
	basis     stages.Inputs
	isPartial bool // some of the plan is unknown, so it may lack declared files
}

// Observed is the result of observe: the managed files of a plan as they are on the disk.
type Observed struct {
	files      []observedFile // the node's
	removed    []observedFile // of a previous identity, and states of the kubelet's managers; or not known whether
	undeclared []observedFile // of the current generation, which the site no longer declares

	owners  map[string]string    // packages of the system, by the path of a file that the plan would change
	targets []tape.ManagedTarget // of the current generation
	drains  []string             // why the node must be drained before the kubelet is restarted
}

// observedFile is one managed file: its change, or why that is not known.
type observedFile struct {
	FileChange
	failure *fault.Fault // of the question; nil if it has an answer
}

// observe reads the managed files on the disk through the tape.
//
// Inputs: the tape, the finished node and its basis, the previous identity, and whether a part of the plan is
// unknown. Result: each managed file as it is. It does not fail: a failed question is part of the result, and diff
// reports it.
func observe(ctx context.Context, in observation) (o Observed) {
	for _, f := range in.node.Files {
		req := tape.TargetReq{Path: f.Path}
		if len(f.Text.Secrets()) > 0 {
			req.Secret = true
			req.Want = f.Text.Template()
		}
		s := in.observeFile(ctx, f, req)
		why := s.Why
		s.FileChange = compareTarget(f, s.Old)
		if s.Changes() {
			s.Why = cmp.Or(why, s.Why)
		}
		o.files = append(o.files, s)
	}
	for i, s := range o.files {
		if s.Old.Loose != "" && o.isTightened(s.Old.Loose) {
			o.files[i].failure = nil
		}
	}

	o.owners = in.askPackages(ctx, o.files)
	config := in.compareConfig(o)
	o.removed = slices.Concat(in.observePrevious(ctx), in.observeStates(ctx, config))
	in.observeUndeclared(ctx, &o)
	o.drains = in.listDrains(config, o)

	return o
}

// observeFile reads a managed file. A file that a recording was never asked for counts as missing.
func (in observation) observeFile(ctx context.Context, f desired.File, req tape.TargetReq) observedFile {
	a, ans, err := tape.Target.Ask(ctx, in.tape, req)
	if err == nil && a.Private && f.Kind == desired.Regular {
		// Its content stays on the node, which can still compare it.
		req.Secret = true
		req.Want = f.Text.Template()
		a, ans, err = tape.Target.Ask(ctx, in.tape, req)
		a.Private = true
	}
	out := observedFile{FileChange{File: f, Old: a}, ans.Fault}
	switch {
	case ans.Code() == fault.Unread:
		out.Why, out.failure = "this recording was not asked whether it exists", nil
	case err == nil && a.Loose != "" && f.Kind != desired.Missing:
		out.failure = tape.Failure(fault.FileUnusable, f.Path+": "+a.Uncompared, "").Fault
	}

	return out
}

// askPackages returns which packages own the existing files that file blocks would change; nil if it is not known.
func (in observation) askPackages(ctx context.Context, files []observedFile) map[string]string {
	var req tape.PackagesReq
	for _, s := range files {
		isOfBlock := s.File.Purpose == "file" && s.failure == nil
		if isOfBlock && s.Old.Exists && s.Changes() {
			req.Paths = append(req.Paths, s.File.Path)
		}
	}
	if len(req.Paths) == 0 {
		return nil
	}
	slices.Sort(req.Paths)
	a, _, err := tape.Packages.Ask(ctx, in.tape, req)
	if err != nil { // a machine without dpkg, or an older recording
		return nil
	}

	return a.Owners
}

// isTightened reports whether the plan restricts a folder to root in which other users may still replace files.
func (o Observed) isTightened(folder string) bool {
	return slices.ContainsFunc(o.files, func(s observedFile) bool {
		if s.File.Path != folder || s.File.Kind != desired.Directory || s.failure != nil {
			return false
		}

		who, _, _ := desired.FindReplacer(s.Planned(), false)

		return who == ""
	})
}

// isRemoved reports whether a file at a path is removed or restored, because the site no longer declares it.
func (o Observed) isRemoved(path string) bool {
	return slices.ContainsFunc(o.undeclared, func(s observedFile) bool {
		return s.File.Path == path && s.failure == nil
	})
}

// findMetaBefore returns mode and owner of a file as they were before prelet: a file without its own keeps those.
func findMetaBefore(a tape.TargetAns) tape.TargetMeta {
	if a.Left != nil {
		return *a.Left
	}

	return tape.TargetMeta{Mode: a.Mode, UID: a.UID, GID: a.GID}
}

// observePrevious reads the files of a previous identity, except files that the site writes itself.
func (in observation) observePrevious(ctx context.Context) (out []observedFile) {
	if in.previous == nil {
		return nil
	}

	for _, path := range in.previous.Files {
		if _, isPlanned := in.node.FindFile(path); isPlanned {
			continue
		}
		f := desired.File{Path: path, Kind: desired.Missing, Purpose: "identity"}
		req := tape.TargetReq{Path: path, Secret: true} // a recording must not contain keys
		s := in.observeFile(ctx, f, req)
		if s.failure != nil || s.Old.Exists && (!s.Old.Dir || s.Old.Empty) {
			s.Action = "delete"
			s.Why = in.previous.WhyRemoved()
			out = append(out, s)
		}
	}

	return out
}

// observeUndeclared reads the files of the current generation that the site no longer declares. The bootstrap
// kubeconfig is not among them: once the node has joined, the plan does not manage it.
func (in observation) observeUndeclared(ctx context.Context, o *Observed) {
	m, _, err := tape.Managed.Ask(ctx, in.tape, tape.ManagedReq{})
	if err != nil || in.isPartial {
		return
	}

	o.targets = m.Targets
	isPlanned := map[string]bool{}
	for _, s := range slices.Concat(o.files, o.removed) {
		isPlanned[s.File.Path] = isPlanned[s.File.Path] || s.failure == nil
	}

	for _, t := range m.Targets {
		isOfKubelet := t.Purpose == "bootstrap-kubeconfig" || t.Purpose == "state" || t.Purpose == "identity" ||
			t.Path == kubelet.KubeadmDeb().Kubeconfig
		if isPlanned[t.Path] || isOfKubelet || t.Action == "none" {
			continue
		}
		f := desired.File{Path: t.Path, Kind: desired.Missing, Purpose: t.Purpose}
		s := in.observeFile(ctx, f, tape.TargetReq{Path: t.Path})
		s.Action = t.Action
		s.Why = t.Why
		s.stored = t.Notify
		o.undeclared = append(o.undeclared, s)
	}
}

// compareConfig compares the kubelet's configuration on the disk with the planned one; nil if it is not known.
func (in observation) compareConfig(o Observed) *states.Change {
	var files []states.PlannedFile
	for _, s := range o.files {
		files = append(files, states.PlannedFile{
			File:     s.File,
			Old:      s.Old,
			Changes:  s.Changes(),
			IsFailed: s.failure != nil,
		})
	}

	return states.Compare(in.basis, in.node, files)
}

// listDrains returns why the node must be drained before the kubelet is restarted with the plan. A node that has not
// joined has no pods of the cluster, but a node that loses its identity may have some. A change whose effect on the
// configuration is not known counts.
func (in observation) listDrains(config *states.Change, o Observed) (why []string) {
	if in.previous != nil && !in.previous.Damaged {
		why = append(why, in.previous.WhyRestart())
	}
	if !in.basis.Kubelet.Joined {
		return why
	}

	for _, s := range o.removed {
		if s.File.Purpose == "state" && s.failure == nil {
			why = append(why, s.File.Path+" is removed: "+s.Why)
		}
	}
	for _, s := range slices.Concat(o.files, o.undeclared) {
		isOfKubelet := s.File.Purpose == "kubelet-config" || s.File.Purpose == "kubelet-flags"
		isUnknown := config == nil || s.File.Kind == desired.Missing
		if isOfKubelet && isUnknown && s.Changes() {
			why = append(why, s.File.Path+" changes, and what it changes is not known")
		}
	}
	if config != nil {
		why = append(why, config.Drains()...)
	}

	return why
}

// observeStates returns the states of the kubelet's managers with which the planned kubelet would not start. They are
// removed in the commit, and the kubelet makes new ones.
func (in observation) observeStates(ctx context.Context, change *states.Change) (out []observedFile) {
	if change == nil {
		return nil
	}

	for _, m := range change.List() {
		if in.previous != nil && slices.Contains(in.previous.Files, m.Path) {
			continue
		}

		f := desired.File{Path: m.Path, Kind: desired.Missing, Purpose: "state"}
		s := in.observeFile(ctx, f, tape.TargetReq{Path: m.Path})
		s.Action = "delete"
		if s.failure == nil && s.Old.Exists {
			s.Why, s.Outdated = change.Refuse(m, s.Old, func() *tape.Facts { return in.readFacts(ctx) })
			if s.Why != "" {
				s.Why += ", so the kubelet refuses to start with it"
				out = append(out, s)
			}
		}
	}

	return out
}

// readFacts returns the machine's facts, also for a site without detect-hw; nil if they could not be read.
func (in observation) readFacts(ctx context.Context) *tape.Facts {
	if in.basis.Facts != nil {
		return in.basis.Facts
	}
	f, _, err := tape.Hardware.Ask(ctx, in.tape, tape.HardwareReq{})
	if err != nil {
		return nil
	}

	return &f
}
