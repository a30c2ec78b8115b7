package boot

import (
	"context"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

// Kubelet is the installed kubelet.
type Kubelet struct {
	world.KubeletAns
	accepts *world.AcceptsAns // nil: the binary was not asked, or did not answer
	isOlder bool              // the recording is older than the question what the binary accepts
}

// askKubelet asks about the installed kubelet in the background, and returns a function that waits for the answers.
// They are needed after the gather step, and the kubelet's binary may be started for them.
func askKubelet(ctx context.Context, tape *world.Tape) (wait func() (Kubelet, Findings)) {
	if tape == nil {
		return func() (Kubelet, Findings) { return Kubelet{}, Findings{} }
	}
	var asked sync.WaitGroup
	questions := []world.Question{world.Kubelet.Question(world.KubeletReq{}), world.Accepts.Question(world.AcceptsReq{})}
	for _, q := range questions {
		asked.Go(func() {
			defer func() { _ = recover() }() // the tape answers the next one who asks with the panic
			tape.Ask(ctx, q)
		})
	}

	return func() (Kubelet, Findings) {
		asked.Wait()
		// The answers are on the tape, also if the deadline has passed in the meantime.
		return readKubelet(context.WithoutCancel(ctx), tape)
	}
}

// readKubelet takes the answers from the tape. A kubelet that cannot be asked makes the boot degraded.
func readKubelet(ctx context.Context, tape *world.Tape) (Kubelet, Findings) {
	var found Findings
	k, ans, err := world.Kubelet.Ask(ctx, tape, world.KubeletReq{})
	question := []string{"kubelet"}
	switch {
	case ans.Code() == fault.Unread:
		found.Unknown = newUnknowns(question, partKubelet)
		found.report(origin.NotRead(hcl.Range{}, "the kubelet's version", question))
	case ans.Code() == fault.Denied:
		found.Unknown = newUnknowns(question, partKubelet)
		found.report(origin.MayNotRead(hcl.Range{}, "whether this node has joined", ans.Why()))
	case err != nil:
		found.degrade(fault.Systemd, "the kubelet at hand cannot be asked: "+strings.TrimSuffix(ans.Why(), "."))
	}

	if i := k.Identity; i != nil && i.Loose != "" {
		const summary = "Others may change this node's identity"
		found.degrade(fault.ClusterUntrusted, summary)
		found.report(origin.Warning(fault.ClusterUntrusted, hcl.Range{}, summary, "%s", stages.Sentence(
			i.Loose+". The kubelet uses it as it is; prelet asks no cluster with it", i.Mend)))
	}

	out := Kubelet{KubeletAns: k}
	// Without an answer, what the version accepts is taken from tables.
	a, ans, err := world.Accepts.Ask(ctx, tape, world.AcceptsReq{})
	out.isOlder = ans.Code() == fault.Unread
	if err == nil {
		out.accepts = &a
	}

	return out, found
}
