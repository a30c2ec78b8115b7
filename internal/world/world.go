// Package world is the one door to what is outside: questions, answers, the tape that keeps both, and the
// recording that a tape becomes. It knows no adapter, and imports the standard library and fault only.
package world

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/prelet/prelet/internal/fault"
)

// Kind is what a question is about. Questions are of the domain, not of a protocol: "trust" is a whole verified
// exchange, so it replays without a token.
type Kind string

// The kinds of questions.
const (
	KindFile       Kind = "file"       // a file's text
	KindCredential Kind = "credential" // is it there? Never its bytes
	KindVariable   Kind = "variable"   // a value from outside the site's files
	KindTrust      Kind = "trust"      // the cluster's CA, verified
	KindObject     Kind = "object"     // a ConfigMap
	KindFacts      Kind = "facts"      // the hardware
	KindLock       Kind = "lock"       // what is known of a detector without running it
	KindDetector   Kind = "detector"   // one vendor detector
	KindKubelet    Kind = "kubelet"    // the kubelet at hand, and whether the node has joined
	KindAccepts    Kind = "accepts"    // the flags and feature gates that the kubelet's binary takes
	KindExists     Kind = "exists"     // is there something at a path that the kubelet will look at?
	KindDropIns    Kind = "drop-ins"   // which drop-ins of the kubelet's configuration are in a folder?
	KindServing    Kind = "serving"    // would the kubelet take the certificates that its API is served with?
	KindOriginal   Kind = "original"   // what a target held before prelet
	KindTarget     Kind = "target"     // what a target holds now
	KindNode       Kind = "node"       // does another machine have the name of this node?
	KindOwner      Kind = "owner"      // are there this user and this group?
	KindUnit       Kind = "unit"       // is there this unit, and what may it write?
	KindManaged    Kind = "managed"    // what the generation in place holds
	KindValidation Kind = "validation" // does a sensitive variable pass its rule?
)

// Question identifies one read. Args is the canonical JSON of the kind's request; no secret is ever part of it.
type Question struct {
	Kind Kind
	Args string
}

func (q Question) String() string { return string(q.Kind) + " " + q.Args }

// Answer is what came back: a value, or why there is none. A failure is an answer too, or a replay would differ from
// the run.
type Answer struct {
	Value json.RawMessage
	// Fault is why there is no value; nil with one. It has what a recording has of it: a code, a reason and a next
	// step. That something is not there (fault.Absent), may not be looked at (fault.Denied) or was never asked
	// (fault.Unread) is no failure yet: whoever asked decides.
	Fault *fault.Fault

	Stale    int      // the generation whose recording answered instead of the world
	Because  string   // with Stale: why the world did not answer
	Withheld []string // JSON pointers that were left out of this recording
}

// Failure is an answer without a value: its code, why, and what to do next.
func Failure(code fault.Code, why, next string) Answer {
	return Answer{Fault: &fault.Fault{Code: code, Why: why, Next: next}}
}

// Code is why there is no value; "" with one.
func (a Answer) Code() fault.Code {
	if a.Fault == nil {
		return ""
	}

	return a.Fault.Code
}

// Name is why there is no value, as recordings call it; "" with one.
func (a Answer) Name() string {
	if a.Fault == nil {
		return ""
	}

	return nameOf(a.Fault.Code)
}

// Why is the reason why there is no value, with its place; "" with one.
func (a Answer) Why() string {
	if a.Fault == nil {
		return ""
	}

	return a.Fault.Reason()
}

// Source answers questions: live adapters, a recording, a fake in a test.
type Source interface {
	Ask(ctx context.Context, q Question) Answer
}

// SourceFunc makes a function a Source.
type SourceFunc func(ctx context.Context, q Question) Answer

// Ask implements Source.
func (f SourceFunc) Ask(ctx context.Context, q Question) Answer { return f(ctx, q) }

// Topic ties a kind to the types of its request and its answer, so that callers are typed and the tape is not.
type Topic[Req, Ans any] struct{ Kind Kind }

// The topics.
var (
	File       = Topic[FileReq, FileAns]{KindFile}
	Credential = Topic[CredentialReq, CredentialAns]{KindCredential}
	Variable   = Topic[VariableReq, VariableAns]{KindVariable}
	Trust      = Topic[TrustReq, TrustAns]{KindTrust}
	Object     = Topic[ObjectReq, ObjectAns]{KindObject}
	FactsOf    = Topic[FactsReq, Facts]{KindFacts}
	LockOf     = Topic[LockReq, LockAns]{KindLock}
	DetectorOf = Topic[DetectorReq, DetectorAns]{KindDetector}
	Kubelet    = Topic[KubeletReq, KubeletAns]{KindKubelet}
	Accepts    = Topic[AcceptsReq, AcceptsAns]{KindAccepts}
	Exists     = Topic[ExistsReq, ExistsAns]{KindExists}
	DropIns    = Topic[DropInsReq, DropInsAns]{KindDropIns}
	Serving    = Topic[ServingReq, ServingAns]{KindServing}
	Original   = Topic[OriginalReq, TargetAns]{KindOriginal}
	Target     = Topic[TargetReq, TargetAns]{KindTarget}
	NodeOf     = Topic[NodeReq, NodeAns]{KindNode}
	Owner      = Topic[OwnerReq, OwnerAns]{KindOwner}
	UnitOf     = Topic[UnitReq, UnitAns]{KindUnit}
	Managed    = Topic[ManagedReq, ManagedAns]{KindManaged}
	Validation = Topic[ValidationReq, ValidationAns]{KindValidation}
)

// Question writes a request as a question.
func (t Topic[Req, Ans]) Question(r Req) Question {
	b, err := json.Marshal(r)
	if err != nil {
		panic("world: cannot encode a request as JSON: " + err.Error())
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

// Answer encodes a value as an answer, for adapters.
func (t Topic[Req, Ans]) Answer(v Ans) Answer {
	b, err := json.Marshal(v)
	if err != nil {
		return unusable(t.Kind, err.Error())
	}

	return Answer{Value: b}
}
