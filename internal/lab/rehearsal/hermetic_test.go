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
	answer := world.SourceFunc(func(context.Context, world.Question) world.Answer {
		return world.Failure(fault.Absent, "asked", "")
	})
	h := HermeticNode{Node: answer, Objects: answer, Locks: answer, Site: &lang.Site{}}

	for _, kind := range world.Kinds() {
		a := h.Ask(t.Context(), world.Question{Kind: kind, Args: "{}"})
		if unknown := world.NoAdapter(kind); a.Why() == unknown.Why() {
			t.Errorf("%s: got %q, want the kind in the cases of hermetic.Ask", kind, a.Why())
		}
	}
}

// TestHermetic holds that no question of a kind that needs a network, a credential or a program reaches the machine.
func TestHermetic(t *testing.T) {
	h := HermeticNode{
		Node: world.SourceFunc(func(_ context.Context, q world.Question) world.Answer {
			t.Errorf("got the question %s, want none", q)
			return world.NoAdapter(q.Kind)
		}),
		Objects: SampleObjects(),
		Locks: world.SourceFunc(func(context.Context, world.Question) world.Answer {
			return world.Failure(fault.Absent, "no lock", "")
		}),
		Site: &lang.Site{},
	}
	pinned := world.Access{Servers: []string{"https://10.0.0.1:6443"}, CACertHashes: []string{"sha256:00"}}
	for name, c := range map[string]struct {
		q    world.Question
		want fault.Code
		text string
	}{
		"credential": {world.Credential.Question(world.CredentialReq{Name: "token"}), "", "credential"},
		"trust":      {world.Trust.Question(world.TrustReq{Access: pinned}), "", "BEGIN CERTIFICATE"},
		"object": {
			world.Object.Question(world.ObjectReq{Access: pinned, Namespace: "kube-system", Name: "kubelet-config"}),
			"",
			"KubeletConfiguration",
		},
		"missing": {
			world.Object.Question(world.ObjectReq{Access: pinned, Namespace: "kube-system", Name: "other"}),
			fault.Absent,
			"kube-system/other is not given",
		},
		"lock":     {world.Lock.Question(world.LockReq{Name: "nvidia"}), fault.Absent, `"nvidia"`},
		"detector": {world.Detector.Question(world.DetectorReq{Name: "nvidia"}), fault.Absent, `"nvidia"`},
		"node":     {world.Node.Question(world.NodeReq{Access: pinned, Name: "n1"}), "", "n1"},
		"owner":    {world.Owner.Question(world.OwnerReq{Owner: "a:b"}), "", "{}"},
	} {
		a := h.Ask(context.Background(), c.q)
		got := string(a.Value) + a.Why()
		if a.Code() != c.want || !strings.Contains(got, c.text) {
			t.Errorf("%s: got %q, %s; want %q and a text with %q", name, a.Code(), got, c.want, c.text)
		}
	}
}
