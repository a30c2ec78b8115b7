package rehearsal

import (
	"context"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/lang"
)

// TestHermeticKnowsEachKind checks that a test decides for each kind of question what answers it.
func TestHermeticKnowsEachKind(t *testing.T) {
	answer := tape.SourceFunc(func(context.Context, tape.Question) tape.Answer {
		return tape.Failure(fault.Absent, "asked", "")
	})
	h := HermeticNode{Node: answer, Objects: answer, Locks: answer, Site: &lang.Site{}}

	for _, kind := range tape.Kinds() {
		a := h.Ask(t.Context(), tape.Question{Kind: kind, Args: "{}"})
		if unknown := tape.NoAdapter(kind); a.Why() == unknown.Why() {
			t.Errorf("%s: got %q, want the kind in the cases of hermetic.Ask", kind, a.Why())
		}
	}
}

// TestHermetic holds that no question of a kind that needs a network, a credential or a program reaches the machine.
func TestHermetic(t *testing.T) {
	h := HermeticNode{
		Node: tape.SourceFunc(func(_ context.Context, q tape.Question) tape.Answer {
			t.Errorf("got the question %s, want none", q)
			return tape.NoAdapter(q.Kind)
		}),
		Objects: SampleObjects(),
		Locks: tape.SourceFunc(func(context.Context, tape.Question) tape.Answer {
			return tape.Failure(fault.Absent, "no lock", "")
		}),
		Site: &lang.Site{},
	}
	pinned := tape.Access{Servers: []string{"https://10.0.0.1:6443"}, CACertHashes: []string{"sha256:00"}}
	for name, c := range map[string]struct {
		q    tape.Question
		want fault.Code
		text string
	}{
		"credential": {tape.Credential.Question(tape.CredentialReq{Name: "token"}), "", "credential"},
		"trust":      {tape.Trust.Question(tape.TrustReq{Access: pinned}), "", "BEGIN CERTIFICATE"},
		"object": {
			tape.Object.Question(tape.ObjectReq{Access: pinned, Namespace: "kube-system", Name: "kubelet-config"}),
			"",
			"KubeletConfiguration",
		},
		"missing": {
			tape.Object.Question(tape.ObjectReq{Access: pinned, Namespace: "kube-system", Name: "other"}),
			fault.Absent,
			"kube-system/other is not given",
		},
		"lock":     {tape.Lock.Question(tape.LockReq{Name: "nvidia"}), fault.Absent, `"nvidia"`},
		"detector": {tape.Detector.Question(tape.DetectorReq{Name: "nvidia"}), fault.Absent, `"nvidia"`},
		"node":     {tape.Node.Question(tape.NodeReq{Access: pinned, Name: "n1"}), "", "n1"},
		"owner":    {tape.Owner.Question(tape.OwnerReq{Owner: "a:b"}), "", "{}"},
	} {
		a := h.Ask(context.Background(), c.q)
		got := string(a.Value) + a.Why()
		if a.Code() != c.want || !strings.Contains(got, c.text) {
			t.Errorf("%s: got %q, %s; want %q and a text with %q", name, a.Code(), got, c.want, c.text)
		}
	}
}
