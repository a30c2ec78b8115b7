package boot

import (
	"context"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/world"
)

// Kubelet is the kubelet at hand.
type Kubelet struct {
	world.KubeletAns
	accepts *world.AcceptsAns // nil: the binary was not asked, or did not tell
}

// askKubelet asks for the kubelet at hand, and returns what waits for the answers. They are needed after gather stages
// have read, and a binary that was not asked before is started for them.
func askKubelet(ctx context.Context, tape *world.Tape) (wait func() (Kubelet, Findings)) {
	if tape == nil {
		return func() (Kubelet, Findings) { return Kubelet{}, Findings{} }
	}
	var asked sync.WaitGroup
	questions := []world.Question{world.Kubelet.Question(world.KubeletReq{}), world.Accepts.Question(world.AcceptsReq{})}
	for _, q := range questions {
		asked.Go(func() {
			defer func() { _ = recover() }() // the tape tells who asks again
			tape.Ask(ctx, q)
		})
	}

	return func() (Kubelet, Findings) {
		asked.Wait()
		return readKubelet(context.WithoutCancel(ctx), tape) // they are there, also where the deadline has passed meanwhile
	}
}

func readKubelet(ctx context.Context, tape *world.Tape) (Kubelet, Findings) {
	var found Findings
	k, ans, err := world.Kubelet.Ask(ctx, tape, world.KubeletReq{})
	switch question := []string{"kubelet"}; {
	case ans.Code() == fault.Unread:
		found.Unknown = newUnknowns(question, partKubelet)
		found.report(origin.NotRead(hcl.Range{}, "the kubelet's version", question))
	case ans.Code() == fault.Denied:
		found.Unknown = newUnknowns(question, partKubelet)
		found.report(origin.MayNotRead(hcl.Range{}, "whether this node has joined", ans.Why()))
	case err != nil:
		found.degrade(fault.Systemd, "the kubelet at hand cannot be asked: "+strings.TrimSuffix(ans.Why(), "."))
	}
	out := Kubelet{KubeletAns: k}
	// Without an answer the tables tell what the version takes.
	if a, _, err := world.Accepts.Ask(ctx, tape, world.AcceptsReq{}); err == nil {
		out.accepts = &a
	}

	return out, found
}
