package image

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/app/doctor"
	"github.com/prelet/prelet/internal/detector"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// Kubelet is the kubelet of an image.
type Kubelet struct {
	Path    string `json:"path"`    // "" for none
	Version string `json:"version"` // "" where it is not known
}

// Input has the facts of an image that the caller has collected.
type Input struct {
	Root      nodefile.Root
	Site      *lang.Site      // nil if it could not be loaded
	Loaded    hcl.Diagnostics // of loading the site and of trying it on the sample machines
	Machines  int             // sample machines
	Kubelet   Kubelet
	Reported  string // the version that the kubelet's binary has reported, now or earlier; "" if that is not known
	Unit      string // the kubelet's
	Runtime   string // the endpoint that the image configures; "" for none
	Detectors []detector.Row
	Found     Found
}

// checkNames returns the names of the checks, in the order of the report.
func checkNames() []string {
	return []string{
		"site", "kubelet", "unit", "users", "runtime", "permissions", "detectors", "identity", "secrets", "state",
		"machine", "hardware", "clock", "credentials", "cluster", "disk",
	}
}

// Examine checks an image. Findings are in the order of checkNames; those that need a running machine are skipped.
func Examine(in Input) []doctor.Finding {
	e := &examination{Input: in}
	e.checkSite()
	e.checkKubelet()
	e.checkUnits()
	e.checkUsers()
	e.checkRuntime()
	e.checkPermissions()
	e.checkDetectors()
	e.checkLeftovers()
	for _, check := range []string{"machine", "hardware", "clock", "credentials", "cluster", "disk"} {
		e.add(check, doctor.Skipped, "only a running machine can be checked for it", "", "")
	}

	checks := checkNames()
	slices.SortStableFunc(e.found, func(a, b doctor.Finding) int {
		return cmp.Compare(slices.Index(checks, a.Check), slices.Index(checks, b.Check))
	})

	return e.found
}

type examination struct {
	Input
	found []doctor.Finding
}

func (e *examination) add(check string, state doctor.State, summary, why, do string) {
	e.found = append(e.found, doctor.Finding{
		Check:   check,
		State:   state,
		Summary: summary,
		Why:     why,
		Do:      do,
	})
}

// addOK adds a summary unless the check has found something.
func (e *examination) addOK(check, summary string) {
	if !slices.ContainsFunc(e.found, func(f doctor.Finding) bool {
		return f.Check == check
	}) {
		e.add(check, doctor.OK, summary, "", "")
	}
}

func (e *examination) checkSite() {
	for _, d := range e.Loaded {
		f := doctor.NewFinding(d)
		f.Check = "site"
		if f.Code == fault.NoSite {
			f.State = doctor.Warning // another layer may bring it
		}
		if !origin.IsNote(d) && !slices.Contains(e.found, f) {
			e.found = append(e.found, f)
		}
	}
	if e.Site != nil {
		files := count(len(e.Site.Files), "file")
		e.addOK("site", fmt.Sprintf("it is valid on %d sample machines: %s", e.Machines, files))
	}
}

func (e *examination) checkKubelet() {
	k := e.Kubelet
	oldest, newest := known.Range()
	minor, isVersion := known.Minor(k.Version)
	switch {
	case k.Path == "":
		e.add("kubelet", doctor.Problem, "no kubelet was found",
			"it is looked for in /usr/bin, /usr/local/bin and /opt/bin", "install it in the image")
	case k.Version == "":
		e.add("kubelet", doctor.Unread, "the version of "+k.Path+" is not known",
			"a program below another root is not started", "run prelet inside of the image, or name --kubelet-version")
	case e.Reported != "" && !isSameMinor(e.Reported, k.Version):
		e.add("kubelet", doctor.Problem, k.Path+" is "+e.Reported+", and --kubelet-version is "+k.Version,
			"the site would be judged for another kubelet", "leave --kubelet-version out")
	case isVersion && (minor < oldest || minor > newest):
		e.add("kubelet", doctor.Warning, k.Version+" is not a version that this prelet knows",
			fmt.Sprintf("it knows 1.%d to 1.%d", oldest, newest), "use a prelet that knows it")
	}
	e.addOK("kubelet", k.Version+", "+k.Path)
}

// isSameMinor reports whether two versions are of one minor version, or one of them is not a version.
func isSameMinor(a, b string) bool {
	minorA, isA := known.Minor(a)
	minorB, isB := known.Minor(b)

	return !isA || !isB || minorA == minorB
}

// gateFile is the file that the kubelet's unit must require.
const gateFile = "/run/prelet/kubelet.env"

func (e *examination) checkUnits() {
	for _, name := range []string{e.Unit, "prelet.service", "prelet-verify.service"} {
		u, err := systemd.ReadUnitFile(e.Root, name)
		isGated := name != e.Unit || slices.Contains(u.Gate, gateFile)
		switch {
		case err != nil:
			e.add("unit", doctor.Unread, name+" cannot be read", nodefile.Reason(err), stepFor(err))
		case u.Masked:
			e.add("unit", doctor.Problem, name+" is masked", "it does not start at boot", "systemctl unmask "+name)
		case u.Path == "":
			e.add("unit", doctor.Problem, name+" does not exist", "it does not start at boot", "install its package")
		case !isGated:
			e.add("unit", doctor.Problem, name+" does not wait for prelet",
				"without the gate the kubelet may start on half of the files; "+
					"an EnvironmentFile= that is empty in a later drop-in removes it",
				"add to a drop-in of "+name+" that sorts last:\n    [Service]\n    EnvironmentFile="+gateFile)
		case !u.Enabled:
			e.add("unit", doctor.Warning, name+" is not enabled", "it does not start at boot", "systemctl enable "+name)
		}
	}
	e.addOK("unit", "prelet and the kubelet are enabled, and the kubelet waits at the gate")
}

// checkUsers checks the users of detectors, which the package makes.
func (e *examination) checkUsers() {
	const user = "prelet-detector-1"
	_, unread := e.Root.Text(nodefile.Users)
	_, missing := e.Root.FindID(nodefile.Users, user)
	switch {
	case unread != nil && unread.Code != fault.Absent:
		e.add("users", doctor.Unread, "the users cannot be read", unread.Why, cmp.Or(unread.Next, "repair this file"))
	case missing != nil:
		e.add("users", doctor.Warning, "user "+user+" does not exist",
			"each detector has a user of its own, and does not start without it", "systemd-sysusers, in the image")
	}
	e.addOK("users", "the users of detectors exist")
}

func (e *examination) checkRuntime() {
	if e.Runtime == "" {
		e.add("runtime", doctor.Warning, "no container runtime is known",
			"neither containerd's nor CRI-O's configuration was found", "install one in the image")
	}
	e.addOK("runtime", "the image configures "+e.Runtime)
}

// checkPermissions checks the files that prelet runs or trusts.
func (e *examination) checkPermissions() {
	files := []string{"/usr/bin/prelet", e.Kubelet.Path, "/etc/prelet", "/usr/lib/prelet", "/etc/kubernetes",
		"/var/lib/kubelet", "/etc/credstore"}
	for _, file := range files {
		if file == "" {
			continue
		}
		look, err := e.Root.Look(file, nodefile.FollowAll)
		if errors.Is(err, fs.ErrNotExist) {
			continue // that is the finding of another check
		}
		if err != nil {
			e.add("permissions", doctor.Unread, file+" cannot be examined", nodefile.Reason(err), stepFor(err))
			continue
		}
		look.Close()
		if look.Loose != nil {
			e.add("permissions", doctor.Problem, look.Loose.Error(),
				"its user could take over the node", look.Loose.Fix)
		}
	}
	e.addOK("permissions", "only root may change what prelet runs and trusts")
}

func (e *examination) checkDetectors() {
	locked := 0
	for _, r := range e.Detectors {
		switch {
		case r.Installed && r.Locked:
			locked++
		case r.Installed:
			e.add("detectors", doctor.Warning, r.Name+" is not locked", r.Why, "prelet detectors lock "+r.Program)
		}
	}
	e.addOK("detectors", count(locked, "detector")+" installed and locked")
}

func (e *examination) checkLeftovers() {
	for _, l := range e.Found.Leftovers {
		must := " must not be in an image"
		if l.Action == Keep {
			must = " may not belong in an image"
		}
		e.add(l.Check, doctor.Warning, l.Path+must, l.Why, l.next())
	}
	for _, u := range e.Found.Unread {
		e.add(u.Check, doctor.Unread, "cannot look for what an image must not contain", u.Err.Error(), stepFor(u.Err))
	}
	e.addOK("identity", "the image has none")
	e.addOK("secrets", "the image has none that prelet knows of")
	e.addOK("state", "the image has none")
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

// next returns the next step for a leftover.
func (l Leftover) next() string {
	switch l.Action {
	case ByHand, Keep:
		return l.Do
	case Empty:
		return "prelet seal --yes empties it"
	}

	return "prelet seal --yes removes it"
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}

	return fmt.Sprintf("%d %ss", n, noun)
}
