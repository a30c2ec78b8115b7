package apply

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
)

// readStoredFiles returns what the stored plan says of each managed file of a generation, by path; empty for a
// generation without a plan.
func readStoredFiles(s *generation.Store, gen int) map[string]boot.StoredFile {
	plan, _ := s.Blob(gen, "plan.json")
	return boot.ParseStoredFiles(plan)
}

// adopt adds files of the generation in place that the plan does not name and that must not be restored to their old
// content:
//
//   - a removed state file of the kubelet that no kubelet has created again yet: restoring the old one would keep the
//     kubelet from starting;
//   - the kubeconfig with the bootstrap token while that generation awaits its verdict: it is removed with the verdict,
//     not by a new generation.
func adopt(s *generation.Store, p *boot.Plan, out *generation.Proposal, act *activate.Plan) error {
	cur, err := s.Current()
	if err != nil || cur == nil {
		return err
	}

	j, err := s.Journal()
	if err != nil {
		return err
	}

	var known map[string]boot.StoredFile // read when the plan does not name a target

	for _, e := range cur.Entries {
		if e.Dropped || slices.ContainsFunc(out.Targets, func(t generation.Target) bool { return t.Path == e.Path }) {
			continue
		}

		if known == nil {
			known = readStoredFiles(s, cur.Gen)
		}

		switch purpose := known[e.Path].Purpose; {
		case purpose == "state" && e.New.Kind == generation.Absent:
			if now, _, err := s.Observe(e.Path); err == nil && now.Kind == generation.Absent {
				out.Targets = append(
					out.Targets,
					generation.Target{Path: e.Path, Mode: generation.Keep, UID: generation.Keep, GID: generation.Keep},
				)
			}
		case purpose == "bootstrap-kubeconfig" && p.Kubelet.Joined && j != nil && e.New.Kind == generation.File:
			if now, _, err := s.Observe(e.Path); err != nil || !now.Equal(e.New) {
				continue
			}

			content, err := s.Content(e.New.SHA256)
			if err != nil {
				return err
			}

			out.Targets = append(
				[]generation.Target{
					{
						Path:    e.Path,
						Kind:    generation.File,
						Content: content,
						Mode:    int(e.New.Mode),
						UID:     e.New.UID,
						GID:     e.New.GID,
						Secret:  true,
					},
				},
				out.Targets...)
			act.Retire = append(act.Retire, e.Path)
		}
	}

	return nil
}

// observedState returns the state of a file when the plan was made. For a file with a secret the plan only knows
// whether it is the same, so the result is nil.
func observedState(p *boot.Plan, path string, secret bool) *generation.State {
	i := slices.IndexFunc(p.Changes, func(c boot.Change) bool { return c.File.Path == path })
	if i < 0 {
		return nil
	}

	return toState(p.Changes[i].Old, secret)
}

func toState(a world.TargetAns, secret bool) *generation.State {
	switch {
	case !a.Exists:
		return &generation.State{}
	case a.Dir:
		return &generation.State{Kind: generation.Dir, Mode: a.Mode, UID: a.UID, GID: a.GID}
	case secret || a.SHA256 == "":
		return nil
	}

	return &generation.State{Kind: generation.File, SHA256: a.SHA256, Mode: a.Mode, UID: a.UID, GID: a.GID}
}

// findInPlace returns the generation whose files are to stay while the site's plan is held: the one in place. Where
// the newest was lost, that is one that was gone back from: then it is the one that was chosen by hand (0: before
// prelet), or else the last good one. Of one that is damaged it is the one whose contents it has. Nil: none is left.
func (r *Run) findInPlace(cur *generation.Info) (*generation.Info, error) {
	all, err := r.Store.List()
	if err != nil {
		return nil, err
	}

	isLeft := cur.Status == generation.StatusRolledBack
	find := func(gen int) *generation.Info {
		i := slices.IndexFunc(all, func(g generation.Info) bool { return g.Gen == gen })
		if i < 0 || r.Store.Intact(gen) != nil || r.whyForeign(gen) != "" {
			return nil
		}

		return &all[i]
	}

	pin, _, isPinned := r.Store.Pinned()
	goal := find(pin)

	switch {
	case isPinned && pin == 0 && cur.Restores != 0:
		return &generation.Info{}, nil
	case isPinned && pin > 0 && goal != nil && (isLeft || cur.Restores != pin && goal.PlanID != cur.PlanID):
		return goal, nil
	case isLeft && isPinned && pin != generation.Unreadable:
		return nil, nil
	case isLeft:
		good, _, _ := r.Store.LastIntact(cur.Gen)

		return find(good), nil
	}

	if r.isRotten() && cur.Restores > 0 {
		return cmp.Or(find(cur.Restores), cur), nil
	}

	return cur, nil
}

// proposeGeneration returns what a generation has put in place as a proposal. What is damaged of what it keeps beside its
// files is what this run found out for the site's plan p, which is held. ok is false for the state before prelet.
func (r *Run) proposeGeneration(
	p *boot.Plan, cur *generation.Info,
) (out generation.Proposal, act activate.Plan, ok bool, err error) {
	if cur.Status == generation.StatusDamaged || cur.Restores == 0 {
		return out, act, false, nil
	}

	s := r.Store
	if act, err = r.Machine.PlanOf(cur.Gen); err != nil {
		return out, act, false, err
	}

	out = generation.Proposal{PlanID: cur.PlanID, Blobs: map[string][]byte{}}
	for _, name := range []string{activate.PlanBlob, "plan.json", world.RecordingBlob, world.TrustBlob} {
		b, err := s.Blob(cur.Gen, name)

		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOENT):
			continue
		case fault.CodeOf(err) == fault.NeedsPerson && name == activate.PlanBlob:
			act.Node = r.Options(p).NodeName
			b, err = act.Encode()
		case fault.CodeOf(err) == fault.NeedsPerson:
			var known map[string][]byte
			known, err = buildBlobs(r.Options(p), act)
			b = known[name]
		}

		if err != nil {
			return out, act, false, err
		}

		out.Blobs[name] = b
	}

	for _, e := range cur.Entries {
		if e.Dropped {
			continue
		}

		now, content, err := s.Observe(e.Path)
		if err == nil && now.Kind == generation.Absent && slices.Contains(act.Retire, e.Path) {
			continue // it was removed with the verdict
		}

		t := generation.Target{
			Path:       e.Path,
			Kind:       e.New.Kind,
			Mode:       int(e.New.Mode),
			UID:        e.New.UID,
			GID:        e.New.GID,
			CreateOnly: e.CreateOnly,
			Secret:     e.Secret,
			Parents:    true,
		}
		switch e.New.Kind {
		case generation.Absent:
			if now.Kind != generation.Absent {
				continue // a state file that the kubelet has created again
			}

			t.Mode, t.UID, t.GID = generation.Keep, generation.Keep, generation.Keep
		case generation.File:
			if t.Content = content; err == nil && now.Equal(e.New) {
				break
			}

			if t.Content, err = s.Content(e.New.SHA256); err != nil {
				return out, act, false, err
			}
		}

		out.Targets = append(out.Targets, t)
	}

	return out, act, true, nil
}
