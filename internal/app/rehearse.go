package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/probe"
	"github.com/prelet/prelet/internal/world"
)

// rehearsal answers from a node or its recording, except what the command line replaces: variables, objects, the
// version of the kubelet. It keeps what it assumed.
type rehearsal struct {
	recording world.Source
	site      *site.Site
	given     map[string]live.Given
	objects   world.Source // nil: none is replaced
	kubelet   string       // "": the recorded one

	mu         sync.Mutex
	hasObjects bool // some object that was asked for is in objects
	notes      []boot.Assumed
}

// Ask implements world.Source.
func (r *rehearsal) Ask(ctx context.Context, q world.Question) world.Answer {
	was := r.recording.Ask(ctx, q)
	switch q.Kind {
	case world.KindVariable, world.KindValidation:
		return r.answerVariable(ctx, q, was)
	case world.KindTrust, world.KindObject:
		return r.answerCluster(ctx, q, was)
	case world.KindKubelet:
		return r.answerKubelet(was)
	case world.KindAccepts:
		if r.kubelet != "" {
			return world.Failure(fault.Unread, "tables answer for the assumed kubelet", "")
		}
	}
	return was
}

// answerVariable returns the value of the command line, before the recorded one. A variable that the recording was
// never asked has the value of the site.
func (r *rehearsal) answerVariable(ctx context.Context, q world.Question, was world.Answer) world.Answer {
	a, isGiven := live.AnswerGiven(ctx, r.given, r.site, q)
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
	assumed := boot.Assumed{Kind: "variable", Name: req.Name, InsteadOf: describeVariable(was)}
	v, file := r.site.Variables[req.Name], r.site.Values[req.Name]
	switch {
	case isGiven:
		assumed.From = r.given[req.Name].Source
	case was.Code() != fault.Unread:
		return was
	case file.Expr != nil:
		assumed.From = fmt.Sprintf("%s:%d", file.Expr.Range().Filename, file.Expr.Range().Start.Line)
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

// answerCluster returns what the folder of --objects has, if that differs from what is recorded.
func (r *rehearsal) answerCluster(ctx context.Context, q world.Question, was world.Answer) world.Answer {
	if r.objects == nil {
		return was
	}
	a := r.objects.Ask(ctx, q)
	if a.Code() == fault.Absent {
		return was
	}
	r.mu.Lock()
	r.hasObjects = true
	r.mu.Unlock()

	assumed := boot.Assumed{Kind: "object", From: "--objects", InsteadOf: was.Name()}
	if q.Kind == world.KindTrust {
		var now, then world.TrustAns
		_, _ = json.Unmarshal(a.Value, &now), json.Unmarshal(was.Value, &then)
		if now.PEM != "" && now.PEM == then.PEM {
			return was
		}
		assumed.Kind, assumed.Name = "ca", now.Hash
		assumed.InsteadOf = cmp.Or(assumed.InsteadOf, then.Hash)
	} else {
		var now, then world.ObjectAns
		_, _ = json.Unmarshal(a.Value, &now), json.Unmarshal(was.Value, &then)
		if a.Fault == nil && was.Fault == nil && maps.Equal(now.Data, then.Data) {
			return was
		}
		if req, err := world.Object.Request(q); err == nil {
			assumed.Name = req.Namespace + "/" + req.Name
		}
		assumed.InsteadOf = cmp.Or(assumed.InsteadOf, "resource version "+then.ResourceVersion)
	}
	r.note(assumed)
	return a
}

// answerKubelet returns the recorded answer with the assumed version.
func (r *rehearsal) answerKubelet(was world.Answer) world.Answer {
	var k world.KubeletAns
	if r.kubelet == "" || was.Fault != nil || json.Unmarshal(was.Value, &k) != nil {
		return was
	}

	version, before := "v"+strings.TrimPrefix(r.kubelet, "v"), "none"
	if k.Version != nil {
		before = *k.Version
	}
	k.Version = &version
	r.note(boot.Assumed{Kind: "kubelet", Name: version, From: "--kubelet-version", InsteadOf: before})
	return world.Kubelet.Answer(k)
}

func (r *rehearsal) note(a boot.Assumed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, a)
}

// assumed returns what was assumed, by kind and name. Several questions may have one assumed answer.
func (r *rehearsal) assumed() []boot.Assumed {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.SortedFunc(slices.Values(r.notes), func(x, y boot.Assumed) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
	return slices.Compact(out)
}
