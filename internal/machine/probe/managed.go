package probe

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// answerTarget returns the state of a managed file. Of a file with a secret, only whether its content is as
// planned leaves this package. A file that cannot be compared is not a failure, because users who may not write
// can plan, too; apply fails then.
func (l *Live) answerTarget(_ context.Context, r tape.TargetReq) tape.Answer {
	state, err := l.root().Observe(r.Path, generation.MaxContent)
	out := l.targetOf(state)

	var loose *nodefile.Loose
	unreadable := new(nodefile.UnreadableError)

	switch {
	case errors.Is(err, fs.ErrPermission):
		out.Uncompared = nodefile.Reason(err) + "; run as root to compare it"
		return tape.Target.Answer(out)
	case errors.As(err, &loose): // the plan may correct that
		out.Loose = loose.Path
		out.Uncompared = nodefile.Reason(err)
		out.SHA256 = ""
	case errors.As(err, &unreadable): // the commit replaces it
		out.Uncompared = unreadable.Error()
	case err != nil:
		return targetFailure(r.Path, err)
	}

	hadSecret := l.compareEntry(&out, r.Path, state)
	isFile := out.Loose == "" && state.Kind == nodefile.File
	out.Garbled = isFile && kubelet.IsManagerState(r.Path) && !isJSONObject(state.Content)

	switch {
	case out.Loose != "", state.IsUnreadable():
	case r.Secret:
		l.compareSecret(&out, r, state.Content)
	case isFile && (hadSecret || l.isPrivate(r.Path, state)):
		out.Private = true
		out.SHA256 = ""
	case utf8.Valid(state.Content):
		out.Text = string(state.Content)
		if state.Public {
			break // nothing in it is hidden
		}
		if config := parseKubeletConfig(out.Text); config != nil {
			out.Text = showConfig(out.Text, config, false)
		}
	}
	if out.Loose == "" && out.SHA256 == "" {
		l.secrets.mu.Lock()
		l.secrets.hidden[r.Path] = state.FileState
		l.secrets.mu.Unlock()
	}

	return tape.Target.Answer(out)
}

// Hidden returns the state of a managed file as it was compared, where the answer has no hash of its content; nil if
// there is none. A commit checks it, to overwrite no change that another program made since.
func (l *Live) Hidden(path string) *nodefile.FileState {
	l.secrets.mu.Lock()
	defer l.secrets.mu.Unlock()

	state, ok := l.secrets.hidden[path]
	if !ok {
		return nil
	}

	return &state
}

// compareEntry compares a file with the current generation, and reports whether that wrote a secret to it.
func (l *Live) compareEntry(
	out *tape.TargetAns,
	path string,
	now nodefile.Observed,
) (hadSecret bool) {
	current := l.current()
	if current == nil {
		return false
	}

	entry, isManaged := current.Entry(path)
	if !isManaged {
		return false
	}

	if out.Loose == "" {
		out.Drift = entry.DescribeDrift(now.FileState)
	}

	left, isLeft := l.o.Store.DefaultAttributes(entry, now.FileState)
	want := tape.TargetMeta{Mode: left.Mode, UID: left.UID, GID: left.GID}

	if isLeft && want != (tape.TargetMeta{
		Mode: now.Mode,
		UID:  now.UID,
		GID:  now.GID,
	}) {
		out.Left = &want
	}

	return entry.Secret
}

// isPrivate reports whether the content of a managed file must not leave this package, not even as a hash: it contains
// a credential of this process, an evident secret, or the secret field of the kubelet's configuration, or the file is
// not public. The configuration and the states of the kubelet are never private for their mode, because the plan is
// made from them.
func (l *Live) isPrivate(path string, s nodefile.Observed) bool {
	text := string(s.Content)
	l.LearnSecrets()
	isOther := func(e secret.Evident) bool { return e.What != secret.FlagValue } // flags are in plans, see showOriginal
	hasSecret := l.o.Redactor.Holds(text) || kubelet.HasSecrets(parseKubeletConfig(text)) ||
		slices.ContainsFunc(secret.FindEvident(text), isOther)

	return hasSecret || !s.Public && !isOfKubelet(path, text)
}

// parseKubeletConfig returns a configuration of the kubelet; nil if the text is not one. Most files are not parsed.
func parseKubeletConfig(text string) map[string]any {
	if !strings.Contains(text, kubelet.ConfigKind) {
		return nil
	}
	c, err := kubelet.ParseConfig(text)
	if err != nil {
		return nil
	}
	object := c.Object()
	if object["kind"] != kubelet.ConfigKind {
		return nil
	}

	return object
}

// isOfKubelet reports whether a file is the state of one of the kubelet's managers, or a configuration of the kubelet
// without its only secret field. Outside of the folders of the kubelet, a configuration has no fields that no kubelet
// knows: another program's file may look like one.
func isOfKubelet(path, text string) bool {
	if kubelet.IsManagerState(path) {
		return isJSONObject([]byte(text))
	}

	config := parseKubeletConfig(text)
	if config == nil || kubelet.HasSecrets(config) {
		return false
	}
	if strings.HasPrefix(path, "/var/lib/kubelet/") || strings.HasPrefix(path, "/etc/kubernetes/") {
		return true
	}

	for field := range config {
		if !kubelet.KnownField(field, "") {
			return false
		}
	}

	return true
}

// isJSONObject reports whether a text is a JSON object, as the states of the kubelet's managers are.
func isJSONObject(text []byte) bool {
	var object map[string]json.RawMessage

	return json.Unmarshal(text, &object) == nil && object != nil
}

// compareSecret sets whether a file has the planned content, or why that is unknown, and removes the hash.
func (l *Live) compareSecret(out *tape.TargetAns, r tape.TargetReq, content []byte) {
	out.SHA256 = ""
	if !out.Exists {
		return
	}

	want, err := secret.ResolvePlaceholders(r.Want, l.Secret)
	if err == nil {
		out.Same = want == string(content)
		return
	}

	names := secret.PlaceholderNames(r.Want)
	if len(names) == 0 { // no secret, only a character of placeholders
		out.Same = r.Want == string(content)
		return
	}

	out.Uncompared = systemd.CredentialFault(names[0], err).Why
}

// targetOf returns a managed file as an answer, without the content.
func (l *Live) targetOf(s nodefile.Observed) tape.TargetAns {
	out := answerState(s.FileState)
	out.Empty = s.Empty
	out.Attributes = s.Attributes
	out.Own = out.Exists && s.UID != 0 && s.UID == os.Geteuid()
	if s.UID != 0 || s.GID != 0 {
		out.Owner = l.root().OwnerName(s.UID, s.GID)
	}

	return out
}

func answerState(s nodefile.FileState) tape.TargetAns {
	return tape.TargetAns{
		Exists: s.Kind != nodefile.Absent,
		Dir:    s.Kind == nodefile.Dir,
		Mode:   s.Mode,
		UID:    s.UID,
		GID:    s.GID,
		SHA256: s.SHA256,
	}
}

// targetFailure returns the failure of reading a managed file.
func targetFailure(path string, err error) tape.Answer {
	f := nodefile.Failure(path, err)
	if f.Code == fault.Denied {
		f.Next = "Run as root to compare it"
	}

	return tape.Answer{Fault: f}
}

// answerManaged returns the files of the current generation, and for each the action of the commit if the site did not
// declare it.
func (l *Live) answerManaged(context.Context, tape.ManagedReq) tape.Answer {
	out := tape.ManagedAns{Targets: []tape.ManagedTarget{}}
	if l.o.Store == nil {
		return tape.Managed.Answer(out)
	}

	current, err := l.findCurrent()
	if err == nil && current == nil {
		return tape.Managed.Answer(out)
	}

	var c *generation.Comparison
	if err == nil {
		c, err = l.o.Store.Compare(generation.Proposal{})
	}

	if err != nil {
		return tape.Answer{Fault: nodefile.Unusable("the current generation: %s", err)}
	}

	out.Generation = current.Gen
	plan, _ := desired.ReadStoredPlan(l.o.Store, current.Gen) // without a plan, no file has a purpose

	for _, e := range c.Entries {
		stored := plan.File(e.Path)
		out.Targets = append(out.Targets, tape.ManagedTarget{
			Path:    e.Path,
			Purpose: stored.Purpose,
			Action:  string(e.Action),
			Why:     e.Why,
			Notify:  stored.Notify,
		})
	}

	return tape.Managed.Answer(out)
}
