package live

import (
	"encoding/json"
	"errors"
	"io/fs"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/world"
)

// answerTarget returns the state of a managed file. Nothing of a file with a secret leaves this package but whether its
// content is as planned. Planning goes on where a file cannot be compared, because it also works for users who may not
// write; apply fails then.
func (l *Live) answerTarget(r world.TargetReq) world.Answer {
	state, content, err := l.root().Observe(r.Path, generation.MaxContent)
	out := l.targetOf(state)
	var loose *nodefile.Loose
	switch {
	case errors.Is(err, fs.ErrPermission):
		out.Uncompared = nodefile.Reason(err) + "; run as root to compare it"
		return world.Target.Answer(out)
	case errors.As(err, &loose): // the plan may be to end that
		out.Loose, out.Uncompared, out.SHA256 = loose.Path, nodefile.Reason(err), ""
	case err != nil:
		return targetFailure(r.Path, err)
	}

	made, known := l.currentEntry(r.Path)
	if known {
		now := generationState(state)
		if out.Loose == "" {
			out.Drift = made.DescribeDrift(now)
		}
		if left, ok := l.o.Store.LeftOpen(r.Path, now); ok && (left.Mode != now.Mode || left.UID != now.UID || left.GID != now.GID) {
			out.Left = &world.TargetMeta{Mode: left.Mode, UID: left.UID, GID: left.GID}
		}
	}

	switch {
	case out.Loose != "":
	case r.Secret:
		l.compareSecret(&out, r, content)
	case state.Exists && !state.Dir && l.isPrivate(state, content, known && made.Secret):
		out.Private, out.SHA256 = true, ""
	case utf8.Valid(content):
		out.Text = string(content)
	}
	return world.Target.Answer(out)
}

// isPrivate reports whether the content of a managed file does not leave this package, not even as a hash: the generation
// wrote a secret there (hadSecret), it holds one that this process was given, or others may not read it, by its mode or by
// that of a folder above. The configuration and the states of the kubelet, which the plan is made of, are no secrets even if
// others may not read them.
func (l *Live) isPrivate(s nodefile.State, content []byte, hadSecret bool) bool {
	text := string(content)
	if hadSecret {
		return true
	}
	if l.o.Redactor != nil {
		l.learnSecrets()
		if l.o.Redactor.Holds(text) {
			return true
		}
	}
	return describeSecret(text) != "" || (s.Closed || s.Mode&0o044 == 0) && !isKubelets(text)
}

// isKubelets reports whether a text is a configuration of the kubelet without the one field that is a secret, or the state
// of one of its managers.
func isKubelets(text string) bool {
	if c, err := kubelet.ParseConfig(text); err == nil {
		o := c.Object()
		return o["kind"] == "KubeletConfiguration" && o["staticPodURLHeader"] == nil
	}
	var state struct {
		PolicyName string `json:"policyName"`
	}
	return json.Unmarshal([]byte(text), &state) == nil && state.PolicyName != ""
}

// compareSecret sets whether a file has the planned content, or why that cannot be found out, and removes the hash of
// its content.
func (l *Live) compareSecret(out *world.TargetAns, r world.TargetReq, content []byte) {
	out.SHA256 = ""
	if !out.Exists {
		return
	}

	want, err := value.ResolvePlaceholders(r.Want, l.Secret)
	if err != nil {
		name := ""
		if names := value.PlaceholderNames(r.Want); len(names) > 0 {
			name = names[0]
		}
		out.Uncompared = systemd.CredentialFault(name, err).Why
		return
	}
	out.Same = want == string(content)
}

// targetOf returns a state as an answer, without the content.
func (l *Live) targetOf(s nodefile.State) world.TargetAns {
	out := world.TargetAns{
		Exists: s.Exists, Dir: s.Dir, Empty: s.Empty, Mode: s.Mode, UID: s.UID, GID: s.GID, SHA256: s.SHA256,
	}
	if s.UID != 0 || s.GID != 0 {
		out.Owner = l.root().OwnerName(s.UID, s.GID)
	}
	return out
}

// generationState returns a state as generations have it.
func generationState(s nodefile.State) generation.State {
	kind := generation.Absent
	switch {
	case s.Dir:
		kind = generation.Dir
	case s.Exists:
		kind = generation.File
	}
	return generation.State{Kind: kind, SHA256: s.SHA256, Mode: s.Mode, UID: s.UID, GID: s.GID}
}

// targetFailure returns why a managed file could not be read.
func targetFailure(path string, err error) world.Answer {
	f := nodefile.Failure(path, err)
	if f.Code == fault.Denied {
		f.Next = "Run as root to compare it"
	}
	return world.Answer{Fault: f}
}

// currentEntry returns what the generation in place made of a managed file.
func (l *Live) currentEntry(path string) (e generation.Entry, ok bool) {
	if l.o.Store == nil {
		return generation.Entry{}, false
	}
	return l.o.Store.CurrentEntry(path)
}

// answerOriginal returns what a managed file had before prelet first wrote it, by the generation in place. If that does
// not have the file, it returns what the file has now.
func (l *Live) answerOriginal(r world.OriginalReq) world.Answer {
	if l.o.Store != nil {
		was, content, ok, err := l.o.Store.Original(r.Path)
		if err != nil {
			return world.Answer{Fault: nodefile.Unusable("what %s held before prelet: %s", r.Path, err)}
		}
		if ok {
			out := world.TargetAns{
				Exists: was.Kind != generation.Absent, Dir: was.Kind == generation.Dir,
				Mode: was.Mode, UID: was.UID, GID: was.GID, SHA256: was.SHA256,
			}
			if utf8.Valid(content) {
				out.Text = string(content)
			}
			return world.Original.Answer(out)
		}
	}

	state, content, err := l.root().Observe(r.Path, generation.MaxContent)
	if err != nil {
		return targetFailure(r.Path, err)
	}
	if !utf8.Valid(content) {
		return world.Answer{Fault: nodefile.Unusable("%s is no UTF-8 text", r.Path)}
	}
	out := l.targetOf(state)
	out.Text = string(content)
	return world.Original.Answer(out)
}

// answerManaged returns the files of the generation in place, and what apply would do to each if the site no longer
// declared it.
func (l *Live) answerManaged() world.Answer {
	out := world.ManagedAns{Targets: []world.ManagedTarget{}}
	if l.o.Store == nil {
		return world.Managed.Answer(out)
	}

	cur, err := l.o.Store.Current()
	if err != nil {
		return world.Answer{Fault: nodefile.Unusable("the generation in place: %s", err)}
	}
	if cur == nil {
		return world.Managed.Answer(out)
	}

	c, err := l.o.Store.Compare(generation.Proposal{})
	if err != nil {
		return world.Answer{Fault: nodefile.Unusable("the generation in place: %s", err)}
	}

	out.Generation = cur.Gen
	plan, _ := l.o.Store.Blob(cur.Gen, "plan.json") // without a plan, nothing has a purpose
	files := boot.ParseStoredFiles(plan)
	for _, e := range c.Entries {
		out.Targets = append(out.Targets, world.ManagedTarget{
			Path: e.Path, Purpose: files[e.Path].Purpose, Action: string(e.Action), Why: e.Why, Notify: files[e.Path].Notify,
		})
	}
	return world.Managed.Answer(out)
}
