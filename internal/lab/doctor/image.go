package doctor

import (
	"cmp"
	"errors"
	"io/fs"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/doctor/image"
	"github.com/prelet/prelet/internal/machine/detector"
	"github.com/prelet/prelet/internal/model/check"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// ImageInput is the state of an image that the caller collects.
type ImageInput struct {
	Root      nodefile.Root
	Site      *lang.Site // nil if it could not be loaded
	Machines  int        // sample machines
	Kubelet   image.Kubelet
	Reported  string // the version that the kubelet's binary has reported, now or earlier; "" if that is not known
	Unit      string // the kubelet's
	Runtime   string // the endpoint that the image configures; "" for none
	Detectors []detector.Row
	Kernels   map[string]map[string]bool // see Observations
	Found     image.Found
}

// listUnits returns the units that a boot needs, as their files are.
func (i ImageInput) listUnits() (units []NeededUnit) {
	for _, name := range []string{i.Unit, "prelet.service", "prelet-verify.service"} {
		f, err := systemd.ReadUnitFile(i.Root, name)
		u := NeededUnit{Unit: unitfile.Unit{Definition: f.Define(kubelet.Argv)}, Err: err}
		u.Missing = u.WhyNoProgram(i.Root)
		u.Program = ""      // it is not a path of this machine
		if name != i.Unit { // prelet's own open the gate
			u.EnvironmentFiles = []unitfile.EnvironmentFile{{Path: unitfile.Gate}}
		}
		units = append(units, u)
	}

	return units
}

// checkNotified warns of units that files of the site notify, and the image does not have.
func (in *Observations) checkNotified(r *check.Recorder) {
	i := in.Image
	if i.Site == nil {
		return
	}
	for _, name := range hostfiles.NotifiedUnits(i.Site) {
		f, err := systemd.ReadUnitFile(i.Root, name)
		if err != nil || f.Load == "loaded" {
			continue
		}
		summary := name + " does not exist in the image"
		if f.Load == "masked" {
			summary = name + " is masked in the image"
		}
		r.Add(check.Finding{
			State:   check.Warning,
			Summary: summary,
			Why:     "files that notify it are written, it is not restarted, and each boot is degraded",
			Do:      "install or unmask it, or correct the name in its restart stage",
			Code:    fault.UnitMissing,
		})
	}
}

// checkUsers checks the users of detectors, which the package makes.
func (in *Observations) checkUsers(r *check.Recorder) {
	const user = "prelet-detector-1"
	_, unread := in.Image.Root.Text(nodefile.Users)
	_, missing := in.Image.Root.FindID(nodefile.Users, user)
	switch {
	case unread != nil && unread.Code != fault.Absent:
		r.Unread("the users cannot be read", unread.Why, cmp.Or(unread.Next, "repair this file"))
	case missing != nil:
		r.Warn(
			"user "+user+" does not exist",
			"each detector has a user of its own, and does not start without it",
			"systemd-sysusers, in the image",
		)
	}

	r.Fine("the users of detectors exist")
}

// checkPermissions checks the files that prelet runs or trusts.
func (in *Observations) checkPermissions(r *check.Recorder) {
	files := []string{"/usr/bin/prelet", in.Image.Kubelet.Path, "/etc/prelet", "/usr/lib/prelet", "/etc/kubernetes",
		"/var/lib/kubelet", "/etc/credstore"}
	for _, file := range files {
		if file == "" {
			continue
		}
		look, err := in.Image.Root.Look(file, nodefile.FollowAll)
		if errors.Is(err, fs.ErrNotExist) {
			continue // that is the result of another check
		}
		if err != nil {
			r.Unread(file+" cannot be examined", nodefile.Reason(err), stepFor(err))
			continue
		}
		look.Close()
		if look.Loose != nil {
			r.Problem(
				look.Loose.Error(),
				"its user could take over the node",
				look.Loose.Fix,
			)
		}
	}

	r.Fine("only root may change what prelet runs and trusts")
}

func (in *Observations) checkImageDetectors(r *check.Recorder) {
	locked := 0
	for _, d := range in.Image.Detectors {
		switch {
		case d.Installed && d.Locked:
			locked++
		case d.Installed:
			r.Warn(d.Name+" is not locked", d.Why, "prelet detectors lock "+d.Program)
		}
	}

	r.Fine(count(locked, "detector") + " installed and locked")
}

// listLeftovers returns the check for leftovers of its name. fine is the summary of an image that has none.
func (in *Observations) listLeftovers(fine string) func(*check.Recorder) {
	return func(r *check.Recorder) {
		for _, l := range in.Image.Found.Leftovers {
			must := " must not be in an image"
			if l.Action == image.Keep {
				must = " may not belong in an image"
			}
			if l.Check == r.Check {
				r.Warn(l.Path+must, l.Why, l.Next())
			}
		}
		for _, u := range in.Image.Found.Unread {
			if u.Check == r.Check {
				r.Unread("cannot look for what an image must not contain", u.Err.Error(), stepFor(u.Err))
			}
		}

		r.Fine(fine)
	}
}

// stepFor returns the next step for a file that cannot be examined.
func stepFor(err error) string {
	switch {
	case errors.Is(err, nodefile.ErrNoProc):
		return "mount -t proc proc /proc"
	case errors.Is(err, fs.ErrPermission):
		return "run it as root"
	case errors.As(err, new(*nodefile.NoAnswerError)):
		return nodefile.NextNoAnswer
	}

	return "remove it from the image, or repair it"
}
