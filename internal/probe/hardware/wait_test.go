package hardware

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// steps is a clock that moves only when somebody waits, and then changes the machine.
type steps struct {
	now    time.Time
	waited []time.Duration
	then   func(waits int)
}

func (s *steps) Now() time.Time { return s.now }

func (s *steps) After(d time.Duration) <-chan time.Time {
	s.now = s.now.Add(d)
	s.waited = append(s.waited, d)
	if s.then != nil {
		s.then(len(s.waited))
	}
	c := make(chan time.Time, 1)
	c <- s.now
	return c
}

func TestWaitFor(t *testing.T) {
	files := func() map[string]string {
		return map[string]string{"sys/class/net/ib0/operstate": "down", "sys/class/net/ib1/operstate": "up",
			"sys/bus/pci/drivers/nvidia/module": "-> ../../../../module/nvidia", "sys/bus/pci/drivers/nvidia/bind": "",
			"sys/bus/virtio/drivers/virtio_net/virtio0": "-> ../../../../devices/virtio0"}
	}
	const timeout = 250 * time.Millisecond

	t.Run("nothing is missing", func(t *testing.T) {
		clock := &steps{}
		if m := poll(context.Background(), tree(t, files()), clock, []string{"ib1"}, []string{"virtio_net"}, timeout); !m.None() || len(clock.waited) != 0 {
			t.Errorf("missing %+v after %v", m, clock.waited)
		}
	})
	t.Run("it comes up", func(t *testing.T) {
		machine := tree(t, files())
		clock := &steps{then: func(waits int) {
			if waits == 1 {
				machine.put(t, "sys/class/net/ib0/operstate", "up")
			} else {
				machine.put(t, "sys/bus/pci/drivers/nvidia/0000:1b:00.0", "-> ../x")
			}
		}}
		m := poll(context.Background(), machine, clock, []string{"ib0", "ib1"}, []string{"nvidia"}, timeout)
		if !m.None() {
			t.Errorf("missing %+v", m)
		}
		if diff := cmp.Diff([]time.Duration{waitInterval, waitInterval}, clock.waited); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("it does not", func(t *testing.T) {
		clock := &steps{}
		m := poll(context.Background(), tree(t, files()), clock, []string{"ib0", "ib1", "ib2", "../ib1"}, []string{"nvidia", "virtio_net", "../x"}, timeout)
		want := Missing{Links: []string{"ib0", "ib2", "../ib1"}, Drivers: []string{"nvidia", "../x"}, Waited: timeout}
		if diff := cmp.Diff(want, m); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]time.Duration{waitInterval, waitInterval, timeout - 2*waitInterval}, clock.waited); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("one goes down while another is waited for", func(t *testing.T) {
		machine := tree(t, files())
		clock := &steps{then: func(int) { machine.put(t, "sys/class/net/ib1/operstate", "down") }}
		m := poll(context.Background(), machine, clock, []string{"ib0", "ib1"}, nil, timeout)
		if diff := cmp.Diff([]string{"ib0", "ib1"}, m.Links); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("the boot ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if m := poll(ctx, tree(t, files()), never{}, []string{"ib0"}, nil, time.Hour); len(m.Links) != 1 {
			t.Errorf("missing %+v", m)
		}
	})
	t.Run("a recorded tree is looked at once", func(t *testing.T) {
		m, err := WaitFor(context.Background(), Options{Tree: tree(t, files()), Clock: never{}}, []string{"ib0"}, nil, time.Hour)
		if err != nil || len(m.Links) != 1 {
			t.Errorf("missing %+v, %v", m, err)
		}
	})
	t.Run("a link on this machine that will not come", func(t *testing.T) {
		clock := &steps{}
		m, err := WaitFor(context.Background(), Options{Clock: clock}, []string{"prelet-no-such"}, nil, timeout)
		if err != nil || len(m.Links) != 1 || len(clock.waited) != 3 {
			t.Errorf("missing %+v, %v after %v", m, err, clock.waited)
		}
	})
}

// A wait must leave time to look at the machine afterwards: without it the boot has no facts at all.
func TestWaitForLeavesTimeToDetect(t *testing.T) {
	start := time.Now()
	for _, tt := range []struct{ stage, want time.Duration }{{10 * time.Second, 8 * time.Second}, {time.Second, 500 * time.Millisecond}, {90 * time.Second, 30 * time.Second}} {
		ctx, cancel := context.WithDeadline(context.Background(), start.Add(tt.stage))
		m, err := WaitFor(ctx, Options{Clock: &steps{now: start}}, []string{"prelet-no-such"}, nil, 30*time.Second)
		cancel()
		if err != nil || m.Waited != tt.want {
			t.Errorf("a stage of %s waits for %s, want %s (%v)", tt.stage, m.Waited, tt.want, err)
		}
	}
}

// A driver in trouble can hang who reads its link; that costs the wait and not the boot.
func TestWaitForLeavesBehindWhatHangs(t *testing.T) {
	let := make(chan struct{})
	defer close(let)
	ctx, cancel := context.WithCancel(context.Background())
	machine := faulty{Tree: tree(t, map[string]string{"sys/class/net/ib0/operstate": "up"}), hangs: "sys/class/net/ib0/operstate", let: let, hung: cancel}
	m := poll(ctx, machine, realClock{}, []string{"ib0"}, []string{"nvidia"}, time.Hour)
	if len(m.Links) != 1 || len(m.Drivers) != 1 {
		t.Errorf("got %+v missing, want the link and the driver", m)
	}
}

// never is a clock whose waiting does not end.
type never struct{}

func (never) Now() time.Time                       { return time.Time{} }
func (never) After(time.Duration) <-chan time.Time { return nil }
