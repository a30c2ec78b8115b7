package boot

import (
	"context"
	"fmt"
	"slices"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// Observed is the result of observe: what is on the disk now, of all that a plan manages.
type Observed struct {
	files      []observedFile // the node's
	aside      []observedFile // of a previous identity that is set aside
	states     []observedFile // of the kubelet's managers, where they must go, or nobody knows whether
	undeclared []observedFile // of the current generation, that the site does not declare any more

	managed failure               // of the question which files the current generation manages
	targets []world.ManagedTarget // of the current generation
	skipped []string              // undeclared ones that were not looked at: the site may declare them in what could not be rendered
}

// observedFile is one managed file: as it shall be, and as it is.
type observedFile struct {
	file   node.File
	is     world.TargetAns
	action string   // of undeclared ones
	why    string   // for action, or why a state must go
	notify []string // of undeclared ones: what the generation in place says, "restart UNIT"

	isOutdated bool // a state that does not fit this boot's machine
	failure
}

// failure is how a question failed; err is nil if it did not.
type failure struct {
	err    error
	answer world.Answer
}

func (f failure) isUnread() bool { return f.answer.Code() == fault.Unread }

// observe asks through the tape what is on the disk.
//
// Inputs: the tape, the finished node and its basis, the identity that is set aside, and the unknown parts of the plan.
// Result: each managed file as it is. It does not fail: a question that failed is part of the result, and diff reports it.
func observe(
	ctx context.Context, tape *world.Tape, n node.Node, aside *Aside, b basis, facts *world.Facts, unknown unknowns,
) (o Observed) {
	for _, f := range n.Files {
		req := world.TargetReq{Path: f.Path}
		if len(f.Text.Secrets()) > 0 {
			req.Secret, req.Want = true, f.Text.Template()
		}
		o.files = append(o.files, observeFile(ctx, tape, f, req))
	}

	for i, s := range o.files {
		if s.is.Loose != "" && o.isTightened(s.is.Loose) {
			o.files[i].failure = failure{}
		}
	}

	o.aside = observeAside(ctx, tape, n, aside)
	o.observeStates(ctx, tape, n, aside, b, facts)
	o.observeUndeclared(ctx, tape, n, len(unknown) > 0)

	return o
}

func observeFile(ctx context.Context, tape *world.Tape, f node.File, req world.TargetReq) observedFile {
	a, ans, err := world.Target.Ask(ctx, tape, req)
	if err == nil && a.Private && f.Kind == node.Regular {
		// Its content stays on the node, which can still compare it.
		req.Secret, req.Want = true, f.Text.Template()
		a, ans, err = world.Target.Ask(ctx, tape, req)
		a.Private = true
	}

	if err == nil && a.Loose != "" && f.Kind != node.Missing {
		ans = world.Failure(fault.FileUnusable, f.Path+": "+a.Uncompared, "")
		err = ans.Fault
	}

	return observedFile{file: f, is: a, failure: failure{err, ans}}
}

// isTightened reports whether the plan makes a folder root's alone, in which others may replace files until now.
func (o *Observed) isTightened(folder string) bool {
	return slices.ContainsFunc(o.files, func(s observedFile) bool {
		if s.file.Path != folder || s.file.Kind != node.Directory || s.err != nil {
			return false
		}
		f, left := s.file, world.TargetMeta{Mode: s.is.Mode, UID: s.is.UID, GID: s.is.GID}
		if s.is.Left != nil {
			left = *s.is.Left
		}
		if f.Mode == 0 {
			f.Mode = left.Mode
		}
		if f.Owner == "" {
			f.Owner = fmt.Sprintf("%d:%d", left.UID, left.GID)
		}
		who, _, _ := node.WhoReplaces(f, false)

		return who == ""
	})
}

// observeAside asks for the files of an identity that is set aside, except those that the site writes itself.
func observeAside(ctx context.Context, tape *world.Tape, n node.Node, aside *Aside) (out []observedFile) {
	if aside == nil {
		return nil
	}

	for _, path := range aside.Files {
		if slices.ContainsFunc(n.Files, func(f node.File) bool { return f.Path == path }) {
			continue
		}
		f := node.File{Path: path, Kind: node.Missing, Purpose: purposeIdentity}
		req := world.TargetReq{Path: path, Secret: true} // keys: their bytes must not be in a recording
		out = append(out, observeFile(ctx, tape, f, req))
	}

	return out
}

// observeUndeclared asks for files of the current generation that the site does not declare any more. The bootstrap
// kubeconfig is not among them: once the node has joined, the plan does not manage it.
func (o *Observed) observeUndeclared(ctx context.Context, tape *world.Tape, n node.Node, isUnknown bool) {
	m, ans, err := world.Managed.Ask(ctx, tape, world.ManagedReq{})
	o.managed = failure{err, ans}
	if err != nil {
		return
	}

	o.targets = m.Targets
	planned := map[string]bool{}
	for _, c := range o.listDeclared(n) {
		planned[c.File.Path] = true
	}
	for _, s := range slices.Concat(o.files, o.aside, o.states) {
		isUnknown = isUnknown || s.isUnread()
	}
	for _, t := range m.Targets {
		isOfKubelet := t.Purpose == "bootstrap-kubeconfig" || t.Purpose == "state" || t.Purpose == purposeIdentity
		if planned[t.Path] || isOfKubelet || t.Action == "none" {
			continue
		}
		if isUnknown {
			o.skipped = append(o.skipped, t.Path)
			continue
		}
		f := node.File{Path: t.Path, Kind: node.Missing, Purpose: t.Purpose}
		s := observeFile(ctx, tape, f, world.TargetReq{Path: t.Path})
		s.action, s.why, s.notify = t.Action, t.Why, t.Notify
		o.undeclared = append(o.undeclared, s)
	}
}

// listDeclared returns the changes of what the site declares, and of what must go for it.
func (o *Observed) listDeclared(n node.Node) (out []Change) {
	for _, s := range o.files {
		if s.err == nil {
			out = append(out, compareTarget(s.file, s.is))
		}
	}
	for _, s := range o.aside {
		if s.err == nil && s.is.Exists && !s.is.Dir {
			out = append(out, Change{File: s.file, Old: s.is, Action: "delete"})
		}
	}
	for _, s := range o.states {
		if s.why != "" && s.err == nil {
			out = append(out, Change{File: s.file, Old: s.is, Action: "delete", Why: s.why, Outdated: s.isOutdated})
		}
	}

	return out
}
