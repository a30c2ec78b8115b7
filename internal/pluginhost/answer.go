package pluginhost

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/pluginhost/wire"
	"github.com/prelet/prelet/internal/world"
)

// Bounds on an answer, as detector.v1 has them.
const (
	maxDevices    = 1024
	maxAttributes = 256
	maxLabels     = 64
	maxWarnings   = 64
	maxProblems   = 64
)

var pciAddress = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
})

// checkAnswer refuses an answer whole that breaks the protocol's bounds, or the detector's own description: what lies in one
// place is not believed in another. What is returned holds nothing that was not looked at.
func checkAnswer(d world.Description, a *wire.Answer) (world.DetectorAns, error) {
	out := world.DetectorAns{Version: d.Version, Attributes: map[string]string{}, Labels: map[string]string{}, Warnings: []string{}}
	if len(a.Problems) > 0 {
		return problems(out, a.Problems)
	}
	if err := checkTexts("attributes", a.Attributes, maxAttributes); err != nil {
		return out, err
	}
	for k, v := range a.Attributes {
		out.Attributes[k] = v
	}
	if len(a.Devices) > maxDevices {
		return out, fmt.Errorf("it names %d devices, and at most %d are taken", len(a.Devices), maxDevices)
	}
	seen := map[string]bool{}
	for i, dev := range a.Devices {
		if err := checkDevice(dev); err != nil {
			return out, fmt.Errorf("devices[%d]: %w", i, err)
		}
		if dev.Address != "" && seen[dev.Address] {
			return out, fmt.Errorf("devices[%d]: %s is there twice", i, dev.Address)
		}
		seen[dev.Address] = true
		out.Devices = append(out.Devices, dev)
	}
	slices.SortStableFunc(out.Devices, func(a, b world.DetectorDevice) int { return strings.Compare(a.Address, b.Address) })
	if err := facts(d, a.Facts, &out); err != nil {
		return out, err
	}
	if err := labels(d, a.Labels, &out); err != nil {
		return out, err
	}
	if len(a.Warnings) > maxWarnings {
		return out, fmt.Errorf("it has %d warnings, and at most %d are taken", len(a.Warnings), maxWarnings)
	}
	for _, w := range a.Warnings {
		out.Warnings = append(out.Warnings, words(w))
	}
	return out, nil
}

func problems(out world.DetectorAns, l []world.ConfigProblem) (world.DetectorAns, error) {
	if len(l) > maxProblems {
		return out, fmt.Errorf("it finds %d problems in its configuration, and at most %d are told", len(l), maxProblems)
	}
	for _, p := range l {
		if len(p.Path) > maxWords || !plain(p.Path) {
			return out, errors.New("it names a problem of its configuration at a place that is none")
		}
		out.Problems = append(out.Problems, world.ConfigProblem{Path: p.Path, Summary: words(p.Summary), Detail: words(p.Detail)})
	}
	return out, nil
}

func checkDevice(d world.DetectorDevice) error {
	if d.Address != "" && !pciAddress().MatchString(d.Address) {
		return fmt.Errorf("%q is no PCI address, as 0000:17:00.0", clip(d.Address))
	}
	for name, s := range map[string]*string{"name": d.Name, "kind": d.Kind, "vendor": d.Vendor, "model": d.Model, "driver": d.Driver, "interface": d.Interface, "link": d.Link} {
		if s != nil && (len(*s) > maxWords || !plain(*s)) {
			return fmt.Errorf("%s is too long, or holds what is no text", name)
		}
	}
	if d.Kind != nil && !slices.Contains([]string{"gpu", "npu", "fpga", "dpu", "nic"}, *d.Kind) {
		return fmt.Errorf("%q is no kind of device: gpu, npu, fpga, dpu or nic", clip(*d.Kind))
	}
	if d.Link != nil && *d.Link != "up" && *d.Link != "down" {
		return fmt.Errorf("a link is up or down, not %q", clip(*d.Link))
	}
	if d.SpeedGbps != nil && *d.SpeedGbps < 0 {
		return fmt.Errorf("a speed of %v Gbit/s", *d.SpeedGbps)
	}
	if err := checkTexts("attributes", d.Attributes, maxAttributes); err != nil {
		return err
	}
	return checkTexts("evidence", d.Evidence, 2*maxAttributes)
}

func checkTexts(what string, m map[string]string, most int) error {
	if len(m) > most {
		return fmt.Errorf("%s has %d entries, and at most %d are taken", what, len(m), most)
	}
	for k, v := range m {
		if k == "" || len(k) > maxWords || len(v) > maxWords || !plain(k) || !plain(v) {
			return fmt.Errorf("%s[%q] is too long, or holds what is no text", what, clip(k))
		}
	}
	return nil
}

// facts takes the facts that are described, each of its type; those that are left out are unknown.
func facts(d world.Description, said []wire.Fact, out *world.DetectorAns) error {
	if len(d.Facts) > 0 {
		out.Facts = map[string]any{}
	}
	for _, f := range said {
		i := slices.IndexFunc(d.Facts, func(a world.Attribute) bool { return a.Name == f.Name })
		if i < 0 {
			return fmt.Errorf("it tells a fact %q, which it does not describe", clip(f.Name))
		}
		if _, twice := out.Facts[f.Name]; twice {
			return fmt.Errorf("it tells the fact %s twice", f.Name)
		}
		if p := world.CheckFact(d.Facts[i], f.Value); len(p) > 0 {
			return fmt.Errorf("the fact %s is not as it describes it: %s", p[0].Path, p[0].Summary)
		}
		if err := checkValue(f.Value); err != nil {
			return fmt.Errorf("the fact %s: %w", f.Name, err)
		}
		out.Facts[f.Name] = f.Value
		note(&out.Evidence, "facts."+f.Name, f.Evidence)
		if f.Value == nil {
			note(&out.Unknown, "facts."+f.Name, f.Unknown)
		}
	}
	return nil
}

// checkValue looks at the texts inside of a value.
func checkValue(v any) error {
	switch v := v.(type) {
	case string:
		if len(v) > maxWords || !plain(v) {
			return errors.New("a text is too long, or holds what is no text")
		}
	case []any:
		for _, e := range v {
			if err := checkValue(e); err != nil {
				return err
			}
		}
	case map[string]any:
		for k, e := range v {
			if err := checkValue(k); err != nil {
				return err
			}
			if err := checkValue(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// labels takes the recommended labels, which must be in the detector's own domains and such as a kubelet may set on itself.
func labels(d world.Description, said []wire.Label, out *world.DetectorAns) error {
	if len(said) > maxLabels {
		return fmt.Errorf("it recommends %d labels, and at most %d are taken", len(said), maxLabels)
	}
	for _, l := range said {
		if err := kubelet.CheckLabel(l.Key, l.Value); err != nil {
			return fmt.Errorf("it recommends what is no label: %s", clip(err.Error()))
		}
		where, _, ok := strings.Cut(l.Key, "/")
		if !ok || !slices.ContainsFunc(d.LabelDomains, func(have string) bool { return where == have || strings.HasSuffix(where, "."+have) }) {
			return fmt.Errorf("it recommends the label %s, which is not in a domain that it describes (%s)", l.Key, strings.Join(d.LabelDomains, ", "))
		}
		if err := kubelet.CheckNodeLabel(l.Key, l.Value, ""); err != nil {
			return fmt.Errorf("it recommends a label that no kubelet may set: %s", clip(err.Error()))
		}
		if _, twice := out.Labels[l.Key]; twice {
			return fmt.Errorf("it recommends the label %s twice", l.Key)
		}
		out.Labels[l.Key] = l.Value
		note(&out.Evidence, "labels."+l.Key, l.Evidence)
	}
	return nil
}

func note(m *map[string]string, key, text string) {
	if text = words(text); text == "" {
		return
	}
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = text
}

// words is a text for people from a stranger: one line, bounded, nothing that moves a terminal.
func words(s string) string {
	if len(s) > maxWords {
		s = s[:maxWords] + "…"
	}
	s = strings.Map(func(r rune) rune {
		if control(r) || r == '\uFFFD' {
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}
