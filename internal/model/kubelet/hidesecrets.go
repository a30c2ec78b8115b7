package kubelet

import (
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/texts"
)

const hidden = "(sensitive)"

// headerName is the name of a header of HTTP, before its colon.
var headerName = texts.LazyRegexp("^[A-Za-z0-9-]+:")

// hideValue returns a placeholder for the value of a secret flag. That of a header keeps its name and colon, or no
// kubelet parses it.
func hideValue(text string) string { return headerName().FindString(text) + hidden }

// HideSecrets returns an environment file, a configuration or another text with "(sensitive)" for the values of flags
// and headers that may be secrets, and for evident secrets. The result is such a file too, and hiding twice changes
// nothing.
func HideSecrets(text string) string { return secret.HideEvident(hideSettings(text)) }

// HoldsSecrets reports whether a text has, or had, what HideSecrets hides.
func HoldsSecrets(text string) bool {
	return strings.Contains(text, hidden) || HideSecrets(text) != text
}

func hideSettings(text string) string {
	isNamed := func(name string) bool { return strings.Contains(text, name) }
	if isNamed(SecretField) {
		return hideHeaders(text)
	}
	if !slices.ContainsFunc([]string{"manifest", "storage"}, isNamed) {
		return text
	}
	file, err := ParseEnvFile(text)
	if err != nil {
		return text
	}
	for _, a := range slices.Backward(file.vars) {
		text = text[:a.start] + newFlags(text[a.start:a.end], true).hideSecrets() + text[a.end:]
	}

	return text
}

// hideSecrets returns the text of flags with "(sensitive)" for values that may be secrets.
func (f *Flags) hideSecrets() string {
	text := f.raw
	for _, u := range slices.Backward(f.uses) {
		w := f.words[u.last]
		if !secret.IsSetting(u.Name) || u.form == alone || u.Value == "" {
			continue
		}
		word := hideValue(u.Value)
		if u.form == equals {
			word = "--" + u.Name + "=" + word
		}
		text = text[:w.start] + word + text[w.end:]
	}

	return text
}

// HideFlag returns the value of a flag, or a placeholder if it may be a secret.
func HideFlag(name, text string) string {
	if !secret.IsSetting(name) || text == "" {
		return secret.HideEvident(text)
	}

	return hideValue(text)
}

// HideConfig returns a configuration with "(sensitive)" for the headers of requests for static pods, and for evident
// secrets.
func HideConfig(config map[string]any) map[string]any {
	config = mapLeaves(config, hideEvident).(map[string]any)
	headers, has := config[SecretField].(map[string]any)
	if !has {
		return config
	}
	shown := map[string]any{}
	for name := range headers {
		shown[name] = []any{hidden}
	}
	config[SecretField] = shown

	return config
}

// hideEvident hides evident secrets in a text of a document.
func hideEvident(leaf any) any {
	if text, isText := leaf.(string); isText {
		return secret.HideEvident(text)
	}

	return leaf
}

// HideSecretFlags returns the value of a variable with flags, with "(sensitive)" for values that may be secrets.
func HideSecretFlags(text string) string { return newFlags(text, false).hideSecrets() }

// HideSecretWords does the same with the words of a command line.
func HideSecretWords(texts []string) []string {
	words := make([]Word, len(texts))
	for i, text := range texts {
		words[i].Text = text
	}

	return FlagsOf(words).Replace(func(name, value string) string {
		if !secret.IsSetting(name) || value == "" || strings.Contains(value, "$") { // of a variable
			return value
		}

		return hideValue(value)
	})
}

// hideHeaders hides the headers in a configuration, in whatever quotes it has them.
func hideHeaders(text string) string {
	config, err := ParseConfig(text)
	if err != nil {
		return text
	}
	headers, _ := config.Object()[SecretField].(map[string]any)
	for _, list := range headers {
		values, _ := list.([]any)
		for _, header := range values {
			if s, isText := header.(string); isText && len(s) >= len("abcd") && !strings.Contains(hidden, s) {
				text = strings.ReplaceAll(text, s, hidden)
			}
		}
	}

	return text
}
