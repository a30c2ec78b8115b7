package pluginhost

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
)

// checkAnswer refuses an answer whole that breaks the protocol's bounds, or the detector's own description: who lies in one
// place is not believed in another. What is returned holds nothing that was not looked at, and no device that the site does not
// let the detector tell of.
func checkAnswer(d contract.Description, a *contract.Answer, r world.DetectorReq) (world.DetectorAns, error) {
	out := world.DetectorAns{Version: d.Version, Attributes: map[string]string{}, Labels: map[string]string{}, Warnings: []string{}}
	if a == nil {
		return out, errors.New("it is empty")
	}
	if err := holdsPlaceholder(a); err != nil {
		return out, err
	}
	if p := d.CheckAnswer(*a, devicesOf(r)); len(p) > 0 {
		return out, told(p)
	}
	for _, p := range a.Problems {
		out.Problems = append(out.Problems, world.ConfigProblem(p))
	}
	if len(out.Problems) > 0 {
		return out, nil
	}
	for k, v := range a.Attributes {
		out.Attributes[k] = v
	}
	if !r.Allow.AnyPCIDevice {
		out.Foreign = contract.Foreign(a.Devices, devicesOf(r))
	}
	for _, dev := range a.Devices {
		if slices.Contains(out.Foreign, dev.Address) {
			continue
		}
		out.Devices = append(out.Devices, world.DetectorDevice(dev))
	}
	slices.SortStableFunc(out.Devices, func(a, b world.DetectorDevice) int { return strings.Compare(a.Address, b.Address) })
	if len(d.Facts) > 0 {
		out.Facts = map[string]any{}
	}
	for _, f := range a.Facts {
		out.Facts[f.Name] = f.Value
		note(&out.Evidence, "facts."+f.Name, f.Evidence)
		note(&out.Unknown, "facts."+f.Name, f.Unknown)
	}
	for _, l := range a.Labels {
		// What no kubelet may set, whoever recommends it; the contract knows no Kubernetes beyond the syntax of labels.
		if err := kubelet.CheckNodeLabel(l.Key, l.Value, ""); err != nil {
			return out, fmt.Errorf("it recommends a label that cannot be: %s", words(err.Error()))
		}
		out.Labels[l.Key] = l.Value
		note(&out.Evidence, "labels."+l.Key, l.Evidence)
	}
	out.Warnings = append(out.Warnings, a.Warnings...)
	return out, nil
}

// holdsPlaceholder refuses the characters that stand for credentials in a plan.
func holdsPlaceholder(a *contract.Answer) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if value.HasPlaceholder(string(b)) {
		return errors.New("it holds the character U+E000 or U+E001, which prelet keeps for credentials")
	}
	return nil
}

// told is the first few of many problems.
func told(p contract.Problems) error {
	const most = 3
	if len(p) <= most {
		return errors.New(strings.ReplaceAll(p.Error(), "\n", "; "))
	}
	return fmt.Errorf("%s; and %d more", strings.ReplaceAll(p[:most].Error(), "\n", "; "), len(p)-most)
}

func note(m *map[string]string, key, text string) {
	if text == "" {
		return
	}
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = text
}

// words is a text for people from a stranger: one line, bounded, with no character that an answer could not have. What is no text
// at all is left out.
func words(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), 4*contract.MaxText)], " ")

	return contract.OneLine(strings.ReplaceAll(s, string(unicode.ReplacementChar), " "))
}
