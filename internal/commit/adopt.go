package commit

import (
	"cmp"
	"slices"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// adopt adds files of the generation in place that the plan does not name and that must not be restored to their old
// content, and returns them, so that the next generation knows them as well:
//
//   - a removed state file of the kubelet that no kubelet has created again yet: restoring the old one would keep the
//     kubelet from starting;
//   - the kubeconfig of a joined node in which prelet has replaced the CAs. One that a generation removed, because it
//     was another machine's, is not adopted: a way back would bring that identity back;
//   - the kubeconfig with the bootstrap token while that generation awaits its verdict: it is removed with the verdict,
//     not by a new generation.
func adopt(
	s *generation.Store,
	p *boot.Plan,
	out *generation.Proposal,
	spec *activation.Spec,
) (adopted []node.StoredFile, err error) {
	cur, err := s.Current()
	if err != nil || cur == nil {
		return nil, err
	}

	j, err := s.Journal()
	if err != nil {
		return nil, err
	}

	var was *node.StoredPlan // read when the plan does not name a file

	for _, e := range cur.Entries {
		isPlanned := func(t generation.Target) bool { return t.Path == e.Path }
		if e.Dropped || slices.ContainsFunc(out.Targets, isPlanned) {
			continue
		}

		if was == nil {
			plan, _ := node.ReadStoredPlan(s, cur.Gen) // without a plan, no file has a purpose
			was = &plan
		}

		before := len(out.Targets)
		known := was.File(e.Path)
		switch purpose := known.Purpose; {
		case purpose == "kubeconfig":
			adoptPresent(s, e, out)
			spec.ReplacesCA = true
		case purpose == "state":
			adoptRemoved(s, e, out)
		case purpose == "bootstrap-kubeconfig" && p.Kubelet.Joined && j != nil:
			if err := adoptToken(s, e, out, spec); err != nil {
				return nil, err
			}
		}
		if len(out.Targets) > before {
			adopted = append(adopted, known)
		}
	}

	return adopted, nil
}

// adoptRemoved adds a removed state file that still does not exist.
func adoptRemoved(s *generation.Store, e generation.Entry, out *generation.Proposal) {
	if e.New.Kind != generation.Absent {
		return
	}

	now, _, err := s.Observe(e.Path)
	if err == nil && now.Kind == generation.Absent {
		out.Targets = append(out.Targets, generation.Target{Path: e.Path})
	}
}

// adoptPresent adds a file with its present content, which the kubelet may have changed.
func adoptPresent(s *generation.Store, e generation.Entry, out *generation.Proposal) {
	now, content, err := s.Observe(e.Path)
	if err == nil && now.Kind == generation.File {
		out.Targets = append(out.Targets, generation.TargetOf(e.Path, now, content))
	}
}

// adoptToken adds the kubeconfig with the bootstrap token if it is unchanged.
func adoptToken(
	s *generation.Store,
	e generation.Entry,
	out *generation.Proposal,
	spec *activation.Spec,
) error {
	if e.New.Kind != generation.File {
		return nil
	}

	now, _, err := s.Observe(e.Path)
	if err != nil || !now.Equal(e.New) {
		return nil
	}

	content, err := s.Content(e.New.SHA256)
	if err != nil {
		return err
	}

	token := generation.TargetOf(e.Path, e.New, content)
	token.Secret = true
	out.Targets = slices.Insert(out.Targets, 0, token)
	spec.Retire = append(spec.Retire, e.Path)

	return nil
}

// observedState returns the state of a file when the plan was made. For a file with a secret the plan only knows
// whether it is the same, so the result is nil.
func observedState(o Options, path string, secret bool) *generation.State {
	i := slices.IndexFunc(o.Plan.Changes, func(c boot.Change) bool {
		return c.File.Path == path
	})
	if i < 0 {
		return nil
	}

	state := toState(o.Plan.Changes[i].Old, secret)
	if state == nil {
		return o.Node.Hidden(path)
	}

	return state
}

func toState(a world.TargetAns, secret bool) *generation.State {
	switch {
	case !a.Exists:
		return &generation.State{}
	case a.Dir:
		return &generation.State{
			Kind: generation.Dir,
			Mode: a.Mode,
			UID:  a.UID,
			GID:  a.GID,
		}
	case secret || a.SHA256 == "":
		return nil
	}

	return &generation.State{
		Kind:   generation.File,
		SHA256: a.SHA256,
		Mode:   a.Mode,
		UID:    a.UID,
		GID:    a.GID,
	}
}

// findInPlace returns the generation whose files stay while the site's plan is held: the current one. If the newest
// was lost, the current one was rolled back before: then it is the pinned one (0: before prelet), or else the last
// good one. For a damaged generation it is the one whose contents it has. It returns nil if none is left.
func (r *Run) findInPlace(cur *generation.Info) (*generation.Info, error) {
	all, err := r.Store.List()
	if err != nil {
		return nil, err
	}

	isDamaged := isDamaged(r.Store)
	isLeft := cur.Status == generation.StatusRolledBack || isDamaged && r.isVoid()
	find := func(gen int) *generation.Info {
		i := slices.IndexFunc(all, func(g generation.Info) bool {
			return g.Gen == gen
		})
		if i < 0 || r.Store.Intact(gen) != nil || r.Machine.WhyForeign(gen) != "" {
			return nil
		}

		return &all[i]
	}

	pin, _, isPinned := r.Store.Pinned()
	goal := find(pin)

	wantsBefore := isPinned && pin == 0 // the state before prelet
	wantsPinned := isPinned && pin > 0 && goal != nil
	hasPin := isPinned && pin != generation.Unreadable

	switch {
	case wantsBefore && cur.Restores != 0:
		return &generation.Info{}, nil
	case wantsPinned && isLeft:
		return goal, nil
	case wantsPinned && cur.Restores != pin && goal.PlanID != cur.PlanID:
		return goal, nil
	case hasPin && isLeft: // the pinned one is lost
		return nil, nil
	case isLeft:
		good, _, _ := r.Store.LastIntact(cur.Gen)

		return find(good), nil
	}

	if isDamaged && cur.Restores > 0 {
		return cmp.Or(find(cur.Restores), cur), nil
	}

	return cur, nil
}

// proposeGeneration returns the files of a generation as a proposal. Damaged parts other than the files are taken
// from the site's plan, which is held. ok is false for the state before prelet.
func (a *attempt) proposeGeneration(
	cur *generation.Info,
) (out generation.Proposal, spec activation.Spec, ok bool, err error) {
	if cur.Status == generation.StatusDamaged || cur.Restores == 0 {
		return out, spec, false, nil
	}

	spec, err = a.Machine.SpecOf(cur.Gen)
	if err != nil {
		return out, spec, false, err
	}
	out, damaged, err := a.Store.Propose(cur.Gen)
	if err != nil {
		return out, spec, false, err
	}

	if slices.Contains(damaged, activation.SpecBlob) {
		spec.Node = a.options.NodeName
		if out.Blobs[activation.SpecBlob], err = spec.Encode(); err != nil {
			return out, spec, false, err
		}
	}
	if len(damaged) > 0 {
		known, err := buildBlobs(a.options, spec, nil)
		if err != nil {
			return out, spec, false, err
		}
		for name, blob := range known {
			if slices.Contains(damaged, name) && name != activation.SpecBlob {
				out.Blobs[name] = blob
			}
		}
	}
	out.Targets = slices.DeleteFunc(out.Targets, func(t generation.Target) bool { return a.isLeft(t, spec.Retire) })

	return out, spec, true, nil
}

// isLeft reports whether a target of a generation is not restored: it was removed with the verdict, or it is a state
// file that the kubelet has created again.
func (r *Run) isLeft(t generation.Target, retired []string) bool {
	now, _, err := r.Store.Observe(t.Path)
	isRetired := err == nil && now.Kind == generation.Absent && slices.Contains(retired, t.Path)
	isCreatedAgain := t.Kind == generation.Absent && now.Kind != generation.Absent

	return isRetired || isCreatedAgain
}
