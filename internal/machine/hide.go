package machine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// Hiding returns a source that hides the secrets of each answer from all output: evident ones, and the values of secret
// flags and fields, wherever they are: in a file of flags or a configuration, as it is now or was before prelet, in a
// unit, in an object, in the reason of a failure. The plan itself is made from the real values.
func (e *Env) Hiding(source tape.Source) tape.Source {
	return tape.SourceFunc(func(ctx context.Context, q tape.Question) tape.Answer {
		a := source.Ask(ctx, q)
		if a.Fault != nil {
			e.Redactor.HideEvident(a.Why())
		}
		e.Redactor.HideEvident(a.Because)
		for _, secret := range e.findSecrets(a.Value) {
			e.Redactor.Hide(secret)
		}

		return a
	})
}

func (e *Env) findSecrets(answer []byte) []string {
	// Without escapes each text is in the document as it is, so a document that holds nothing is not parsed.
	whole := string(answer)
	if !strings.Contains(whole, `\`) && !mayHaveSettings(whole) && secret.FindEvident(whole) == nil {
		return nil
	}
	search := func() []string {
		own := Env{Redactor: secret.NewRedactor()}
		var v any
		if json.Unmarshal(answer, &v) == nil {
			own.hideIn(v)
		}
		return own.Redactor.Hidden()
	}
	if e.Searched == nil {
		return search()
	}

	sum := sha256.Sum256(answer)
	known, ok := e.Searched.Load(sum)
	if !ok {
		known = search()
		e.Searched.Store(sum, known)
	}

	return known.([]string)
}

// hideIn hides the secrets in each text of a document, and in each list of words.
func (e *Env) hideIn(v any) {
	switch v := v.(type) {
	case string:
		e.Redactor.HideEvident(v)
		if mayHaveSettings(v) {
			e.HideFlagsOf(v)
			e.HideHeadersOf(v)
		}
	case map[string]any:
		for _, one := range v {
			e.hideIn(one)
		}
	case []any:
		var words []kubelet.Word
		isHinted := false
		for _, one := range v {
			e.hideIn(one)
			if text, isText := one.(string); isText {
				words = append(words, kubelet.Word{Text: text})
				isHinted = isHinted || mayHaveSettings(text)
			}
		}
		if isHinted {
			e.hideUses(kubelet.FlagsOf(words))
		}
	}
}

// HideKept hides the secrets in files of the generation in place, of the last good one and of others. A verdict asks
// for none of their sources, and the kubelet may quote its files, also those of a generation to which a rollback goes.
func (e *Env) HideKept(s *generation.Store, others ...int) {
	if s == nil {
		return
	}
	if current, err := s.Current(); err == nil && current != nil {
		others = append(others, current.Gen)
	}
	if good, ok := s.LastGood(); ok {
		others = append(others, good)
	}

	slices.Sort(others)
	for _, gen := range slices.Compact(others) {
		probe.HideKept(s, gen, e.Redactor, func(text string) { e.hideIn(text) })
	}
}

// mayHaveSettings reports whether a text is worth to be parsed for secret flags and fields.
func mayHaveSettings(text string) bool {
	isPart := func(hint string) bool { return strings.Contains(text, hint) }

	return slices.ContainsFunc([]string{"manifest", "storage", kubelet.SecretField}, isPart)
}

// HideFlags hides the values of the flags and fields of a plan that may be secrets from all output.
func (e *Env) HideFlags(p *evaluate.Plan) {
	for _, f := range p.Node.Flags {
		e.HideFlag(f.Name, append(slices.Clone(f.Earlier), f.Value)...)
	}
	for _, f := range p.Node.Files {
		switch f.Purpose {
		case "kubelet-flags":
			e.HideFlagsOf(f.Text.Template())
		case "kubelet-config":
			e.HideHeadersOf(f.Text.Template())
		}
	}
}

// HideHeadersOf hides the headers of requests for static pods in a configuration of the kubelet.
func (e *Env) HideHeadersOf(text string) {
	if !strings.Contains(text, kubelet.SecretField) {
		return
	}
	config, err := kubelet.ParseConfig(text)
	if err != nil {
		return
	}
	headers, _ := config.Object()[kubelet.SecretField].(map[string]any)
	for _, list := range headers {
		values, _ := list.([]any)
		for _, header := range values {
			e.Redactor.Hide(fmt.Sprint(header))
		}
	}
}

// HideFlagsOf hides the values of secret flags in an environment file, or in the value of one of its variables.
func (e *Env) HideFlagsOf(text string) {
	if flags, err := kubelet.ParseFlags(text); err == nil {
		e.hideUses(flags)
	}
	file, err := kubelet.ParseEnvFile(text)
	if err != nil {
		return
	}
	for _, variable := range file.Names() {
		if flags, isSet := file.Get(variable); isSet {
			e.hideUses(flags)
		}
	}
}

func (e *Env) hideUses(flags *kubelet.Flags) {
	for _, name := range flags.Names() {
		if secret.IsSetting(name) {
			e.HideFlag(name, flags.Spellings(name)...)
		}
	}
}

// HideFlag hides the values of a flag if they may be secrets, and of a header also the value alone.
func (e *Env) HideFlag(name string, values ...string) {
	if !secret.IsSetting(name) {
		return
	}
	for _, text := range values {
		e.Redactor.Hide(text)
		if _, header, isHeader := strings.Cut(text, ":"); isHeader {
			e.Redactor.Hide(strings.TrimSpace(header))
		}
	}
}
