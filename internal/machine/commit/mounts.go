package commit

import (
	"context"
	"fmt"
	"slices"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/desired"
)

// mountedFolders are the folders that a plan reads and that most plans write to.
var mountedFolders = []string{"/etc/prelet", "/etc/kubernetes", "/var/lib/kubelet"}

// awaitMounts waits until every file system that is about to be mounted at or above a managed or planned file is there,
// and reports whether it had to wait. If systemd does not answer, none are known: what needs systemd fails later.
func (r *Run) awaitMounts(ctx context.Context, planned []desired.File) (waited bool) {
	files := slices.Clone(mountedFolders)
	if cur := readCurrent(r.Store); cur != nil {
		for _, e := range cur.Entries {
			files = append(files, e.Path)
		}
	}
	for _, f := range planned {
		files = append(files, f.Path)
	}

	var err error
	r.mounts, waited, err = r.Machine.AwaitMounts(ctx, files)
	if err != nil {
		r.mounts = nil
	}
	r.mountsUnknown = err != nil

	return waited
}

// reportMissingMounts reports the file systems that were not mounted in time.
func (r *Run) reportMissingMounts() {
	for _, x := range r.mounts {
		if x.Active {
			continue
		}
		state := "it is " + x.State
		if x.Job {
			state = "the wait for it timed out"
		}
		r.Report.Degrade(fault.MountMissing, fmt.Sprintf(
			"nothing is mounted at %s (%s: %s), so files below it are on the file system above; "+
				"systemctl start %s, then prelet run", x.Path, x.Unit, state, x.Unit,
		))
	}
}

// recordMounts notes the mount point of each file of a proposal.
func (r *Run) recordMounts(p *generation.Proposal) {
	if r.mountsUnknown {
		return
	}

	for i := range p.Targets {
		p.Targets[i].Mount = activation.MountOf(r.mounts, p.Targets[i].Path)
	}
}

// noteCovered reports files of the generation in place that something was mounted over, before a run replaces them.
func (r *Run) noteCovered(ctx context.Context) {
	cur, err := r.Store.Current()
	if err != nil {
		return
	}

	if why := r.Machine.WhyCovered(ctx, cur); why != "" {
		r.notify("mounts", why)
	}
}
