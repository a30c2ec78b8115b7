package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// keptSecret is a secret of a file in place that its source no longer has.
type keptSecret struct {
	content    []byte
	generation int
	because    string // why its source has none
}

// KeepSecrets lets a credential that is gone keep the value that it has in a file of the generation in place.
func (l *Live) KeepSecrets() {
	l.secrets.mu.Lock()
	defer l.secrets.mu.Unlock()

	l.secrets.isKeeping = true
}

// keepSecret returns the value of a credential that cannot be read, and err if it is in no file of the generation in
// place. The lock of secrets is held.
func (l *Live) keepSecret(name string, err error) ([]byte, error) {
	isGone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, systemd.ErrNoCredentials)
	if !isGone || !l.secrets.isKeeping || l.o.Store == nil {
		return nil, err
	}
	if kept, ok := l.secrets.kept[name]; ok {
		return kept.content, nil
	}

	current, storeErr := l.o.Store.Current()
	if storeErr != nil || current == nil {
		return nil, err
	}
	content, ok := findSecret(l.o.Store, current, name)
	if !ok {
		return nil, err
	}

	l.secrets.kept[name] = keptSecret{content, current.Gen, systemd.CredentialFault(name, err).Why}
	l.o.Redactor.Add(content)

	return content, nil
}

// HideKept hides the secrets in files of a generation, as it made them and as they were before. It finds credentials by
// the stored templates of the files; every text is also passed to hide, which finds others.
func HideKept(s *generation.Store, gen int, r *secret.Redactor, hide func(text string)) {
	info, _ := s.Info(gen)
	templates := map[string]string{}
	if slices.ContainsFunc(info.Entries, func(e generation.Entry) bool { return e.Secret }) {
		plan, _ := desired.ReadStoredPlan(s, gen) // without it, evident secrets are hidden
		for _, f := range plan.Node.Files {
			templates[f.Path] = f.Text
		}
	}

	for _, e := range info.Entries {
		for _, state := range []generation.FileState{e.New, e.Old} {
			content, err := s.Content(state.SHA256)
			if err != nil {
				continue
			}
			hide(string(content))
			_, _ = secret.ResolvePlaceholders(templates[e.Path], func(name string) ([]byte, error) {
				if found, ok := secret.Find(templates[e.Path], string(content), name); ok {
					r.Add(found)
				}

				return nil, nil // the text is not used
			})
		}
	}
}

// findSecret returns a credential from a file of a generation, by the text from which the file was made.
func findSecret(
	s *generation.Store,
	in *generation.Info,
	name string,
) (found []byte, ok bool) {
	plan, err := desired.ReadStoredPlan(s, in.Gen)
	if err != nil {
		return nil, false
	}

	templates := map[string]string{}
	for _, f := range plan.Node.Files {
		templates[f.Path] = f.Text
	}
	for _, e := range in.Entries {
		if !e.Secret {
			continue
		}
		content, err := s.Content(e.New.SHA256)
		if err != nil {
			continue
		}
		if found, ok := secret.Find(templates[e.Path], string(content), name); ok {
			return found, true
		}
	}

	return nil, false
}

// markKept marks an answer about a credential as one of the generation in place, if that is where its value is from.
func (l *Live) markKept(name string, a tape.Answer) tape.Answer {
	l.secrets.mu.Lock()
	defer l.secrets.mu.Unlock()

	if kept, ok := l.secrets.kept[name]; ok {
		a.Stale = kept.generation
		a.Because = fmt.Sprintf("a file of that generation has it, and now: %s", kept.because)
	}

	return a
}
