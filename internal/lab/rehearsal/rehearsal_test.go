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
		was     tape.Answer
		version string
		want    string
	}{
		{"denied", tape.Failure(fault.Denied, "kubelet.conf is private", ""), "1.30", "kubelet.conf is private"},
		{"denied, no version", tape.Failure(fault.Denied, "kubelet.conf is private", ""), "", ""},
		{"answered", tape.Kubelet.Answer(tape.KubeletAns{}), "1.30", ""},
	} {
		r := &Source{
			Recording: tape.SourceFunc(func(context.Context, tape.Question) tape.Answer { return c.was }),
			Kubelet:   c.version,
		}
		r.Ask(context.Background(), tape.Kubelet.Question(tape.KubeletReq{}))
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
	answer := tape.SourceFunc(func(_ context.Context, q tape.Question) tape.Answer {
		if q.Kind == tape.KindHardware {
			return tape.Hardware.Answer(tape.Facts{})
		}
		return tape.Failure(fault.Denied, "kubelet.conf is private", "")
	})
	r := &Source{
		Recording: answer,
		Objects:   answer,
		Kubelet:   "1.30",
		Without:   RemovedDevices{Addresses: []string{"0000:ff:00.0"}},
	}

	var asked sync.WaitGroup
	for _, q := range []tape.Question{
		tape.Kubelet.Question(tape.KubeletReq{}),
		tape.Hardware.Question(tape.HardwareReq{}),
		tape.Object.Question(tape.ObjectReq{}),
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
