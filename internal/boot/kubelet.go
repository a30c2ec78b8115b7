package boot

import (
	"context"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

// Kubelet is the installed kubelet.
type Kubelet struct {
	world.KubeletAns
	accepts *world.AcceptsAns // nil: the binary was not asked, or did not answer
}

// askKubelet asks about the installed kubelet in the background, and returns a function that waits for the answers.
// They are needed after the gather step, and they may take as long as a start of the kubelet's binary.
func askKubelet(ctx context.Context, tape *world.Tape) (wait func() (Kubelet, Findings)) {
	if tape == nil {
		return func() (Kubelet, Findings) {
			return Kubelet{}, Findings{}
		}
	}

	var asked sync.WaitGroup
	for _, q := range []world.Question{
		world.Kubelet.Question(world.KubeletReq{}),
		world.Accepts.Question(world.AcceptsReq{}),
	} {
		asked.Go(func() {
			defer func() {
				_ = recover()
			}() // the tape repeats the panic to the next caller
			tape.Ask(ctx, q)
		})
	}

	return func() (Kubelet, Findings) {
		asked.Wait()
		// The answers are on the tape, even if the deadline has passed in the meantime.
		return readKubelet(context.WithoutCancel(ctx), tape)
	}
}

// readKubelet takes the answers from the tape. If the kubelet's state could not be read, the boot is degraded.
func readKubelet(ctx context.Context, tape *world.Tape) (Kubelet, Findings) {
	var found Findings
	k, ans, err := world.Kubelet.Ask(ctx, tape, world.KubeletReq{})
	switch {
	case ans.Code() == fault.Unread:
		found.Report(origin.NotRead(hcl.Range{}, "the kubelet's version"))
	case ans.Code() == fault.Denied:
		found.Report(origin.MayNotRead(hcl.Range{}, "whether this node has joined", ans.Why()))
	case err != nil:
		found.Degrade(fault.Systemd, "the installed kubelet could not be read: "+strings.TrimSuffix(ans.Why(), "."))
	}

	if k.VersionWhy != "" {
		const summary = "Some checks of the kubelet were not made"
		reason := k.VersionWhy + ". What depends on its version was not checked: which fields and feature gates it " +
			"has, and rules that only some versions have. Without an answer to --help, neither were its flags"
		found.Degrade(fault.KubeletMachine, "the kubelet's version is not known: "+k.VersionWhy)
		found.Warn(
			fault.KubeletMachine, hcl.Range{}, summary, "%s", stages.Sentence(reason, "Start it by hand"),
		)
	}

	if i := k.Identity; i != nil && i.Loose != "" {
		const summary = "Others may change this node's identity"
		reason := i.Loose + ". The kubelet uses it unchanged; prelet does not use it to ask a cluster"
		found.Degrade(fault.ClusterUntrusted, summary)
		found.Warn(
			fault.ClusterUntrusted, hcl.Range{}, summary, "%s", stages.Sentence(reason, i.Fix),
		)
	}

	out := Kubelet{KubeletAns: k}
	a, _, err := world.Accepts.Ask(ctx, tape, world.AcceptsReq{})
	if err == nil { // else the tables answer for its version
		out.accepts = &a
	}

	return out, found
}
