// Package images examines and seals the root folder of an image.
package images

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/doctor"
	"github.com/prelet/prelet/internal/lab/doctor/image"
	"github.com/prelet/prelet/internal/lab/sites"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/model/check"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// OpenedImage is the root folder of an image with everything that was found in it.
type OpenedImage struct {
	env     *machine.Env
	where   lab.Request
	in      doctor.ImageInput
	loaded  hcl.Diagnostics // of the site
	keep    []byte          // the output of the kubelet's binary, to be kept; nil for none
	Results []check.Finding

	written       []image.Leftover // by prelet
	isInterrupted bool             // a commit was interrupted, so that written is not known
}

// OpenImage examines the image below w.Root; "" is this machine's own root. It writes nothing.
func OpenImage(ctx context.Context, e *machine.Env, w lab.Request) (*OpenedImage, error) {
	i := &OpenedImage{env: e, where: w}
	site, err := sites.Read(e, sites.ValidateOptions{Request: w})
	if err != nil {
		return i, err
	}
	cache := filepath.Join(w.StateDir(), kubeletbin.CacheFile)
	i.in.Root = nodefile.Root(w.Root)
	i.in.Unit = hostfiles.KubeletUnit(site.Given.Loaded.Site)
	unit, _ := systemd.ReadUnitFile(i.in.Root, i.in.Unit) // the check of units reports what cannot be read
	found := kubeletbin.Examine(ctx, w.Root, cache, unit.Define(kubelet.Argv).Command)
	i.keep = found.Keep
	i.in.Kubelet = image.Kubelet{
		Path:    found.Path,
		Version: found.Version,
		Unread:  found.Unread,
	}
	i.in.Reported = found.Version
	if w.KubeletVersion != "" {
		i.in.Kubelet.Version = w.KubeletVersion
	}
	site.TakeKubelet(found)

	v := site.Validate(e)
	i.in.Site = v.Site
	i.loaded = v.Diagnostics
	i.in.Machines = v.Machines
	i.in.Detectors = e.DetectorHost(w.Where).Survey(ctx, nil, nil)
	i.in.Runtime = probe.ConfiguredRuntime(ctx, w.Root)
	i.in.Kernels = doctor.ReadKernels(i.in.Root, false)
	i.look()

	return i, machine.CheckStopped(ctx)
}

// look looks for leftovers again, and updates the results.
func (i *OpenedImage) look() {
	const maxMounts = 16 << 20 // bytes

	mounts, err := nodefile.ReadFile("/proc/self/mountinfo", maxMounts)
	if errors.Is(err, fs.ErrNotExist) {
		err = nodefile.ErrNoProc
	}
	var unread error
	i.written, i.isInterrupted, unread = i.findWritten()
	i.in.Found = image.Find(image.Subject{
		Root:        i.in.Root,
		Now:         time.Now,
		IsPublic:    i.isPublic,
		SiteFolders: lang.DefaultLayers("/"),
		Mounts:      mounts,
		MountsErr:   err,
		OnMachine:   isMachine("/", "/proc"),
		Written:     i.written,
		Unread:      unread,
	})
	i.Results = doctor.Examine(doctor.Observations{Loaded: i.loaded, Image: &i.in})
}

// firstProcesses is the PID namespace of a machine, PID_NS_INIT_INO in the kernel's include/uapi/linux/nsfs.h. A
// container has another one.
const firstProcesses = "pid:[4026531836]"

// isMachine reports whether a root folder is that of the machine itself, not of a container or a chroot: it is that of
// the machine's first process. It is false if that cannot be known.
func isMachine(root, proc string) bool {
	if name, err := os.Readlink(proc + "/self/ns/pid"); err != nil || name != firstProcesses {
		return false
	}
	here, err := os.Stat(root)
	if err != nil {
		return false
	}
	first, err := os.Stat(proc + "/1/root")

	return err == nil && os.SameFile(here, first)
}

// isPublic reports whether the site declares a variable that is not sensitive.
func (i *OpenedImage) isPublic(name string) bool {
	v := i.in.Site.Variables[name]

	return v != nil && !v.Sensitive
}
