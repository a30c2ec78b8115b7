package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/prelet/prelet/internal/app/image"
	"github.com/prelet/prelet/internal/detector"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
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
	Found     image.Found
}

func (e *examination) checkImageSite() string {
	for _, d := range e.in.Loaded {
		f := NewFinding(d)
		f.Check = "site"
		if f.Code == fault.NoSite {
			f.State = Warning // another layer may bring it
		}
		if !origin.IsNote(d) && !slices.Contains(e.found, f) {
			e.add(f)
		}
	}

	site := e.in.Image.Site
	if site == nil {
		return ""
	}

	return fmt.Sprintf("it is valid on %d sample machines: %s", e.in.Image.Machines, count(len(site.Files), "file"))
}

func (e *examination) checkImageKubelet() string {
	k := e.in.Image.Kubelet
	oldest, newest := known.Range()
	minor, isVersion := known.Minor(k.Version)
	switch {
	case k.Path == "":
		e.problem("no kubelet was found", lookedFor, "install it in the image")
	case k.Version == "":
		e.unread("the version of "+k.Path+" is not known",
			"a program below another root is not started", "run prelet inside of the image, or name --kubelet-version")
	case e.in.Image.Reported != "" && !isSameMinor(e.in.Image.Reported, k.Version):
		e.problem(k.Path+" is "+e.in.Image.Reported+", and --kubelet-version is "+k.Version,
			"the site would be judged for another kubelet", "leave --kubelet-version out")
	case isVersion && (minor < oldest || minor > newest):
		e.warn(k.Version+" is not a version that this prelet knows",
			fmt.Sprintf("it knows 1.%d to 1.%d", oldest, newest), "use a prelet that knows it")
	}

	return k.Version + ", " + k.Path
}

// isSameMinor reports whether two versions are of one minor version, or one of them is not a version.
func isSameMinor(a, b string) bool {
	minorA, isA := known.Minor(a)
	minorB, isB := known.Minor(b)

	return !isA || !isB || minorA == minorB
}

func (e *examination) checkUnits() string {
	for _, name := range []string{e.in.Image.Unit, "prelet.service", "prelet-verify.service"} {
		u, err := systemd.ReadUnitFile(e.in.Image.Root, name)
		isGated := name != e.in.Image.Unit || slices.Contains(u.Gate, unitfile.Gate)
		switch {
		case err != nil:
			e.unread(name+" cannot be read", nodefile.Reason(err), stepFor(err))
		case u.Masked:
			e.problem(name+" is masked", "it does not start at boot", "systemctl unmask "+name)
		case u.Path == "":
			e.problem(name+" does not exist", "it does not start at boot", "install its package")
		case !isGated:
			e.problem(name+" does not wait for prelet",
				"without the gate the kubelet may start on half of the files; "+
					"an EnvironmentFile= that is empty in a later drop-in removes it",
				"add to a drop-in of "+name+" that sorts last:\n    [Service]\n    EnvironmentFile="+unitfile.Gate)
		case !u.Enabled:
			e.warn(name+" is not enabled", "it does not start at boot", "systemctl enable "+name)
		}
	}

	return "prelet and the kubelet are enabled, and the kubelet waits at the gate"
}

// checkUsers checks the users of detectors, which the package makes.
func (e *examination) checkUsers() string {
	const user = "prelet-detector-1"
	_, unread := e.in.Image.Root.Text(nodefile.Users)
	_, missing := e.in.Image.Root.FindID(nodefile.Users, user)
	switch {
	case unread != nil && unread.Code != fault.Absent:
		e.unread("the users cannot be read", unread.Why, cmp.Or(unread.Next, "repair this file"))
	case missing != nil:
		e.warn("user "+user+" does not exist",
			"each detector has a user of its own, and does not start without it", "systemd-sysusers, in the image")
	}

	return "the users of detectors exist"
}

func (e *examination) checkImageRuntime() string {
	if e.in.Image.Runtime == "" {
		e.warn("no container runtime is known",
			"neither containerd's nor CRI-O's configuration was found", "install one in the image")
	}

	return "the image configures " + e.in.Image.Runtime
}

// checkPermissions checks the files that prelet runs or trusts.
func (e *examination) checkPermissions() string {
	files := []string{"/usr/bin/prelet", e.in.Image.Kubelet.Path, "/etc/prelet", "/usr/lib/prelet", "/etc/kubernetes",
		"/var/lib/kubelet", "/etc/credstore"}
	for _, file := range files {
		if file == "" {
			continue
		}
		look, err := e.in.Image.Root.Look(file, nodefile.FollowAll)
		if errors.Is(err, fs.ErrNotExist) {
			continue // that is the finding of another check
		}
		if err != nil {
			e.unread(file+" cannot be examined", nodefile.Reason(err), stepFor(err))
			continue
		}
		look.Close()
		if look.Loose != nil {
			e.problem(look.Loose.Error(),
				"its user could take over the node", look.Loose.Fix)
		}
	}

	return "only root may change what prelet runs and trusts"
}

func (e *examination) checkImageDetectors() string {
	locked := 0
	for _, r := range e.in.Image.Detectors {
		switch {
		case r.Installed && r.Locked:
			locked++
		case r.Installed:
			e.warn(r.Name+" is not locked", r.Why, "prelet detectors lock "+r.Program)
		}
	}

	return count(locked, "detector") + " installed and locked"
}

// listLeftovers returns the check for leftovers of its name. fine is the summary of an image that has none.
func listLeftovers(fine string) func(*examination) string {
	return func(e *examination) string {
		for _, l := range e.in.Image.Found.Leftovers {
			must := " must not be in an image"
			if l.Action == image.Keep {
				must = " may not belong in an image"
			}
			if l.Check == e.current {
				e.warn(l.Path+must, l.Why, l.Next())
			}
		}
		for _, u := range e.in.Image.Found.Unread {
			if u.Check == e.current {
				e.unread("cannot look for what an image must not contain", u.Err.Error(), stepFor(u.Err))
			}
		}

		return fine
	}
}

// stepFor returns the next step for a file that cannot be examined.
func stepFor(err error) string {
	switch {
	case errors.Is(err, nodefile.ErrNoProc):
		return "mount -t proc proc /proc"
	case errors.Is(err, fs.ErrPermission):
		return "run it as root"
	}

	return "remove it from the image, or repair it"
}
