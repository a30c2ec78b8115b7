package systemd

import (
	"context"
	"path"
	"slices"
	"strings"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/coreos/go-systemd/v22/unit"
)

// Mounts returns the mounts at or above some paths that systemd has a unit for, the highest first. It includes mounts
// that were made by hand, as long as they are there, and excludes the root.
func (c *Conn) Mounts(ctx context.Context, paths []string) ([]Mount, error) {
	places := listAncestors(paths)
	if len(places) == 0 {
		return nil, nil
	}

	var names []string
	for _, p := range places {
		name := unit.UnitNamePathEscape(p)
		names = append(names, name+".mount", name+".automount")
	}

	units := map[string]sd.UnitStatus{}
	err := c.call(ctx, "asking for mounts", func(ctx context.Context, m *sd.Conn) error {
		found, err := m.ListUnitsByNamesContext(ctx, names)
		for _, u := range found {
			units[u.Name] = u
		}

		return err
	})
	if err != nil {
		return nil, err
	}

	var mounts []Mount
	for i, p := range places {
		mount, auto := units[names[2*i]], units[names[2*i+1]]
		if mount.LoadState != "loaded" && auto.LoadState != "loaded" {
			continue // not a mount point, or masked
		}
		isGone := auto.LoadState != "loaded" && mount.ActiveState == "inactive" && mount.JobId == 0
		if isGone && c.isByHand(ctx, mount.Name) {
			continue
		}
		mounts = append(mounts, Mount{
			Path:   p,
			Unit:   names[2*i],
			State:  mount.ActiveState,
			Active: mount.ActiveState == "active" || auto.ActiveState == "active",
			Job:    isStarting(mount) || isStarting(auto),
		})
	}

	return mounts, nil
}

// isByHand reports whether a mount has no unit file, and none was made for it: a person made it, and has removed it, so
// nothing mounts it again.
func (c *Conn) isByHand(ctx context.Context, name string) bool {
	properties, err := c.readProperties(ctx, name)
	if err != nil {
		return false
	}
	file, hasFile := properties["FragmentPath"].(string)
	source, _ := properties["SourcePath"].(string)

	return hasFile && file == "" && (source == "" || source == mountInfo)
}

// mountInfo is the SourcePath of a mount unit that systemd has made from the kernel's list.
const mountInfo = "/proc/self/mountinfo"

// isStarting reports whether a unit has a job that is not a stop.
func isStarting(u sd.UnitStatus) bool {
	return u.JobId != 0 && u.JobType != "stop"
}

// listAncestors returns paths and all folders above them except the root, without duplicates, the highest first.
func listAncestors(paths []string) []string {
	var ancestors []string
	for _, p := range paths {
		for ; strings.HasPrefix(p, "/") && p != "/"; p = path.Dir(p) {
			ancestors = append(ancestors, p)
		}
	}
	slices.Sort(ancestors)

	return slices.Compact(ancestors)
}
