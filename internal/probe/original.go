package probe

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/world"
)

// answerOriginal returns the state of a managed file before prelet wrote it first, from the current generation.
// If the generation does not contain the file, that is its state now.
func (l *Live) answerOriginal(_ context.Context, r world.OriginalReq) world.Answer {
	if l.o.Store != nil {
		was, content, exists, err := l.o.Store.Original(r.Path)

		switch {
		case err != nil:
			return world.Answer{Fault: nodefile.Unusable("the content of %s before prelet: %s", r.Path, err)}
		case exists && !utf8.Valid(content):
			return world.Original.Answer(answerState(was))
		case exists:
			isPublic := was.Mode&0o444 == 0o444 && l.o.Store.IsReachable(r.Path)
			return l.showOriginal(r.Path, answerState(was), string(content), isPublic)
		}
	}

	state, err := l.root().Observe(r.Path, generation.MaxContent)

	switch {
	case err != nil:
		return targetFailure(r.Path, err)
	case !utf8.Valid(state.Content):
		return world.Answer{Fault: nodefile.Unusable("%s is not UTF-8 text", r.Path)}
	}

	return l.showOriginal(r.Path, l.targetOf(state), string(state.Content), state.Public)
}

// showOriginal adds the text of a file to its state, as far as plans and recordings may contain it. The plan is made
// from the kubelet's configuration and flags, whatever mode these files have. All else in them is withheld: the secret
// field of the configuration, and of a file that is not public or has a secret, comments and all but flags.
func (l *Live) showOriginal(
	path string,
	out world.TargetAns,
	text string,
	isPublic bool,
) world.Answer {
	config := parseKubeletConfig(text)
	what := DescribeSecret(text)
	out.Private = out.Exists && config == nil && (!isPublic || what != "")

	switch {
	case config != nil && config[kubelet.SecretField] != nil:
		headers, _ := config[kubelet.SecretField].(map[string]any)
		for name := range headers {
			headers[name] = []any{"(sensitive)"}
		}
		if headers == nil {
			config = kubelet.WithoutSecrets(config)
		}
		out.Text = string(kubelet.ConfigOf(config).Canonical())
	case config != nil:
		out.Text = showConfig(text, config, isPublic)
	case !out.Private:
		out.Text = text
	case value.HasPlaceholder(text):
		return world.Answer{Fault: nodefile.Unusable("%s has U+E000 or U+E001, which no text may have", path)}
	default:
		shown, err := l.withhold(path, text)
		if err != nil {
			return world.Answer{Fault: nodefile.Unusable("%s: %s", path, err)}
		}
		out.Text = shown
	}
	if out.Text != text {
		out.SHA256 = ""
	}

	return world.Original.Answer(out)
}

// showConfig returns the text of a configuration of the kubelet as plans may contain it: without comments if the file
// is not public.
func showConfig(text string, config map[string]any, isPublic bool) string {
	if isPublic && DescribeSecret(text) == "" {
		return text
	}

	return string(kubelet.ConfigOf(config).Canonical())
}

// withhold returns an environment file with a placeholder for all but its flags, which each user can read in the
// command line of the kubelet. Secret returns the values of the placeholders. It fails for a file that systemd rejects.
func (l *Live) withhold(path, text string) (string, error) {
	env, err := kubelet.ParseEnvFile(text)
	if err != nil {
		return "", err
	}

	l.secrets.Lock()
	defer l.secrets.Unlock()
	count := 0

	return env.Withhold(hasOnlyFlags, func(part string) string {
		name := fmt.Sprintf("file:%s:%d", url.QueryEscape(path), count)
		l.secret[name] = []byte(part)
		count++

		return value.Placeholder(name)
	})
}

// hasOnlyFlags reports whether the value of a variable has only flags of the kubelet, and no secret by its form.
func hasOnlyFlags(name, text string) bool {
	if DescribeSecret(text) != "" {
		return false
	}
	if kubelet.IsOfKubeadm(name) {
		return true
	}

	words := kubelet.Argv(text)
	isShort := func(word string) bool {
		return strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--")
	}
	flags := kubelet.FlagsOf(words)
	isUnknown := func(flag string) bool {
		_, ok := known.FlagHistory(flag)
		return !ok
	}

	isOther := len(flags.Names()) == 0 || len(flags.Stray()) > 0 || slices.ContainsFunc(words, isShort)

	return !isOther && !slices.ContainsFunc(flags.Names(), isUnknown)
}
