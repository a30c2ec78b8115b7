package hardware

import (
	"context"
	"slices"
	"time"
)

// Clock is what waiting needs of time.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Missing is what did not come up in time, in the order in which it was asked for.
type Missing struct {
	Links   []string      // interfaces that are not there or have no link
	Drivers []string      // drivers that are not loaded or have no device
	Waited  time.Duration // how long was waited for them; 0 of a recorded tree, which does not change
}

// None says that everything came up.
func (m Missing) None() bool { return len(m.Links)+len(m.Drivers) == 0 }

// waitInterval is how often a link is looked at: the training of a fast link takes seconds.
const waitInterval = 100 * time.Millisecond

// WaitFor returns when all links are up and all drivers have a device, at the latest after timeout, and in time for a
// detection before ctx ends; it says what was still missing then. A file that hangs counts as missing and is left behind.
// A recorded tree does not change, so it is looked at once. The error is of a root that cannot be opened.
func WaitFor(ctx context.Context, o Options, links, drivers []string, timeout time.Duration) (Missing, error) {
	tree, live, done, err := o.open()
	if err != nil {
		return Missing{}, err
	}
	clock := o.Clock
	if clock == nil {
		clock = realClock{}
	}
	switch deadline, ok := ctx.Deadline(); {
	case !live:
		timeout = 0
	case ok:
		timeout = min(timeout, beforeDetecting(deadline.Sub(clock.Now())))
	}
	defer done()
	return poll(ctx, tree, clock, links, drivers, timeout), nil
}

// timeToDetect is kept for looking at the machine after waiting: milliseconds on an idle machine, more on one that boots.
const timeToDetect = 2 * time.Second

// beforeDetecting is how much of the time that is left may be waited.
func beforeDetecting(left time.Duration) time.Duration {
	return max(0, left-min(timeToDetect, left/2))
}

// poll looks until nothing is missing or time is up. What hangs it leaves behind.
func poll(ctx context.Context, tree Tree, clock Clock, links, drivers []string, timeout time.Duration) Missing {
	d := &detection{ctx: ctx, Tree: tree}
	m := Missing{Links: links, Drivers: drivers}
	start := clock.Now()
	for {
		looked := make(chan Missing, 1)
		go func() {
			// All are looked at each time: a link that came up and went down again is not up.
			looked <- Missing{
				Links:   slices.DeleteFunc(slices.Clone(links), d.isLinkUp),
				Drivers: slices.DeleteFunc(slices.Clone(drivers), d.hasDevice),
			}
		}()
		patience := time.NewTimer(max(timeout-clock.Now().Sub(start), lookPatience))
		select {
		case m = <-looked:
			patience.Stop()
		case <-ctx.Done():
			patience.Stop()
			return m
		case <-patience.C:
			m.Waited = clock.Now().Sub(start)
			return m
		}
		m.Waited = clock.Now().Sub(start)
		left := timeout - m.Waited
		if m.None() || left <= 0 {
			return m
		}
		select {
		case <-clock.After(min(waitInterval, left)):
		case <-ctx.Done():
			return m
		}
	}
}

// lookPatience is how long one look may take when no time is left: it is a handful of files.
const lookPatience = time.Second

func (d *detection) isLinkUp(name string) bool {
	if !isInterfaceName(name) {
		return false
	}
	silent := &detection{ctx: d.ctx, Tree: d.Tree} // a link that is not there yet is no news
	link := silent.link(name, "")
	return link != nil && *link == "up"
}

// hasDevice looks on every bus: mlx5_core is of pci, virtio_net of virtio, hv_netvsc of vmbus.
func (d *detection) hasDevice(driver string) bool {
	if !isFileName(driver) {
		return false
	}
	buses, _ := d.ReadDir("sys/bus")
	for _, bus := range buses {
		folder := "sys/bus/" + bus + "/drivers/" + driver
		entries, err := d.ReadDir(folder)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			if entry == "module" {
				continue
			}
			if _, err := d.ReadLink(folder + "/" + entry); err == nil {
				return true // besides its module, a driver links to nothing but its devices
			}
		}
	}
	return false
}

func isFileName(s string) bool {
	return s != "" && s != "." && s != ".." && !slices.ContainsFunc([]byte(s), func(c byte) bool { return c == '/' || c == 0 })
}
