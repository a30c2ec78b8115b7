package rehearsal

import (
	"context"
	"sync"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
)

// TestRehearsalWithoutAKubelet holds that a version which no recorded kubelet can have is noticed.
func TestRehearsalWithoutAKubelet(t *testing.T) {
	for _, c := range []struct {
		name    string
		was     world.Answer
		version string
		want    string
	}{
		{"denied", world.Failure(fault.Denied, "kubelet.conf is private", ""), "1.30", "kubelet.conf is private"},
		{"denied, no version", world.Failure(fault.Denied, "kubelet.conf is private", ""), "", ""},
		{"answered", world.Kubelet.Answer(world.KubeletAns{}), "1.30", ""},
	} {
		r := &Source{
			Recording: world.SourceFunc(func(context.Context, world.Question) world.Answer { return c.was }),
			Kubelet:   c.version,
		}
		r.Ask(context.Background(), world.Kubelet.Question(world.KubeletReq{}))
		got := ""
		if f := r.WhyNoKubelet(); f != nil {
			got = f.Why
		}
		if got != c.want {
			t.Errorf("%s: got the reason %q, want %q", c.name, got, c.want)
		}
	}
}

// TestRehearsalAfterAbandonedQuestions: with the race detector, what a rehearsal has noticed may be read while a question
// that a stage no longer waits for gets its answer.
func TestRehearsalAfterAbandonedQuestions(t *testing.T) {
	answer := world.SourceFunc(func(_ context.Context, q world.Question) world.Answer {
		if q.Kind == world.KindHardware {
			return world.Hardware.Answer(world.Facts{})
		}
		return world.Failure(fault.Denied, "kubelet.conf is private", "")
	})
	r := &Source{
		Recording: answer,
		Objects:   answer,
		Kubelet:   "1.30",
		Without:   RemovedDevices{Addresses: []string{"0000:ff:00.0"}},
	}

	var asked sync.WaitGroup
	for _, q := range []world.Question{
		world.Kubelet.Question(world.KubeletReq{}),
		world.Hardware.Question(world.HardwareReq{}),
		world.Object.Question(world.ObjectReq{}),
	} {
		asked.Go(func() { r.Ask(t.Context(), q) })
	}
	_ = r.WhyNoKubelet()
	_ = r.IgnoresObjects()
	notFound := r.ListNotFound(t.Context())
	asked.Wait()

	if f := r.WhyNoKubelet(); f == nil || r.IgnoresObjects() || len(notFound) != 1 {
		t.Errorf("got the reason %v, ignored objects %t, devices not found %q; want the reason, false and one device",
			f, r.IgnoresObjects(), notFound)
	}
}
