package detecthw

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/stages"
)

// The states of a detector.
const (
	stateOK      = "ok"
	stateAbsent  = "absent"
	stateFailed  = "failed"
	stateSkipped = "skipped"
)

// detectorType is what one detector adds.
func detectorType(d *contract.Description) cty.Type {
	return cty.Object(map[string]cty.Type{
		"state": cty.String, "version": cty.String, "attributes": cty.Map(cty.String), "labels": cty.Map(cty.String), "warnings": cty.List(cty.String),
		"devices": cty.List(cty.Object(map[string]cty.Type{"address": cty.String, "name": cty.String, "attributes": cty.Map(cty.String)})),
		"facts":   stages.FactsType(d),
	})
}

// found is one detector with what came of it.
type found struct {
	stages.Detector
	state string            // "" while nothing is known
	ans   world.DetectorAns // if the state is ok
	raw   json.RawMessage
	left  []string // pointers into it: what the recording left out
	diags hcl.Diagnostics
}

// askAll asks the detectors that have something to do, at the same time, and returns all in their order.
func askAll(ctx context.Context, all []stages.Detector, chosen func(name string) bool, facts world.Facts, r world.Source) []*found {
	out := make([]*found, len(all))
	var wg sync.WaitGroup
	for i, d := range all {
		out[i] = &found{Detector: d}
		if !chosen(d.Name) {
			out[i].state = stateSkipped
			continue
		}
		wg.Go(func() { out[i].ask(ctx, facts, r) })
	}
	wg.Wait()
	return out
}

// ask is one question, unless the lock or the machine make it needless.
func (f *found) ask(ctx context.Context, facts world.Facts, r world.Source) {
	req := world.DetectorReq{Name: f.Name, Config: f.Config, Allow: f.Allow, Memory: f.Memory}
	switch {
	case f.Lock.Code() == fault.Unread: // a recording from before there were locks
		req = world.DetectorReq{Name: f.Name, Config: f.Config, Millis: f.Timeout.Milliseconds()}
	case f.Lock.Fault != nil:
		f.failed(f.Lock.Fault)
		return
	case f.Describe != nil:
		if !stages.Ungranted(f.Describe.Needs, f.Allow).Empty() {
			detail, hint := stages.NotGranted(*f.Describe, f.Allow)
			f.failed(&fault.Fault{Code: fault.Denied, Why: detail, Next: hint})
			return
		}
		m := f.Describe.Match
		req.Devices = stages.MatchingDevices(m, facts.PCI)
		if !m.Always && len(m.Paths) == 0 && len(req.Devices) == 0 {
			f.state = stateSkipped
			return
		}
	}
	if f.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.Timeout)
		defer cancel()
	}
	said, ans, err := world.DetectorOf.Ask(ctx, r, req)
	switch {
	case ans.Code() == fault.Unread:
		f.diags = hcl.Diagnostics{origin.NotRead(f.Range, "detector "+f.Name, f.unread())}
	case err != nil:
		f.failed(ans.Fault)
	case len(said.Problems) > 0:
		f.state = stateFailed
		for _, p := range said.Problems[:min(mostShown, len(said.Problems))] {
			f.complain(f.at(p.Path), fmt.Sprintf("Detector %q cannot use its configuration", f.Name), "%s",
				stages.Sentence(strings.TrimPrefix(shortened(p.Path)+": "+shortened(p.Summary), ": "), shortened(p.Detail)))
		}
	case said.Skipped != "":
		f.state = stateSkipped
	default:
		f.state, f.ans, f.raw, f.left = stateOK, said, ans.Value, ans.Withheld
		f.remarks()
	}
}

func (f *found) at(path string) hcl.Range {
	if f.At == nil {
		return f.Range
	}
	return f.At(path)
}

// failed takes a failure for what the site says of it: an error if the detector is required.
func (f *found) failed(why *fault.Fault) {
	f.state = stateFailed
	if why.Code == fault.Absent {
		f.state = stateAbsent
	}
	if f.Required {
		without := fmt.Sprintf("A site that does without it says detector %q { required = false }", f.Name) // before the hint, which may end in a command
		f.complain(f.Range, fmt.Sprintf("Detector %q is required", f.Name), "%s", stages.Sentence(why.Why, without, why.Next))
		return
	}
	f.complain(f.Range, fmt.Sprintf("Detector %q is %s", f.Name, f.state), "%s", stages.Sentence(why.Why, why.Next))
}

func (f *found) complain(at hcl.Range, summary, detail string, args ...any) {
	if f.Required {
		f.diags = append(f.diags, origin.Error(fault.DetectorFailed, at, summary, detail, args...))
		return
	}
	f.diags = append(f.diags, origin.Warning(fault.DetectorDegraded, at, summary, detail, args...))
}

// remarks is what people should know although it worked.
func (f *found) remarks() {
	for i, w := range f.ans.Warnings {
		more := ""
		if left := len(f.ans.Warnings) - mostShown; i == mostShown-1 && left > 0 {
			more = fmt.Sprintf("It has %d more: prelet detect -o json", left)
		}
		if i < mostShown {
			f.diags = append(f.diags, origin.Note(fault.DetectorWarning, f.Range, fmt.Sprintf("Detector %q has a warning", f.Name), "%s",
				stages.Sentence(shortened(w), more)))
		}
	}
	if l := f.ans.Foreign; len(l) > 0 {
		f.diags = append(f.diags, origin.Note(fault.DetectorDegraded, f.Range, fmt.Sprintf("Detector %q may not tell of %s", f.Name, others(l)), "%s",
			stages.Sentence("Its description does not match them by their ids, so what it tells of them is not taken",
				"If you trust it with the devices of other vendors, write into its block: allow { any_pci_device = true }")))
	}
	if l := f.ans.Sandbox; len(l) > 0 {
		f.diags = append(f.diags, origin.Note(fault.DetectorDegraded, f.Range, fmt.Sprintf("Detector %q ran with less of a sandbox than there could be", f.Name), "%s", stages.Sentence(l...)))
	}
	l := slices.Clone(f.ans.Findings)
	if i := slices.Index(l, world.NotEnded); i >= 0 {
		l = slices.Delete(l, i, i+1)
		f.diags = append(f.diags, origin.Warning(fault.DetectorDegraded, f.Range, fmt.Sprintf("Detector %q did not end in time", f.Name), "%s",
			stages.Sentence("A process of it was killed, and was still there half a second later: it has much memory to give back, "+
				"or waits for a driver", "Look for it with ps -eo pid,stat,uid,args, as root; STAT D is one that waits in the kernel")))
	}
	if len(l) > 0 {
		f.diags = append(f.diags, origin.Warning(fault.DetectorDegraded, f.Range, fmt.Sprintf("The sandbox of detector %q could not be set up whole", f.Name), "%s",
			stages.Sentence(append(l, "Something on this machine keeps prelet-detect from it: look at the drop-ins of prelet.service")...)))
	}
}

// What of a stranger's texts is shown. The rest is in the document that has everything.
const (
	mostShown  = 8   // texts of one kind
	longestOne = 400 // bytes
)

func shortened(s string) string {
	if len(s) <= longestOne {
		return s
	}

	return strings.ToValidUTF8(s[:longestOne], "") + "…"
}

// others are the addresses of PCI devices, a few of them.
func others(addresses []string) string {
	const most = 4
	text := strings.Join(addresses[:min(most, len(addresses))], ", ")
	if more := len(addresses) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// value is the detector as sites see it.
func (f *found) value() cty.Value {
	t := detectorType(f.Describe)
	if f.state == "" {
		return value.Because(value.UnknownOutput(t), f.unread())
	}
	if f.state == stateOK {
		v, err := value.FromJSONTyped(f.raw, t)
		if err == nil {
			v, err = withhold(v, "detector "+f.Name, f.left)
		}
		if err == nil {
			m := v.AsValueMap()
			m["state"] = cty.StringVal(stateOK)
			return cty.ObjectVal(m)
		}
		f.state = stateFailed
		f.complain(f.Range, fmt.Sprintf("Detector %q gave what cannot be used", f.Name), "%s.", err)
	}
	m := value.Absent(t).AsValueMap()
	m["state"] = cty.StringVal(f.state)
	return cty.ObjectVal(m)
}

// unread is the question to the detector, if a recording was never asked it.
func (f *found) unread() []string {
	if f.state != "" {
		return nil
	}

	return []string{"detector " + f.Name}
}

// recommended are the labels of all, less those on which two disagree.
func recommended(all []*found) map[string]map[string]string {
	who := map[string]*found{}
	disputed := map[string]bool{}
	for _, f := range all {
		for _, k := range slices.Sorted(maps.Keys(f.ans.Labels)) {
			other := who[k]
			if who[k] = f; other == nil || other.ans.Labels[k] == f.ans.Labels[k] {
				continue
			}
			disputed[k] = true
			disagree(other, f, "the label "+k, other.ans.Labels[k], f.ans.Labels[k], "Neither is taken. Name the label of one in a `label` stage, and keep it out of from_detectors")
		}
	}
	out := map[string]map[string]string{}
	for _, f := range all {
		labels := maps.Clone(f.ans.Labels)
		maps.DeleteFunc(labels, func(k, _ string) bool { return disputed[k] })
		if len(labels) > 0 {
			out[f.Name] = labels
		}
	}
	return out
}

// disagree tells that two detectors say different things of one, with both names. It is an error where one of them is
// required.
func disagree(a, b *found, of, one, other, next string) {
	at := a
	if b.Required {
		at = b
	}
	at.complain(at.Range, fmt.Sprintf("Detectors %q and %q disagree", a.Name, b.Name), "%s", stages.Sentence(
		fmt.Sprintf("Of %s %q says %s, and %q says %s", of, a.Name, one, b.Name, other), next))
}
