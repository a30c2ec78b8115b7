package systemd

import (
	"context"
	"path"
	"slices"
	"strings"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/coreos/go-systemd/v22/unit"
)

// Mount is a place where systemd mounts something, or would: its mount unit and its automount unit together. It is an
// alias for the reason that Unit is one.
type Mount = struct {
	Path   string // the mount point
	Unit   string // the mount unit
	Active bool   // it is mounted, or is mounted when somebody looks
	Job    bool   // systemd is about to mount it
	State  string // ActiveState of the mount unit
}

// Mounts returns the mounts at or above some paths that systemd has a unit for, the highest first. Those that it only
// saw, because somebody mounted them by hand, are among them; the root is not.
func (c *Conn) Mounts(ctx context.Context, paths []string) ([]Mount, error) {
	places := ancestorsOf(paths)
	if len(places) == 0 {
		return nil, nil
	}

	var names []string

	for _, p := range places {
		name := unit.UnitNamePathEscape(p)
		names = append(names, name+".mount", name+".automount")
	}

	var found []sd.UnitStatus

	err := c.call(ctx, "asking for mounts", func(ctx context.Context, m manager) (err error) {
		found, err = m.ListUnitsByNamesContext(ctx, names)
		return err
	})
	if err != nil {
		return nil, err
	}

	units := map[string]sd.UnitStatus{}
	for _, u := range found {
		units[u.Name] = u
	}

	var out []Mount

	for i, p := range places {
		mount, auto := units[names[2*i]], units[names[2*i+1]]
		if mount.LoadState != "loaded" && auto.LoadState != "loaded" {
			continue // there is none, or it is masked
		}

		out = append(out, Mount{
			Path: p, Unit: names[2*i], State: mount.ActiveState,
			Active: mount.ActiveState == "active" || auto.ActiveState == "active",
			Job:    isStart(mount) || isStart(auto),
		})
	}

	return out, nil
}

// isStart reports whether a unit has a job that is no stop.
func isStart(u sd.UnitStatus) bool { return u.JobId != 0 && u.JobType != "stop" }

// ancestorsOf returns paths and all folders above them but the root, each once, the highest first.
func ancestorsOf(paths []string) []string {
	var out []string

	for _, p := range paths {
		for ; strings.HasPrefix(p, "/") && p != "/"; p = path.Dir(p) {
			out = append(out, p)
		}
	}

	slices.Sort(out)

	return slices.Compact(out)
}
