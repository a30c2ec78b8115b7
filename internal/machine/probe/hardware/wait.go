package hardware

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Missing are the links and drivers that were not available in time, in the order of the request.
type Missing struct {
	Links   []string      // interfaces that do not exist or have no link
	Drivers []string      // drivers that are not loaded or have no device
	Waited  time.Duration // 0 for a recorded tree, which does not change
}

// waitInterval is the time between two checks. A fast link needs seconds for its training.
const waitInterval = 100 * time.Millisecond

// WaitFor returns when all links are up and all drivers have a device, after the timeout, or early enough for a
// detection before ctx ends. It returns the links and drivers that are missing then. A file that hangs counts as
// missing and is abandoned. A recorded tree is checked once. It fails only if the root cannot be opened. onWait is
// called once, before it waits, with the missing links and drivers and the remaining time.
func WaitFor(
	ctx context.Context,
	o ReadOptions,
	links, drivers []string,
	timeout time.Duration,
	onWait func(Missing, time.Duration),
) (Missing, error) {
	tree, isLive, done, err := o.openTree()
	if err != nil {
		return Missing{}, err
	}
	defer done()

	deadline, hasDeadline := ctx.Deadline()

	switch {
	case !isLive:
		timeout = 0
	case hasDeadline:
		timeout = LimitWait(timeout, time.Until(deadline))
	}

	return poll(ctx, tree, links, drivers, timeout, onWait), nil
}

// LimitWait returns how long a wait may take, if facts are read after it in the time that is left.
func LimitWait(timeout, left time.Duration) time.Duration {
	return min(timeout, max(0, left-min(timeToDetect, left/2)))
}

// timeToDetect is reserved for the detection after waiting. It takes milliseconds on an idle machine, and more
// during a boot.
const timeToDetect = 2 * time.Second

// minCheckTime is the time for one check after the timeout. A check reads a few files.
const minCheckTime = time.Second

// poll checks until nothing is missing or the timeout expires. A check that hangs is abandoned.
func poll(
	ctx context.Context,
	tree Tree,
	links, drivers []string,
	timeout time.Duration,
	onWait func(Missing, time.Duration),
) Missing {
	d := &detection{ctx: ctx, Tree: tree}
	start := time.Now()
	missing := Missing{Links: links, Drivers: drivers}

	for isFirst := true; ; isFirst = false {
		// All are checked each time, because a link can go down again.
		d.patience = max(timeout-time.Since(start), minCheckTime)
		checked, err := callWithin(d, "the check", func() (Missing, error) {
			return Missing{
				Links:   slices.DeleteFunc(slices.Clone(links), d.isLinkUp),
				Drivers: slices.DeleteFunc(slices.Clone(drivers), d.hasDevice),
			}, nil
		})
		if err == nil {
			missing = checked
		}
		missing.Waited = time.Since(start)
		left := timeout - missing.Waited

		isComplete := len(missing.Links) == 0 && len(missing.Drivers) == 0
		if err != nil || isComplete || left <= 0 {
			return missing
		}
		if isFirst {
			onWait(missing, left)
		}

		select {
		case <-time.After(min(waitInterval, left)):
		case <-ctx.Done():
			return missing
		}
	}
}

func (d *detection) isLinkUp(name string) bool {
	if !isInterfaceName(name) {
		return false
	}

	// The reasons of a link that does not exist yet are not reported, so they are noted in a copy.
	quiet := &detection{ctx: d.ctx, Tree: d.Tree}
	link := quiet.readLinkState(name, "")

	return link != nil && *link == "up"
}

// hasDevice reports whether a driver has a device on any bus: mlx5_core is on pci, virtio_net on virtio, hv_netvsc on
// vmbus.
func (d *detection) hasDevice(driver string) bool {
	if !isFileName(driver) {
		return false
	}

	buses, _ := d.ReadDir("sys/bus")
	for _, bus := range buses {
		folder := "sys/bus/" + bus + "/drivers/" + driver

		entries, _ := d.ReadDir(folder)
		for _, entry := range entries {
			// A driver has links to its module and its devices only.
			if _, err := d.ReadLink(folder + "/" + entry); err == nil && entry != "module" {
				return true
			}
		}
	}

	return false
}

func isFileName(s string) bool {
	isFolder := s == "" || s == "." || s == ".."
	return !isFolder && !strings.ContainsAny(s, "/\x00")
}
