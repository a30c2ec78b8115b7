package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/annotation"
	"github.com/prelet/prelet/internal/platform/machineid"
)

// maxSpread is the longest wait before a patch of annotations: nodes that boot at once must not patch at once. A person
// waits for the end of a run by hand.
const maxSpread = 30 * time.Second

// ownNode returns the Node of a name. That of another machine is an error.
func ownNode(ctx context.Context, h *machine.Host, name string) (kubelet.NodeObject, error) {
	n, err := h.Probe.NodeObject(ctx, name)
	if err == nil {
		if why := machine.DescribeOtherMachine(n, machineid.Of(h.Root)); why != "" {
			err = errors.New(why)
		}
	}

	return n, err
}

// annotate reports this run in the annotations of the Node, if the site enables that.
func (r *nodeRun) annotate(ctx context.Context) error {
	name, a, ok := r.Annotation(ctx, r.status)
	if !ok || r.status.State == "" {
		return nil
	}
	err := r.patchAnnotations(ctx, name, a)
	if r.tries.owesAnnotations = err != nil && r.tries.isOwn; r.tries.owesAnnotations {
		return errNotTried
	}
	if err != nil {
		err = fmt.Errorf("node %s does not have them: %w", name, err)
	}

	return err
}

// patchAnnotations patches the annotations that differ. It does not patch the Node of another machine, or once another
// run has begun, which reports itself.
func (r *nodeRun) patchAnnotations(ctx context.Context, name string, a annotation.Content) error {
	h := r.host
	n, err := ownNode(ctx, h, name)
	if err != nil {
		return err
	}

	values := a.Values()
	for key, value := range values {
		values[key] = r.env.Redactor.String(value)
	}
	changes := annotation.Changes(n.Annotations, values)
	if len(changes) == 0 {
		return nil
	}

	if h.Self == machine.VerifyUnit {
		wait := time.Duration(h.Jitter() * float64(maxSpread)).Round(time.Second)
		r.env.Say(fmt.Sprintf("patching the annotations of node %s in %s", n.Name, wait))
		_ = h.Notify.Extend(wait + machine.KeepAlive)
		if err := h.Clock.Sleep(ctx, wait); err != nil {
			return fmt.Errorf("stopped while waiting to patch them: %w", err)
		}
	}
	if !r.Report.IsLast() {
		return nil
	}

	return h.Probe.Patch(ctx, n.Name, "", changes)
}
