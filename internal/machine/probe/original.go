package probe

import (
	"context"
	"fmt"
	"net/url"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// answerOriginal returns the state of a managed file before prelet wrote it first, from the current generation.
// If the generation does not contain the file, that is its state now.
func (l *Live) answerOriginal(_ context.Context, r tape.OriginalReq) tape.Answer {
	if l.o.Store != nil {
		was, content, exists, err := l.o.Store.Original(r.Path)

		switch {
		case err != nil:
			return tape.Answer{Fault: nodefile.Unusable("the content of %s before prelet: %s", r.Path, err)}
		case exists && !utf8.Valid(content):
			return tape.Original.Answer(answerState(was))
		case exists:
			isPublic := l.o.Store.IsPublic(r.Path, was)
			return l.showOriginal(r.Path, answerState(was), string(content), isPublic)
		}
	}

	state, err := l.root().Observe(r.Path, generation.MaxContent)

	switch {
	case err != nil:
		return targetFailure(r.Path, err)
	case !utf8.Valid(state.Content):
		return tape.Answer{Fault: nodefile.Unusable("%s is not UTF-8 text", r.Path)}
	}

	return l.showOriginal(r.Path, l.targetOf(state), string(state.Content), state.Public)
}

// showOriginal adds the text of a file to its state, as far as plans and recordings may contain it. The plan is made
// from the kubelet's configuration and flags, whatever mode these files have. All else in them is withheld: the secret
// field of the configuration, and of a file that is not public, comments and all but flags.
func (l *Live) showOriginal(path string, out tape.TargetAns, text string, isPublic bool) tape.Answer {
	config := parseKubeletConfig(text)

	switch {
	case kubelet.HasSecrets(config):
		config[kubelet.SecretField] = mask(config[kubelet.SecretField])
		out.Text = string(kubelet.ConfigOf(config).Canonical())
	case config != nil:
		out.Text = showConfig(text, config, isPublic)
	case !out.Exists || isPublic:
		out.Text = text
	case secret.HasPlaceholder(text):
		return tape.Answer{Fault: nodefile.Unusable("%s has U+E000 or U+E001, which no text may have", path)}
	default:
		shown, err := l.withhold(path, text)
		if err != nil {
			return tape.Answer{Fault: nodefile.Unusable("%s: %s", path, err)}
		}
		out.Private = true
		out.Text = shown
	}
	if out.Text != text {
		out.SHA256 = ""
	}

	return tape.Original.Answer(out)
}

// mask returns a placeholder of the same type for a secret value.
func mask(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = mask(v[name])
		}
		return v
	case []any:
		return []any{"(sensitive)"}
	case string:
		return "(sensitive)"
	case bool, nil:
		return v
	}

	return 0
}

// showConfig returns the text of a configuration of the kubelet as plans may contain it: without comments if the file
// is not public.
func showConfig(text string, config map[string]any, isPublic bool) string {
	if isPublic {
		return text
	}

	return string(kubelet.ConfigOf(config).Canonical())
}

// withhold returns an environment file with placeholders for all but the kubelet's flags, which each user can read in
// its command line. Secret returns the values of the placeholders. It fails for a file that systemd rejects.
func (l *Live) withhold(path, text string) (string, error) {
	env, err := kubelet.ParseEnvFile(text)
	if err != nil {
		return "", err
	}

	l.secrets.mu.Lock()
	defer l.secrets.mu.Unlock()
	hidden := 0

	return env.Withhold(l.hasFlags, func(part string) string {
		name := fmt.Sprintf("file:%s:%d", url.QueryEscape(path), hidden)
		l.secrets.read[name] = []byte(part)
		hidden++

		return secret.Placeholder(name)
	})
}

// hasFlags reports whether a variable has the kubelet's flags: it is one of kubeadm's, or the site names it.
func (l *Live) hasFlags(variable string) bool {
	if kubelet.IsOfKubeadm(variable) || l.o.Site == nil {
		return kubelet.IsOfKubeadm(variable)
	}
	for _, stage := range l.o.Site.Stages {
		for _, b := range stage.Body.Blocks {
			attribute := b.Body.Attributes["variable"]
			if b.Type != "kubelet_flags" || attribute == nil {
				continue
			}
			if name, isLiteral := value.LiteralText(attribute.Expr); isLiteral && name == variable {
				return true
			}
		}
	}

	return false
}
