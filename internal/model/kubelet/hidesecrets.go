package kubelet

import (
	"maps"
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
		if !secret.IsSetting(u.name) || u.form == alone || u.value == "" {
			continue
		}
		word := hideValue(u.value)
		if u.form == equals {
			word = "--" + u.name + "=" + word
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
	config, _ = hideEvident(config).(map[string]any)
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

// hideEvident returns a copy of a decoded document without evident secrets.
func hideEvident(v any) any {
	switch v := v.(type) {
	case string:
		return secret.HideEvident(v)
	case map[string]any:
		out := maps.Clone(v)
		for key, one := range out {
			out[key] = hideEvident(one)
		}

		return out
	case []any:
		out := slices.Clone(v)
		for i, one := range out {
			out[i] = hideEvident(one)
		}

		return out
	}

	return v
}

// HideSecretFlags returns the value of a variable with flags, with "(sensitive)" for values that may be secrets.
func HideSecretFlags(text string) string { return newFlags(text, false).hideSecrets() }

// HideSecretWords does the same with the words of a command line.
func HideSecretWords(words []string) []string {
	words = slices.Clone(words)
	f := &Flags{}
	for _, text := range words {
		f.words = append(f.words, word{text: text})
	}
	f.uses, _ = readUses(f.words)
	for _, u := range f.uses {
		switch {
		case !secret.IsSetting(u.name) || strings.Contains(u.value, "$"): // of a variable
		case u.form == equals:
			words[u.last] = "--" + u.name + "=" + hideValue(u.value)
		case u.form == spaced:
			words[u.last] = hideValue(u.value)
		}
	}

	return words
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
