package detecthw

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
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

// Bounds of a detector's own texts in messages; the report has them in full.
const (
	maxShownTexts     = 8
	maxShownBytes     = 400
	maxShownAddresses = 4
)

// detectorType returns the type of `detectors.NAME`.
func detectorType(d *contract.Description) cty.Type {
	device := cty.Object(map[string]cty.Type{
		"address":    cty.String,
		"name":       cty.String,
		"attributes": cty.Map(cty.String),
	})

	return cty.Object(map[string]cty.Type{
		"state":      cty.String,
		"version":    cty.String,
		"attributes": cty.Map(cty.String),
		"labels":     cty.Map(cty.String),
		"warnings":   cty.List(cty.String),
		"devices":    cty.List(device),
		"facts":      stages.FactsType(d),
	})
}

type detection struct {
	stages.Detector
	wait     time.Duration // for its fabric
	state    string
	ans      tape.DetectorAns // if the state is ok
	raw      json.RawMessage  // the same as JSON
	withheld []string         // JSON pointers into raw, of the parts that the recording leaves out
	origin.Collector
}

// endTime is how much earlier than its stage a detector ends: prelet waits 5 s for processes that it killed, and a
// stage that does not return in time has no result.
const endTime = 6 * time.Second

// askAll asks the detectors in parallel and returns the results in the same order. It skips detectors that the
// stage did not choose.
func askAll(
	ctx context.Context,
	all []stages.Detector,
	isChosen func(name string) bool,
	facts tape.Facts,
	fabric time.Duration,
	r tape.Source,
) []*detection {
	out := make([]*detection, len(all))
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-min(endTime, time.Until(end)/10)))
		defer cancel()
	}

	var wg sync.WaitGroup
	for i, d := range all {
		out[i] = &detection{Detector: d}
		if out[i].hasFabric() {
			out[i].wait = fabric
		}
		if !isChosen(d.Name) {
			out[i].state = stateSkipped
			continue
		}
		wg.Go(func() {
			out[i].ask(ctx, facts, r)
		})
	}
	wg.Wait()

	return out
}

// ask asks the question to the detector, unless its lock, its grants or the machine decide already.
func (d *detection) ask(ctx context.Context, facts tape.Facts, r tape.Source) {
	req, ok := d.request(facts)
	if !ok {
		return
	}

	if d.Timeout > 0 {
		ctx = tape.WithLimit(ctx, d.Timeout)
	}
	report, ans, err := tape.Detector.Ask(ctx, r, req)

	switch {
	case ans.Code() == fault.Unread:
		d.state = stateFailed
		d.Report(origin.NotRead(d.Range, "the report of detector "+d.Name))
	case err != nil:
		d.fail(ans.Fault)
	case len(report.Problems) > 0:
		d.state = stateFailed
		d.addProblems(report.Problems)
	case report.Skipped != "":
		d.state = stateSkipped
	default:
		d.state = stateOK
		d.ans = report
		d.raw = ans.Value
		d.withheld = ans.Withheld
		d.addNotes()
	}
}

// request returns the question to the detector. It returns false and sets the state if there is nothing to ask.
func (d *detection) request(facts tape.Facts) (tape.DetectorReq, bool) {
	req := tape.DetectorReq{
		Name:   d.Name,
		Config: d.Config,
		Allow:  d.Allow,
		Memory: d.Memory,
	}
	if d.wait > 0 {
		req.WaitFor = map[string][]string{fabricFact: {fabricCompleted, fabricNotSupported, fabricFailed}}
		req.WaitMillis = d.wait.Milliseconds()
	}

	if d.Lock.Code() == fault.Unread { // recordings before there were locks have this question
		return tape.DetectorReq{
			Name:   d.Name,
			Config: d.Config,
			Millis: d.Timeout.Milliseconds(),
		}, true
	}
	if d.Lock.Fault != nil {
		d.fail(d.Lock.Fault)
		return req, false
	}
	if d.Describe == nil {
		return req, true
	}

	if !stages.Ungranted(d.Describe.Needs, d.Allow).Empty() {
		detail, hint := stages.NotGranted(*d.Describe, d.Allow)
		d.fail(&fault.Fault{Code: fault.Denied, Why: detail, Next: hint})

		return req, false
	}

	match := d.Describe.Match
	req.Devices = stages.MatchingDevices(match, facts.PCI)
	if !match.Always && len(match.Paths) == 0 && len(req.Devices) == 0 {
		d.state = stateSkipped
		return req, false
	}

	return req, true
}

// fail records a failure: an error if the detector is required, else a warning.
func (d *detection) fail(why *fault.Fault) {
	d.state = stateFailed
	if why.Code == fault.Absent {
		d.state = stateAbsent
	}

	summary := fmt.Sprintf("Detector %q is %s", d.Name, d.state)
	parts := []string{why.Why, why.Next}
	if d.Required {
		summary = fmt.Sprintf("Detector %q is required", d.Name)
		// Before the hint, which may end in a command.
		optional := fmt.Sprintf(
			"If the site works without it, write detector %q { required = false }",
			d.Name,
		)
		parts = slices.Insert(parts, 1, optional)
	}

	d.complain(d.Range, summary, "%s", stages.Sentence(parts...))
}

func (d *detection) complain(at hcl.Range, summary, detail string, args ...any) {
	diag := origin.Warning(fault.DetectorDegraded, at, summary, detail, args...)
	if d.Required {
		diag = origin.Error(fault.DetectorFailed, at, summary, detail, args...)
	}

	d.Diags = append(d.Diags, diag)
}

// addProblems reports the errors that the detector found in its configuration, at the lines of the site.
func (d *detection) addProblems(problems []contract.Problem) {
	for _, p := range problems[:min(maxShownTexts, len(problems))] {
		at := d.Range
		if d.At != nil {
			at = d.At(p.Path)
		}

		text := strings.TrimPrefix(shorten(p.Path)+": "+shorten(p.Summary), ": ")
		d.complain(at, fmt.Sprintf("Detector %q cannot use its configuration", d.Name), "%s",
			stages.Sentence(text, shorten(p.Detail)))
	}
}

// addNotes reports notes of a detector that has succeeded.
func (d *detection) addNotes() {
	note := func(c fault.Code, format string, args []any, parts ...string) {
		summary := fmt.Sprintf("Detector %q "+format, append([]any{d.Name}, args...)...)
		detail := stages.Sentence(parts...)
		d.Note(c, d.Range, summary, "%s", detail)
	}

	shown := d.ans.Warnings[:min(maxShownTexts, len(d.ans.Warnings))]
	hidden := len(d.ans.Warnings) - len(shown)
	for i, w := range shown {
		parts := []string{shorten(w)}
		if hidden > 0 && i == len(shown)-1 {
			parts = append(parts, fmt.Sprintf("It has %d more: prelet detect -o json", hidden))
		}
		note(fault.DetectorWarning, "has a warning", nil, parts...)
	}

	if len(d.ans.Foreign) > 0 {
		note(
			fault.DetectorDegraded,
			"may not report %s",
			[]any{listAddresses(d.ans.Foreign)},
			"Its description does not match these devices by their ids, so its report of them is not used",
			"If you trust it with the devices of other vendors, write into its block: allow { any_pci_device = true }",
		)
	}
	if len(d.ans.Sandbox) > 0 {
		note(fault.DetectorDegraded, "ran in a weaker sandbox than possible", nil, d.ans.Sandbox...)
	}

	d.addFindings()
}

// addFindings warns of what went wrong with the detector's process and its sandbox.
func (d *detection) addFindings() {
	warn := func(summary string, parts ...string) {
		d.Warn(fault.DetectorDegraded, d.Range, summary, "%s",
			stages.Sentence(parts...))
	}

	sandbox := slices.DeleteFunc(
		slices.Clone(d.ans.Findings),
		func(f string) bool {
			return f == tape.NotEnded
		},
	)
	if len(sandbox) < len(d.ans.Findings) {
		warn(
			fmt.Sprintf("Detector %q did not end in time", d.Name),
			"A process of it was killed and still existed half a second later: it has much memory to release, "+
				"or waits for a driver",
			"Look for it with ps -eo pid,stat,uid,args, as root; a process with STAT D waits in the kernel",
		)
	}

	if len(sandbox) > 0 {
		sandbox = append(
			sandbox,
			"Something on this machine prevents it: look at the drop-ins of prelet.service",
		)
		warn(fmt.Sprintf("The sandbox of detector %q could not be set up whole", d.Name), sandbox...)
	}
}

func shorten(s string) string {
	return contract.Shorten(s, maxShownBytes)
}

func listAddresses(addresses []string) string {
	text := strings.Join(addresses[:min(maxShownAddresses, len(addresses))], ", ")
	if hidden := len(addresses) - maxShownAddresses; hidden > 0 {
		text += fmt.Sprintf(" and %d more", hidden)
	}

	return text
}

// value returns the value of `detectors.NAME`.
func (d *detection) value() cty.Value {
	t := detectorType(d.Describe)

	switch d.state {
	case stateOK:
		v, err := codec.FromJSONTyped(d.raw, t)
		if err == nil {
			v, err = withhold(v, "detector "+d.Name, d.withheld)
		}
		if err == nil {
			return withState(v, stateOK)
		}

		d.state = stateFailed
		d.complain(
			d.Range,
			fmt.Sprintf("Detector %q has returned an unusable report", d.Name),
			"%s.",
			err,
		)
	}

	return withState(value.Absent(t), d.state)
}

func withState(v cty.Value, state string) cty.Value {
	m := v.AsValueMap()
	m["state"] = cty.StringVal(state)

	return cty.ObjectVal(m)
}

// recommended returns the labels that detectors recommend, by detector, without labels on which two disagree.
func recommended(all []*detection) map[string]map[string]string {
	latest := map[string]*detection{}
	disputed := map[string]bool{}

	for _, d := range all {
		for _, key := range slices.Sorted(maps.Keys(d.ans.Labels)) {
			other := latest[key]
			latest[key] = d
			if other == nil || other.ans.Labels[key] == d.ans.Labels[key] {
				continue
			}

			disputed[key] = true
			disagree(
				other,
				d,
				"the label "+key,
				other.ans.Labels[key],
				d.ans.Labels[key],
				"Neither is taken. Name the label of one in a `label` stage, and keep it out of from_detectors",
			)
		}
	}

	out := map[string]map[string]string{}
	for _, d := range all {
		labels := maps.Clone(d.ans.Labels)
		maps.DeleteFunc(labels, func(key, _ string) bool {
			return disputed[key]
		})
		if len(labels) > 0 {
			out[d.Name] = labels
		}
	}

	return out
}

// disagree reports that two detectors have different values of one thing: an error if one of them is required.
func disagree(a, b *detection, what, valueA, valueB, next string) {
	at := a
	if b.Required {
		at = b
	}

	why := fmt.Sprintf(
		"For %s %q reports %s, and %q reports %s",
		what,
		a.Name,
		valueA,
		b.Name,
		valueB,
	)
	at.complain(at.Range, fmt.Sprintf("Detectors %q and %q disagree", a.Name, b.Name), "%s",
		stages.Sentence(why, next))
}
