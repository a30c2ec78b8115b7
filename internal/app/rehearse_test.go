package app

import (
	"context"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
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
		r := &rehearsal{
			recording: world.SourceFunc(func(context.Context, world.Question) world.Answer { return c.was }),
			kubelet:   c.version,
		}
		r.Ask(context.Background(), world.Kubelet.Question(world.KubeletReq{}))
		got := ""
		if r.noKubelet != nil {
			got = r.noKubelet.Why
		}
		if got != c.want {
			t.Errorf("%s: got the reason %q, want %q", c.name, got, c.want)
		}
	}
}
