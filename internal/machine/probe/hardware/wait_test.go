package hardware

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// later runs a change after some time, in a bubble of synctest.
func later(d time.Duration, change func()) {
	go func() {
		time.Sleep(d)
		change()
	}()
}

// TestLimitWait: the time of a wait leaves two seconds for the facts, or half of what is left.
func TestLimitWait(t *testing.T) {
	const s = time.Second
	for _, c := range []struct{ timeout, left, want time.Duration }{
		{5 * s, 10 * s, 5 * s}, {5 * s, 6 * s, 4 * s}, {5 * s, 2 * s, s}, {5 * s, 0, 0}, {5 * s, -s, 0},
	} {
		if got := LimitWait(c.timeout, c.left); got != c.want {
			t.Errorf("LimitWait(%s, %s): got %s, want %s", c.timeout, c.left, got, c.want)
		}
	}
}

func silent(Missing, time.Duration) {}

func TestWaitFor(t *testing.T) {
	files := map[string]string{
		"sys/class/net/ib0/operstate":               "down",
		"sys/class/net/ib1/operstate":               "up",
		"sys/bus/pci/drivers/nvidia/module":         "-> ../../../../module/nvidia",
		"sys/bus/pci/drivers/nvidia/bind":           "",
		"sys/bus/virtio/drivers/virtio_net/virtio0": "-> ../../../../devices/virtio0",
	}
	const timeout = 250 * time.Millisecond

	for name, tt := range map[string]struct {
		links, drivers []string
		after          func(t *testing.T, machine rootTree)
		want           Missing
	}{
		"nothing is missing": {links: []string{"ib1"}, drivers: []string{"virtio_net"}},
		"link and driver become ready": {
			links:   []string{"ib0", "ib1"},
			drivers: []string{"nvidia"},
			after: func(t *testing.T, machine rootTree) {
				later(waitInterval/2, func() { machine.put(t, "sys/class/net/ib0/operstate", "up") })
				later(waitInterval*3/2, func() { machine.put(t, "sys/bus/pci/drivers/nvidia/0000:1b:00.0", "-> ../x") })
			},
			want: Missing{Waited: 2 * waitInterval},
		},
		"link and driver stay missing": {
			links:   []string{"ib0", "ib1", "ib2", "../ib1"},
			drivers: []string{"nvidia", "virtio_net", "../x"},
			want:    Missing{Links: []string{"ib0", "ib2", "../ib1"}, Drivers: []string{"nvidia", "../x"}, Waited: timeout},
		},
		"a link goes down while another is waited for": {
			links: []string{"ib0", "ib1"},
			after: func(t *testing.T, machine rootTree) {
				later(waitInterval/2, func() { machine.put(t, "sys/class/net/ib1/operstate", "down") })
			},
			want: Missing{Links: []string{"ib0", "ib1"}, Waited: timeout},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				machine := tree(t, files)
				if tt.after != nil {
					tt.after(t, machine)
				}
				var reported []Missing
				got := poll(t.Context(), machine, tt.links, tt.drivers, timeout, func(m Missing, left time.Duration) {
					reported = append(reported, m)
					if left != timeout {
						t.Errorf("got a report with %s left, want %s", left, timeout)
					}
				})
				if isMissing := got.Waited > 0; len(reported) > 1 || (len(reported) == 1) != isMissing {
					t.Errorf("got the reports %+v, want one: %t", reported, isMissing)
				}
				if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("missing devices differ (-want +got):\n%s", diff)
				}
			})
		})
	}
	t.Run("the boot ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if m := poll(ctx, tree(t, files), []string{"ib0"}, nil, time.Hour, silent); len(m.Links) != 1 {
			t.Errorf("got %+v missing, want one link", m)
		}
	})
	t.Run("a recorded tree is checked once", func(t *testing.T) {
		m, err := WaitFor(t.Context(), ReadOptions{Tree: tree(t, files)}, []string{"ib0"}, nil, time.Hour, silent)
		if err != nil || len(m.Links) != 1 {
			t.Errorf("got %+v missing and %v, want one link and no error", m, err)
		}
	})
	t.Run("a missing link of this machine", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m, err := WaitFor(t.Context(), ReadOptions{}, []string{"prelet-no-such"}, nil, timeout, silent)
			if err != nil || len(m.Links) != 1 || m.Waited != timeout {
				t.Errorf("got %+v missing, %v; want one link after %s", m, err, timeout)
			}
		})
	})
}

// A wait must leave time for the detection after it: without it the boot has no facts at all.
func TestWaitForLeavesTimeToDetect(t *testing.T) {
	for stage, want := range map[time.Duration]time.Duration{
		10 * time.Second: 8 * time.Second,
		time.Second:      500 * time.Millisecond,
		90 * time.Second: 30 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), stage)
			defer cancel()
			m, err := WaitFor(ctx, ReadOptions{}, []string{"prelet-no-such"}, nil, 30*time.Second, silent)
			if err != nil || m.Waited != want {
				t.Errorf("a stage of %s: got a wait of %s (%v), want %s", stage, m.Waited, err, want)
			}
		})
	}
}

// A driver can hang a read of its link. The wait ends, and the boot goes on.
func TestWaitForAbandonsHangingRead(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	const file = "sys/class/net/ib0/operstate"
	machine := hanging(t, tree(t, map[string]string{file: "up"}), file, cancel)
	m := poll(ctx, machine, []string{"ib0"}, []string{"nvidia"}, time.Hour, silent)
	if len(m.Links) != 1 || len(m.Drivers) != 1 {
		t.Errorf("got %+v missing, want the link and the driver", m)
	}
}
