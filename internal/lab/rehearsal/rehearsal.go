// Package rehearsal has the sources of answers of a plan that assumes something: another value than that of a node or
// its recording, or a whole node of a test. It changes no node, and starts nothing.
package rehearsal

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/dryrun"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
)

// TestSource is where an answer comes from that a test gives.
const TestSource = "the test"

// Source answers from a node or its recording, except for the values that the command line or a test replaces:
// variables, objects, the kubelet's version, detectors, devices. It lists the first three as assumed.
type Source struct {
	Recording tape.Source
	Site      *lang.Site
	Given     map[string]probe.Given
	Objects   tape.Source   // nil: none is replaced
	Kubelet   string        // "": the recorded one
	Binaries  dryrun.Askers // answer for themselves, by version; a version without one has the tables
	Detectors map[string]tape.Answer
	Without   RemovedDevices
	IsTest    bool // a test replaces them: every credential exists

	mu         sync.Mutex
	hasObjects bool // some object that was asked for is in objects
	notes      []evaluate.Assumed
	noKubelet  *fault.Fault // why no kubelet gets the version
}

// Ask implements tape.Source.
func (r *Source) Ask(ctx context.Context, q tape.Question) tape.Answer {
	was := r.Recording.Ask(ctx, q)
	switch q.Kind {
	case tape.KindVariable, tape.KindValidation:
		return r.answerVariable(ctx, q, was)
	case tape.KindTrust, tape.KindObject:
		return r.answerCluster(ctx, q, was)
	case tape.KindKubelet:
		return r.answerKubelet(was)
	case tape.KindAccepts, tape.KindDryRun:
		if binary := r.findBinary(q); binary != nil {
			return binary.Ask(ctx, q)
		}
		if r.Kubelet != "" {
			return tape.Failure(fault.Unread, "tables answer for the assumed kubelet", "")
		}
	case tape.KindHardware:
		return r.Without.removeFacts(was)
	case tape.KindCredential:
		if r.IsTest && was.Code() == fault.Unread {
			return existingCredential()
		}
	case tape.KindLock, tape.KindDetector:
		return r.answerDetector(q, was)
	}
	return was
}

// findBinary returns the binary that a question is about; nil if there is none.
func (r *Source) findBinary(q tape.Question) *dryrun.Asker {
	if req, err := tape.DryRun.Request(q); q.Kind == tape.KindDryRun && err == nil {
		return cmp.Or(r.Binaries[req.Kubelet], r.Binaries["v"]) // that one is of any version
	}

	return r.Binaries["v"+strings.TrimPrefix(r.Kubelet, "v")]
}

// answerVariable returns the value of the command line, before the recorded one. A variable that the recording was
// never asked has the value of the site.
func (r *Source) answerVariable(
	ctx context.Context,
	q tape.Question,
	was tape.Answer,
) tape.Answer {
	a, isGiven := probe.AnswerGiven(ctx, r.Given, r.Site, q)
	if q.Kind == tape.KindValidation {
		if isGiven {
			return a
		}
		return was
	}

	req, err := tape.Variable.Request(q)
	if err != nil {
		return was
	}
	assumed := evaluate.Assumed{
		Kind:      "variable",
		Name:      req.Name,
		InsteadOf: describeVariable(was),
	}
	v := r.Site.Variables[req.Name]
	file := r.Site.Values[req.Name]
	switch {
	case isGiven:
		assumed.From = r.Given[req.Name].Source
	case was.Code() != fault.Unread:
		return was
	case file != nil:
		assumed.From = fmt.Sprintf("%s:%d", file.Range().Filename, file.Range().Start.Line)
		a = tape.Failure(fault.Absent, "the site has a value", "")
	case v != nil && v.Default != nil:
		assumed.From = "its default"
		a = tape.Failure(fault.Absent, "the site has a default", "")
	default:
		return was
	}
	r.note(assumed)
	return a
}

// describeVariable returns where a recording has the value of a variable from.
func describeVariable(was tape.Answer) string {
	var a tape.VariableAns
	switch {
	case was.Code() == fault.Unread:
		return "a credential or the kernel command line, for which the recording was never asked"
	case was.Fault != nil || json.Unmarshal(was.Value, &a) != nil:
		return "the value of the site"
	}
	if a.Source == "--var" || strings.HasPrefix(a.Source, "--var-file ") {
		return "the recorded " + a.Source
	}
	return a.Source
}

// answerCluster returns the object in the folder of --objects, if it differs from the recorded one.
func (r *Source) answerCluster(
	ctx context.Context,
	q tape.Question,
	was tape.Answer,
) tape.Answer {
	if r.Objects == nil {
		return was
	}
	a := r.Objects.Ask(ctx, q)
	if a.Code() == fault.Absent {
		return was
	}
	r.mu.Lock()
	r.hasObjects = true
	r.mu.Unlock()

	assumed := evaluate.Assumed{
		Kind:      "object",
		From:      r.nameSource("--objects"),
		InsteadOf: was.Name(),
	}
	isSame := false
	if q.Kind == tape.KindTrust {
		isSame = compareTrust(&assumed, a, was)
	} else {
		isSame = compareObjects(&assumed, q, a, was)
	}
	if isSame {
		return was
	}
	r.note(assumed)
	return a
}

// compareTrust reports whether two answers have the same CA, and describes the new one.
func compareTrust(assumed *evaluate.Assumed, a, was tape.Answer) (isSame bool) {
	var now, then tape.TrustAns
	_ = json.Unmarshal(a.Value, &now)
	_ = json.Unmarshal(was.Value, &then)
	assumed.Kind = "ca"
	assumed.Name = now.Hash
	assumed.InsteadOf = cmp.Or(assumed.InsteadOf, then.Hash)
	return now.PEM != "" && (now.PEM == then.PEM || probe.HaveSameCAs(now.PEM, then.PEM))
}

// compareObjects reports whether two answers have the same object, and describes the new one.
func compareObjects(
	assumed *evaluate.Assumed,
	q tape.Question,
	a, was tape.Answer,
) (isSame bool) {
	var now, then tape.ObjectAns
	_ = json.Unmarshal(a.Value, &now)
	_ = json.Unmarshal(was.Value, &then)
	if req, err := tape.Object.Request(q); err == nil {
		assumed.Name = req.Namespace + "/" + req.Name
	}
	assumed.InsteadOf = cmp.Or(assumed.InsteadOf, "resource version "+then.ResourceVersion)
	return a.Fault == nil && was.Fault == nil && maps.Equal(now.Data, then.Data)
}

// answerKubelet returns the recorded answer with the assumed version.
func (r *Source) answerKubelet(was tape.Answer) tape.Answer {
	var k tape.KubeletAns
	if r.Kubelet != "" && was.Fault != nil {
		r.mu.Lock()
		r.noKubelet = was.Fault
		r.mu.Unlock()
	}
	if r.Kubelet == "" || was.Fault != nil || json.Unmarshal(was.Value, &k) != nil {
		return was
	}

	version := "v" + strings.TrimPrefix(r.Kubelet, "v")
	before := cmp.Or(k.KnownVersion(), "none")
	flag := "--kubelet-version"
	if r.Binaries[version] != nil {
		flag = "--kubelet"
	}
	k.Version = &version
	r.note(evaluate.Assumed{
		Kind:      "kubelet",
		Name:      version,
		From:      r.nameSource(flag),
		InsteadOf: before,
	})
	return tape.Kubelet.Answer(k)
}

// WhyNoKubelet returns why no kubelet gets the version; nil if one does. As IgnoresObjects, it may be called while a
// question that was abandoned still gets its answer.
func (r *Source) WhyNoKubelet() *fault.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.noKubelet
}

// IgnoresObjects reports whether objects are given and none of them was asked for.
func (r *Source) IgnoresObjects() bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.Objects != nil && !r.hasObjects
}

// ListNotFound returns the devices to remove that the machine does not have: all where its hardware cannot be read.
func (r *Source) ListNotFound(ctx context.Context) []string {
	if len(r.Without.Addresses) == 0 {
		return nil
	}
	facts, _, _ := tape.Hardware.Ask(ctx, r.Recording, tape.HardwareReq{}) // none after an error

	return slices.DeleteFunc(slices.Clone(r.Without.Addresses), func(address string) bool {
		return slices.ContainsFunc(facts.PCI, func(d tape.PCIDevice) bool { return d.Address == address })
	})
}

// answerDetector returns the replaced reply of a detector. A replaced detector need not have a lock: then its facts are
// of any type, as in recordings that are older than locks.
func (r *Source) answerDetector(q tape.Question, was tape.Answer) tape.Answer {
	lock, err := tape.Lock.Request(q)
	if _, isReplaced := r.Detectors[lock.Name]; q.Kind == tape.KindLock && err == nil {
		if isReplaced && was.Fault != nil {
			return tape.Failure(fault.Unread, "the reply of this detector is replaced", "")
		}
		return was
	}

	req, err := tape.Detector.Request(q)
	if err != nil {
		return was
	}
	if a, isReplaced := r.Detectors[req.Name]; isReplaced {
		return a
	}
	return r.Without.removeReported(req, was)
}

// nameSource returns where a replaced answer comes from: a flag, or a test.
func (r *Source) nameSource(flag string) string {
	if r.IsTest {
		return TestSource
	}
	return flag
}

func (r *Source) note(a evaluate.Assumed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, a)
}

// ListAssumed returns the replaced answers, sorted by kind and name. Several questions may share one.
func (r *Source) ListAssumed() []evaluate.Assumed {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.SortedFunc(slices.Values(r.notes), func(x, y evaluate.Assumed) int {
		return cmp.Or(
			cmp.Compare(x.Kind, y.Kind),
			cmp.Compare(x.Name, y.Name),
		)
	})
	return slices.Compact(out)
}
