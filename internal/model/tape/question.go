// Package tape defines questions about everything outside of the site, their answers, the tape that stores both, and
// the recording of a tape. All reads of a plan use it. It must not know adapters, and imports only the standard
// library, fault and the contract of detectors.
//
// The answer to a question that a recording does not contain is fault.Unread. A plan that needs it fails with that
// code, so that an item missing from a recording never looks like an item missing from a node.
package tape

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/prelet/prelet/internal/fault"
)

// Kind is the subject of a question. Questions are of the domain, not of a protocol: "trust" is a whole verified
// exchange, so it replays without a token.
type Kind string

// The kinds of questions.
const (
	KindFile       Kind = "file"        // a file's text
	KindCredential Kind = "credential"  // whether it exists, never its bytes
	KindVariable   Kind = "variable"    // a value from outside the site's files
	KindTrust      Kind = "trust"       // the cluster's CA, verified
	KindObject     Kind = "object"      // a ConfigMap
	KindHardware   Kind = "facts"       // the hardware
	KindLock       Kind = "lock"        // the lock of a detector
	KindDetector   Kind = "detector"    // one vendor detector
	KindKubelet    Kind = "kubelet"     // the installed kubelet, and whether the node has joined
	KindAccepts    Kind = "accepts"     // the flags and feature gates of the kubelet's binary
	KindDryRun     Kind = "dry-run"     // does the kubelet's binary accept its finished words and files?
	KindConfigDump Kind = "config-dump" // does the container runtime accept its files as a plan leaves them?
	KindExists     Kind = "exists"      // does a path exist that the kubelet will use?
	KindDropIns    Kind = "drop-ins"    // which drop-ins of the kubelet's configuration are in a folder?
	KindServing    Kind = "serving"     // would the kubelet accept the certificates of its API?
	KindOriginal   Kind = "original"    // the content of a managed file before prelet
	KindTarget     Kind = "target"      // the state of a file that is planned or managed
	KindNode       Kind = "node"        // does another machine have the name of this node?
	KindOwner      Kind = "owner"       // do this user and this group exist?
	KindUnit       Kind = "unit"        // does this unit exist, and what may it write?
	KindLogind     Kind = "logind"      // how long does logind delay a shutdown?
	KindHost       Kind = "host"        // what kubeadm checks on a machine before a kubelet starts
	KindPackages   Kind = "packages"    // which packages of the system own these files?
	KindManaged    Kind = "managed"     // the managed files of the generation in place
	KindValidation Kind = "validation"  // does a sensitive variable pass its rule?
)

func topics() []topic {
	return []topic{
		File, Credential, Variable, Trust, Object, Hardware, Lock, Detector, Kubelet, Accepts, DryRun, ConfigDump,
		Exists, DropIns, Serving, Original, Target, Node, Owner, Unit, Logind, Host, Packages, Managed, Validation,
	}
}

// topic is a Topic of any types.
type topic interface {
	kind() Kind
	canonical(Question) Question
}

// Kinds returns all kinds of questions. The tests of each source go through them: a new kind needs an answer in each.
func Kinds() (all []Kind) {
	for _, t := range topics() {
		all = append(all, t.kind())
	}

	return all
}

// Question identifies one read. Args is the canonical JSON of the kind's request; no secret is ever part of it.
type Question struct {
	Kind Kind
	Args string
}

func (q Question) String() string { return string(q.Kind) + " " + q.Args }

// Answer is a value, or the reason why there is none. A failure is an answer too, so that a replay equals the run.
type Answer struct {
	Value json.RawMessage
	// Fault is the reason for a missing value, with the parts that a recording has: a code, a reason and a next step.
	// For the caller, fault.Absent, fault.Denied and fault.Unread (not in the recording) need not be failures.
	Fault *fault.Fault

	Stale    int      // the generation whose recording answered instead of the world
	Because  string   // with Stale: why the world did not answer
	Withheld []string // JSON pointers that were left out of this recording
}

// Failure returns an answer without a value: its code, the reason, and the next step.
func Failure(code fault.Code, why, next string) Answer {
	return Answer{Fault: &fault.Fault{Code: code, Why: why, Next: next}}
}

// Code returns the code of the reason for a missing value, or "".
func (a Answer) Code() fault.Code {
	if a.Fault == nil {
		return ""
	}

	return a.Fault.Code
}

// Name returns a recording's name for the reason for a missing value, or "".
func (a Answer) Name() string {
	if a.Fault == nil {
		return ""
	}

	return nameOf(a.Fault.Code)
}

// Why returns the reason for a missing value, with its place, or "".
func (a Answer) Why() string {
	if a.Fault == nil {
		return ""
	}

	return a.Fault.Reason()
}

// Source answers questions: internal/machine/probe on a node, a recording, or a fake in a test.
type Source interface {
	Ask(ctx context.Context, q Question) Answer
}

// SourceFunc is a function as a Source.
type SourceFunc func(ctx context.Context, q Question) Answer

// Ask implements Source.
func (f SourceFunc) Ask(ctx context.Context, q Question) Answer { return f(ctx, q) }

// Topic ties a kind to the types of its request and its answer, so that callers are typed and the tape is not.
type Topic[Req, Ans any] struct{ Kind Kind }

// The topics. Topic X has the kind KindX, the request XReq and the answer XAns, except that the answer of Hardware is
// Facts, and that of Original is TargetAns.
var (
	File       = Topic[FileReq, FileAns]{KindFile}
	Credential = Topic[CredentialReq, CredentialAns]{KindCredential}
	Variable   = Topic[VariableReq, VariableAns]{KindVariable}
	Trust      = Topic[TrustReq, TrustAns]{KindTrust}
	Object     = Topic[ObjectReq, ObjectAns]{KindObject}
	Hardware   = Topic[HardwareReq, Facts]{KindHardware}
	Lock       = Topic[LockReq, LockAns]{KindLock}
	Detector   = Topic[DetectorReq, DetectorAns]{KindDetector}
	Kubelet    = Topic[KubeletReq, KubeletAns]{KindKubelet}
	Accepts    = Topic[AcceptsReq, AcceptsAns]{KindAccepts}
	DryRun     = Topic[DryRunReq, DryRunAns]{KindDryRun}
	ConfigDump = Topic[ConfigDumpReq, ConfigDumpAns]{KindConfigDump}
	Exists     = Topic[ExistsReq, ExistsAns]{KindExists}
	DropIns    = Topic[DropInsReq, DropInsAns]{KindDropIns}
	Serving    = Topic[ServingReq, ServingAns]{KindServing}
	Original   = Topic[OriginalReq, TargetAns]{KindOriginal}
	Target     = Topic[TargetReq, TargetAns]{KindTarget}
	Node       = Topic[NodeReq, NodeAns]{KindNode}
	Owner      = Topic[OwnerReq, OwnerAns]{KindOwner}
	Unit       = Topic[UnitReq, UnitAns]{KindUnit}
	Logind     = Topic[LogindReq, LogindAns]{KindLogind}
	Host       = Topic[HostReq, HostAns]{KindHost}
	Packages   = Topic[PackagesReq, PackagesAns]{KindPackages}
	Managed    = Topic[ManagedReq, ManagedAns]{KindManaged}
	Validation = Topic[ValidationReq, ValidationAns]{KindValidation}
)

// Question encodes a request as a question.
func (t Topic[Req, Ans]) Question(r Req) Question {
	b, err := json.Marshal(r)
	if err != nil {
		panic("tape: cannot encode a request as JSON: " + err.Error())
	}

	return Question{t.Kind, string(b)}
}

// Ask asks s and decodes the answer. The error is the answer's Fault.
func (t Topic[Req, Ans]) Ask(ctx context.Context, s Source, r Req) (out Ans, a Answer, err error) {
	q := t.Question(r)

	a = s.Ask(ctx, q)
	if a.Fault != nil {
		return out, a, a.Fault
	}

	if err := json.Unmarshal(a.Value, &out); err != nil {
		a.Fault = unusable(q.Kind, "the answer cannot be decoded: "+err.Error()).Fault
		return out, a, a.Fault
	}

	return out, a, nil
}

// Request decodes a question's arguments, for adapters.
func (t Topic[Req, Ans]) Request(q Question) (r Req, err error) {
	d := json.NewDecoder(strings.NewReader(q.Args))
	d.DisallowUnknownFields()
	err = d.Decode(&r)

	return r, err
}

func (t Topic[Req, Ans]) kind() Kind { return t.Kind }

// canonical returns a question as Question encodes it, whichever program has written its JSON. A question that this
// prelet does not know stays.
func (t Topic[Req, Ans]) canonical(q Question) Question {
	r, err := t.Request(q)
	if err != nil {
		return q
	}

	return t.Question(r)
}

// Answer encodes a value as an answer, for adapters.
func (t Topic[Req, Ans]) Answer(v Ans) Answer {
	b, err := json.Marshal(v)
	if err != nil {
		return unusable(t.Kind, err.Error())
	}

	return Answer{Value: b}
}

// Adapters are a source of answers, each to the questions of one kind.
type Adapters []Adapter

// Adapter answers the questions of one kind.
type Adapter struct {
	Kind Kind
	ask  func(ctx context.Context, q Question) Answer
}

// Adapt returns an adapter that decodes the request of a question and calls f with it.
func (t Topic[Req, Ans]) Adapt(f func(context.Context, Req) Answer) Adapter {
	return Adapter{t.Kind, func(ctx context.Context, q Question) Answer {
		r, err := t.Request(q)
		if err != nil {
			return Unreadable(q.Kind, err)
		}

		return f(ctx, r)
	}}
}

// Ask implements Source.
func (all Adapters) Ask(ctx context.Context, q Question) Answer {
	for _, a := range all {
		if a.Kind == q.Kind {
			return a.ask(ctx, q)
		}
	}

	return NoAdapter(q.Kind)
}
