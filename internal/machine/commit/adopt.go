package commit

import (
	"cmp"
	"slices"

	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// adopt adds files of the generation in place that the plan does not name and that must not be restored to their old
// content, and returns them, so that the next generation knows them as well:
//
//   - a removed state file of the kubelet that no kubelet has created again yet: restoring the old one would keep the
//     kubelet from starting;
//   - the kubeconfig of a joined node in which prelet has replaced the CAs. A kubeconfig that a generation removed,
//     because it was another machine's, is not adopted: a way back would restore that identity;
//   - the kubeconfig with the bootstrap token while that generation awaits its verdict: it is removed with the verdict,
//     not by a new generation. After a state was set aside or lost, also the one on the disk.
func adopt(
	s *generation.Store,
	p *evaluate.Plan,
	out *generation.Proposal,
	spec *activation.Spec,
) (adopted []desired.StoredFile, err error) {
	cur, err := s.Current()
	if err != nil {
		return nil, err
	}
	if cur == nil {
		cur = &generation.Info{}
	}

	j, err := s.Journal()
	if err != nil {
		return nil, err
	}

	var was *desired.StoredPlan // read when the plan does not name a file

	for _, e := range cur.Entries {
		isPlanned := func(t generation.Target) bool { return t.Path == e.Path }
		if e.Dropped || slices.ContainsFunc(out.Targets, isPlanned) {
			continue
		}

		if was == nil {
			plan, _ := desired.ReadStoredPlan(s, cur.Gen) // without a plan, no file has a purpose
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
	if p.Kubelet.Joined && (cur.Gen == 0 || s.FindAside() != nil) {
		adopted = append(adopted, adoptLeftToken(s, p, out, spec)...)
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

	addToken(generation.TargetOf(e.Path, e.New, content), out, spec)

	return nil
}

// adoptLeftToken adds the kubeconfig with the bootstrap token that prelet wrote before a state was set aside or lost.
func adoptLeftToken(
	s *generation.Store,
	p *evaluate.Plan,
	out *generation.Proposal,
	spec *activation.Spec,
) []desired.StoredFile {
	path := cmp.Or(p.Node.FindPath("bootstrap-kubeconfig"), bootstrapKubeconfig)
	now, content, err := s.Observe(path)
	isKnown := slices.ContainsFunc(out.Targets, func(t generation.Target) bool { return t.Path == path })
	if err != nil || isKnown || !kubelet.IsBootstrapKubeconfig(string(content)) {
		return nil
	}

	addToken(generation.TargetOf(path, now, content), out, spec)

	return []desired.StoredFile{{Path: path, Purpose: "bootstrap-kubeconfig"}}
}

func addToken(t generation.Target, out *generation.Proposal, spec *activation.Spec) {
	t.Secret = true
	out.Targets = slices.Insert(out.Targets, 0, t)
	spec.Retire = append(spec.Retire, t.Path)
}

// observedState returns the state of a file when the plan was made. For a file with a secret the plan only knows
// whether it is the same, so the result is nil.
func observedState(o ProposalInput, path string, secret bool) *generation.FileState {
	i := slices.IndexFunc(o.Plan.Changes, func(c evaluate.FileChange) bool {
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

func toState(a tape.TargetAns, secret bool) *generation.FileState {
	switch {
	case !a.Exists:
		return &generation.FileState{}
	case a.Dir:
		return &generation.FileState{
			Kind: generation.Dir,
			Mode: a.Mode,
			UID:  a.UID,
			GID:  a.GID,
		}
	case secret || a.SHA256 == "":
		return nil
	}

	return &generation.FileState{
		Kind:   generation.File,
		SHA256: a.SHA256,
		Mode:   a.Mode,
		UID:    a.UID,
		GID:    a.GID,
	}
}

// proposeGeneration returns the files of a generation as a proposal. A file that does not affect the kubelet's start
// stays as it is where it cannot be restored.
func (r *Run) proposeGeneration(gen int) (out generation.Proposal, spec activation.Spec, err error) {
	if spec, err = r.Machine.SpecOf(gen); err != nil {
		return out, spec, err
	}
	if out, err = r.Store.Propose(gen); err != nil {
		return out, spec, err
	}
	out.Targets = slices.DeleteFunc(out.Targets, func(t generation.Target) bool { return r.isLeft(t, spec.Retire) })
	for i, t := range out.Targets {
		if _, decides := spec.Files[t.Path]; decides || t.Kind == generation.Absent {
			continue
		}
		out.Targets[i].MayStay = true
		now, content, err := r.Store.Observe(t.Path)
		isOther := slices.Contains(spec.Others, t.Path)
		// The kubelet may write it, such as its kubeconfig.
		if !isOther && err == nil && t.Kind == generation.File && now.Kind == t.Kind {
			out.Targets[i] = generation.TargetOf(t.Path, now, content)
			out.Targets[i].Secret = t.Secret
		}
	}

	return out, spec, nil
}

// isLeft reports whether a target of a generation is not restored: it was removed with the verdict, or it is a state
// file that the kubelet has created again.
func (r *Run) isLeft(t generation.Target, retired []string) bool {
	now, _, err := r.Store.Observe(t.Path)
	isRetired := err == nil && now.Kind == generation.Absent && slices.Contains(retired, t.Path)
	isCreatedAgain := t.Kind == generation.Absent && now.Kind != generation.Absent

	return isRetired || isCreatedAgain
}
