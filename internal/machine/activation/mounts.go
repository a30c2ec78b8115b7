package activation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/machine/generation"
)

const (
	// mountWait is how long a mount is waited for: systemd waits as long for its device.
	mountWait     = 90 * time.Second
	mountInterval = 200 * time.Millisecond
)

// AwaitMounts returns the mounts at or above some files, once none of them has a job: a later mount would hide files
// that were written before. All calls of one process wait for mountWait at most. waited reports whether this one did.
func (m *StateMachine) AwaitMounts(ctx context.Context, files []string) (mounts []Mount, waited bool, err error) {
	begun := m.Node.Monotonic()
	end := begun + mountWait - m.mountsWaited

	defer func() { m.mountsWaited += m.Node.Monotonic() - begun }()

	for {
		if mounts, err = m.Node.Mounts(ctx, files); err != nil {
			return nil, waited, err
		}

		i := slices.IndexFunc(mounts, func(x Mount) bool { return x.Job })
		if i < 0 || m.Node.Monotonic() >= end || ctx.Err() != nil {
			return mounts, waited, nil
		}

		if !waited {
			waited = true

			m.extendTimeout(end - begun)
			m.note("mounts", "started", "waiting for %s (%s)", mounts[i].Path, mounts[i].Unit)
		}

		_ = m.Node.Sleep(ctx, mountInterval) // the end of ctx is handled above
	}
}

// MountOf returns the mount point that a file is on; "/" if none of the mounts has it.
func MountOf(mounts []Mount, file string) string {
	for _, x := range slices.Backward(mounts) { // the lowest last
		if x.Active && (file == x.Path || strings.HasPrefix(file, x.Path+"/")) {
			return x.Path
		}
	}

	return "/"
}

// WhyCovered returns how files of the generation in place that decide about the kubelet are hidden, because something
// was mounted over them or unmounted since they were written; "" if they are as written, or if that is not known,
// because a mount does not answer.
func (m *StateMachine) WhyCovered(ctx context.Context, current *generation.Info) string {
	if current == nil || m.WhyForeign(current.Gen) != "" {
		return ""
	}

	spec, err := m.SpecOf(current.Gen)
	if err != nil || len(spec.Files) == 0 {
		return ""
	}

	differs := m.Node.Files(ctx, spec.Files)
	if differs == nil || isUnknown(differs) {
		return ""
	}

	mounts, err := m.Node.Mounts(ctx, slices.Sorted(maps.Keys(spec.Files)))
	if err != nil {
		return ""
	}

	for _, e := range current.Entries {
		_, planned := spec.Files[e.Path]
		now := MountOf(mounts, e.Path)
		if planned && e.Mount != "" && now != e.Mount {
			return fmt.Sprintf(
				"%s was written to what is mounted at %s, and %s is mounted there since: generation %d is not what a "+
					"kubelet would read (%v)",
				e.Path,
				e.Mount,
				now,
				current.Gen,
				differs,
			)
		}
	}

	return ""
}
