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
	Recording world.Source
	Site      *lang.Site
	Given     map[string]probe.Given
	Objects   world.Source  // nil: none is replaced
	Kubelet   string        // "": the recorded one
	Binaries  dryrun.Askers // answer for themselves, by version; a version without one has the tables
	Detectors map[string]world.Answer
	Without   RemovedDevices
	IsTest    bool // a test replaces them: every credential exists

	mu         sync.Mutex
	hasObjects bool // some object that was asked for is in objects
	notes      []boot.Assumed
	noKubelet  *fault.Fault // why no kubelet gets the version
}

// Ask implements world.Source.
func (r *Source) Ask(ctx context.Context, q world.Question) world.Answer {
	was := r.Recording.Ask(ctx, q)
	switch q.Kind {
	case world.KindVariable, world.KindValidation:
		return r.answerVariable(ctx, q, was)
	case world.KindTrust, world.KindObject:
		return r.answerCluster(ctx, q, was)
	case world.KindKubelet:
		return r.answerKubelet(was)
	case world.KindAccepts, world.KindDryRun:
		if binary := r.findBinary(q); binary != nil {
			return binary.Ask(ctx, q)
		}
		if r.Kubelet != "" {
			return world.Failure(fault.Unread, "tables answer for the assumed kubelet", "")
		}
	case world.KindHardware:
		return r.Without.removeFacts(was)
	case world.KindCredential:
		if r.IsTest && was.Code() == fault.Unread {
			return existingCredential()
		}
	case world.KindLock, world.KindDetector:
		return r.answerDetector(q, was)
	}
	return was
}

// findBinary returns the binary that a question is about; nil if there is none.
func (r *Source) findBinary(q world.Question) *dryrun.Asker {
	if req, err := world.DryRun.Request(q); q.Kind == world.KindDryRun && err == nil {
		return cmp.Or(r.Binaries[req.Kubelet], r.Binaries["v"]) // that one is of any version
	}

	return r.Binaries["v"+strings.TrimPrefix(r.Kubelet, "v")]
}

// answerVariable returns the value of the command line, before the recorded one. A variable that the recording was
// never asked has the value of the site.
func (r *Source) answerVariable(
	ctx context.Context,
	q world.Question,
	was world.Answer,
) world.Answer {
	a, isGiven := probe.AnswerGiven(ctx, r.Given, r.Site, q)
	if q.Kind == world.KindValidation {
		if isGiven {
			return a
		}
		return was
	}

	req, err := world.Variable.Request(q)
	if err != nil {
		return was
	}
	assumed := boot.Assumed{
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
		a = world.Failure(fault.Absent, "the site has a value", "")
	case v != nil && v.Default != nil:
		assumed.From = "its default"
		a = world.Failure(fault.Absent, "the site has a default", "")
	default:
		return was
	}
	r.note(assumed)
	return a
}

// describeVariable returns where a recording has the value of a variable from.
func describeVariable(was world.Answer) string {
	var a world.VariableAns
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
	q world.Question,
	was world.Answer,
) world.Answer {
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

	assumed := boot.Assumed{
		Kind:      "object",
		From:      r.nameSource("--objects"),
		InsteadOf: was.Name(),
	}
	isSame := false
	if q.Kind == world.KindTrust {
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
func compareTrust(assumed *boot.Assumed, a, was world.Answer) (isSame bool) {
	var now, then world.TrustAns
	_ = json.Unmarshal(a.Value, &now)
	_ = json.Unmarshal(was.Value, &then)
	assumed.Kind = "ca"
	assumed.Name = now.Hash
	assumed.InsteadOf = cmp.Or(assumed.InsteadOf, then.Hash)
	return now.PEM != "" && (now.PEM == then.PEM || probe.HaveSameCAs(now.PEM, then.PEM))
}

// compareObjects reports whether two answers have the same object, and describes the new one.
func compareObjects(
	assumed *boot.Assumed,
	q world.Question,
	a, was world.Answer,
) (isSame bool) {
	var now, then world.ObjectAns
	_ = json.Unmarshal(a.Value, &now)
	_ = json.Unmarshal(was.Value, &then)
	if req, err := world.Object.Request(q); err == nil {
		assumed.Name = req.Namespace + "/" + req.Name
	}
	assumed.InsteadOf = cmp.Or(assumed.InsteadOf, "resource version "+then.ResourceVersion)
	return a.Fault == nil && was.Fault == nil && maps.Equal(now.Data, then.Data)
}

// answerKubelet returns the recorded answer with the assumed version.
func (r *Source) answerKubelet(was world.Answer) world.Answer {
	var k world.KubeletAns
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
	r.note(boot.Assumed{
		Kind:      "kubelet",
		Name:      version,
		From:      r.nameSource(flag),
		InsteadOf: before,
	})
	return world.Kubelet.Answer(k)
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
	facts, _, _ := world.Hardware.Ask(ctx, r.Recording, world.HardwareReq{}) // none after an error

	return slices.DeleteFunc(slices.Clone(r.Without.Addresses), func(address string) bool {
		return slices.ContainsFunc(facts.PCI, func(d world.PCIDevice) bool { return d.Address == address })
	})
}

// answerDetector returns the replaced reply of a detector. A replaced detector need not have a lock: then its facts are
// of any type, as in recordings that are older than locks.
func (r *Source) answerDetector(q world.Question, was world.Answer) world.Answer {
	lock, err := world.Lock.Request(q)
	if _, isReplaced := r.Detectors[lock.Name]; q.Kind == world.KindLock && err == nil {
		if isReplaced && was.Fault != nil {
			return world.Failure(fault.Unread, "the reply of this detector is replaced", "")
		}
		return was
	}

	req, err := world.Detector.Request(q)
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

func (r *Source) note(a boot.Assumed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, a)
}

// ListAssumed returns the replaced answers, sorted by kind and name. Several questions may share one.
func (r *Source) ListAssumed() []boot.Assumed {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.SortedFunc(slices.Values(r.notes), func(x, y boot.Assumed) int {
		return cmp.Or(
			cmp.Compare(x.Kind, y.Kind),
			cmp.Compare(x.Name, y.Name),
		)
	})
	return slices.Compact(out)
}
