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
	Links   []string // interfaces that are not there or have no link
	Drivers []string // drivers that are not loaded or have no device
}

// None says that everything came up.
func (m Missing) None() bool { return len(m.Links)+len(m.Drivers) == 0 }

// waitInterval is how often a link is looked at: the training of a fast link takes seconds.
const waitInterval = 100 * time.Millisecond

// WaitFor returns when all links are up and all drivers have a device, at the latest after timeout or when ctx ends; it
// says what was still missing then. A recorded tree does not change, so it is looked at once. The error is of a root that
// cannot be opened.
func WaitFor(ctx context.Context, o Options, links, drivers []string, timeout time.Duration) (Missing, error) {
	tree, live, done, err := o.open()
	if err != nil {
		return Missing{}, err
	}
	defer done()
	if !live {
		timeout = 0
	}
	clock := o.Clock
	if clock == nil {
		clock = realClock{}
	}
	return poll(ctx, tree, clock, links, drivers, timeout), nil
}

func poll(ctx context.Context, tree Tree, clock Clock, links, drivers []string, timeout time.Duration) Missing {
	d := &detection{ctx: ctx, Tree: tree}
	var m Missing
	for deadline := clock.Now().Add(timeout); ; {
		// All are looked at each time: a link that came up and went down again is not up.
		m.Links = slices.DeleteFunc(slices.Clone(links), d.isLinkUp)
		m.Drivers = slices.DeleteFunc(slices.Clone(drivers), d.hasDevice)
		left := deadline.Sub(clock.Now())
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

func (d *detection) isLinkUp(name string) bool {
	if !isInterfaceName(name) {
		return false
	}
	link := d.link(name, "")
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
