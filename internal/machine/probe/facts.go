package probe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/hardware"
	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/schema"
)

// answerFacts returns the hardware, after waiting for the links and drivers that the site names. A link or driver
// that is missing at the timeout becomes an unknown fact.
func (l *Live) answerFacts(ctx context.Context, r tape.HardwareReq) tape.Answer {
	if strings.HasSuffix(l.o.Hardware, ".json") { // a recorded machine is a folder or a file of facts
		return readFacts(l.o.Hardware, r.WaitUnits)
	}

	o := hardware.ReadOptions{Root: l.o.Hardware}

	var units, whyNot []string
	isLive := l.o.Hardware == "" && l.o.Units != nil && !l.isOtherMachine()
	if len(r.WaitUnits) > 0 && isLive {
		units, whyNot = l.awaitUnits(ctx, r.WaitUnits, time.Duration(r.WaitMillis)*time.Millisecond)
	}

	var missing hardware.Missing

	if len(r.WaitLinks)+len(r.WaitDrivers) > 0 {
		var err error

		timeout := time.Duration(r.WaitMillis) * time.Millisecond

		missing, err = hardware.WaitFor(ctx, o, r.WaitLinks, r.WaitDrivers, timeout, l.reportMissing)
		if err != nil {
			return tape.Failure(fault.HardwareFailed, err.Error(), "")
		}
	}

	f, err := hardware.Detect(ctx, o)
	if err != nil {
		return tape.Failure(fault.HardwareFailed, err.Error(), "`prelet detect` shows what can be read")
	}

	add := func(fact, live, recorded string) {
		why := fmt.Sprintf("%s in %s", live, missing.Waited.Round(100*time.Millisecond))
		if l.o.Hardware != "" {
			why = recorded + " in this recording"
		}

		f.Unknown = append(f.Unknown, tape.UnknownFact{
			Fact:     fact,
			Why:      why,
			Degraded: true,
		})
	}

	for _, n := range missing.Links {
		add("link "+n, "it did not come up", "it is down")
	}

	for _, n := range missing.Drivers {
		add("driver "+n, "no device was bound to it", "no device is bound to it")
	}

	addUnits(&f, r.WaitUnits, units, whyNot)

	return tape.Hardware.Answer(f)
}

// addUnits adds the units that the site waits for to facts that lack them. States are nil if the machine is another
// one. A state that is known keeps its value, so what degrades the boot then is not the name of a fact.
func addUnits(f *tape.Facts, names, states, whyNot []string) {
	for i, name := range names {
		if _, isRecorded := f.Units[name]; isRecorded {
			continue
		}
		if f.Units == nil {
			f.Units = map[string]*string{}
		}

		f.Units[name] = nil
		u := tape.UnknownFact{Fact: "units[" + name + "]", Why: "the units of another machine are not known"}
		if states != nil {
			u.Why = whyNot[i]
			u.Degraded = states[i] != tape.UnitDone && states[i] != tape.UnitSkipped
		}
		if states != nil && states[i] != tape.UnitUnknown {
			f.Units[name] = &states[i]
			u.Fact = "unit " + name
		}
		if u.Why != "" && (states == nil || u.Degraded) {
			f.Unknown = append(f.Unknown, u)
		}
	}
}

// reportMissing reports the wait for links and drivers.
func (l *Live) reportMissing(m hardware.Missing, left time.Duration) {
	var names []string
	for _, n := range m.Links {
		names = append(names, "link "+n)
	}
	for _, n := range m.Drivers {
		names = append(names, "driver "+n)
	}
	l.reportWait(strings.Join(names, ", "), "down, or without a device", left)
}

// reportWait reports a wait on this machine as one for the cluster is.
func (l *Live) reportWait(what, why string, left time.Duration) {
	if l.o.OnRetry != nil {
		l.o.OnRetry(Retry{Server: what, Why: why, Wait: left, Until: time.Now().Add(left)})
	}
}

// readFacts returns the facts of a file as `prelet detect -o json` prints them, or the facts alone. They are as they
// were detected, with the links and drivers that were missing then, so nothing is waited for. Units that the site waits
// for are unknown if they lack them.
func readFacts(path string, units []string) tape.Answer {
	text, err := nodefile.ReadFile(path, maxFacts)
	if err != nil {
		return tape.Failure(fault.HardwareFailed, path+": "+nodefile.Reason(err), "")
	}

	f, err := decodeFacts(text)
	if err != nil {
		f := codec.FaultIn(fault.HardwareFailed, path, text, err)
		f.Next = cmp.Or(f.Next, "Write the file with `prelet detect -o json`")
		return tape.Answer{Fault: f}
	}

	addUnits(&f, units, nil, nil)

	return tape.Hardware.Answer(f)
}

// writtenFacts are facts as `prelet detect -o json` writes them: with the accelerators that are GPUs once more, and
// with reports of detectors, which a replay does not read.
type writtenFacts struct {
	tape.Facts
	GPUs      []tape.Accelerator `json:"gpus"`
	Detectors any                `json:"detectors"`
}

// factsDocument is the output of `prelet detect -o json`.
type factsDocument struct {
	FormatVersion int          `json:"format_version"`
	Facts         writtenFacts `json:"facts"`
	Degraded      any          `json:"degraded"`
	Diagnostics   any          `json:"diagnostics"`
}

// decodeFacts decodes facts alone, or in the document of `prelet detect -o json`.
func decodeFacts(text []byte) (tape.Facts, error) {
	var document struct {
		Facts json.RawMessage `json:"facts"`
	}
	if err := tape.RecordingBounds.Check(text); err != nil {
		return tape.Facts{}, err
	}
	if start := bytes.TrimSpace(text); len(start) > 0 && start[0] != '{' {
		return tape.Facts{}, errors.New("this is not JSON")
	}

	var d factsDocument
	isDocument := json.Unmarshal(text, &document) == nil && document.Facts != nil
	err := error(nil)
	if isDocument {
		err = codec.DecodeStrict(text, &d, suggestFact)
	} else {
		err = codec.DecodeStrict(text, &d.Facts, suggestFact)
	}

	f := d.Facts.Facts
	isGPU := func(a tape.Accelerator) bool { return a.Kind == "gpu" }
	gpus := slices.DeleteFunc(slices.Clone(f.Accelerators), func(a tape.Accelerator) bool { return !isGPU(a) })
	switch {
	case err != nil:
		return f, err
	case f.CPU.Logical == nil:
		return f, missingFact("cpu.logical", "the number of CPUs")
	case f.Memory.TotalBytes == nil:
		return f, missingFact("memory.total_bytes", "the memory in bytes")
	case d.Facts.GPUs != nil && !reflect.DeepEqual(gpus, d.Facts.GPUs):
		return f, errors.New("gpus differs from the accelerators of kind \"gpu\", which it repeats: " +
			"edit accelerators, and remove gpus")
	}

	return f, nil
}

// suggestFact is a codec.Suggest for facts that a person may have written.
func suggestFact(path []string, value json.Token) string {
	text, isText := value.(string)
	if !isText {
		return ""
	}
	isIndex := func(name string) bool { return strings.Trim(name, "0123456789") == "" }
	names := slices.DeleteFunc(slices.Clone(path), isIndex)

	return schema.SuggestFact(strings.TrimPrefix(strings.Join(names, "."), "facts."), text)
}

// Vendors returns the names that the vendors of cards have in facts, sorted.
func Vendors() []string { return hardware.Vendors() }

func missingFact(name, what string) error {
	return &codec.PlaceError{Line: 1, Column: 1, Why: "the fact " + name + " is missing", Next: "Add it: " + what}
}

// maxFacts bounds a file of facts, in bytes. The facts of a DGX have 100 KB.
const maxFacts = 16 << 20
