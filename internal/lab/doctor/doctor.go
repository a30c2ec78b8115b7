// Package doctor checks whether a node is fit for a boot with its site, and whether an image that does not run may be
// sealed, by one list of checks: those that a run makes, and those of an image. Its caller collects the input. Of an
// image it reads files; it has no side effects.
//
// A run makes its checks while it plans, and doctor shows their findings. Those about the kubelet's unit and about the
// files that are written are made before it commits, and defined by the packages activation and generation.
package doctor

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/doctor/image"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/check"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// checks returns all checks, in the order of the report. The commands doctor and seal run those whose input they have.
// The results of a name count in its later checks. A check that needs a running machine uses the answers of the plan,
// and reads nothing itself.
func (in *Observations) checks() (l check.List) {
	const both = check.Running | check.Files

	l.Add("site", both, in.checkSite)
	l.Add("kubelet", both, in.checkKubelet)
	l = append(l, in.checkUnits()...)
	l.Add("unit", check.Files, in.checkNotified)
	l.Add("unit", both, in.checkGate)
	l.Add("systemd", check.Running, in.checkSystemd)
	l.Add("users", check.Files, in.checkUsers)
	l.Add("runtime", both, in.checkRuntime)
	l.Add("permissions", check.Files, in.checkPermissions)
	l.Add("machine", check.Running, in.checkMachine)
	l.Add("kernel", both, in.checkKernels)
	l.Add("hardware", check.Running, in.checkHardware)
	l.Add("credentials", check.Running, in.checkCredentials)
	l.Add("cluster", check.Running, in.checkCluster)
	l = append(l, in.Files...)
	l.Add("disk", check.Running, in.checkDisk)
	l.Add("identity", check.Running, in.checkIdentity)
	l.Add("identity", check.Leftovers, in.listLeftovers("the image has none"))
	l.Add("secrets", check.Leftovers, in.listLeftovers("the image has none that prelet knows of"))
	l.Add("state", check.Running, in.checkState)
	l.Add("state", check.Leftovers, in.listLeftovers("the image has none"))
	l.Add("detectors", check.Running, in.checkDetectors)
	l.Add("detectors", check.Files, in.checkImageDetectors)

	return l
}

// Observations are the state of the node or of the image that the caller collects.
type Observations struct {
	Loaded hcl.Diagnostics // of loading and checking the site
	Image  *ImageInput     // nil for a running node, which has the fields below

	Root    bool           // the user may read and write everything
	Plan    *evaluate.Plan // made without the token; nil if the site could not be read
	Kubelet image.Kubelet
	Systemd bool   // is the init of this machine
	Version string // of that systemd; "" unknown
	Unit    NeededUnit
	Gate    string // its file
	Secrets []Secret
	Files   check.List // of a run, about the files that it writes
	Kept    Kept

	Kernels map[string]map[string]bool // the options that kernels were built with, by release
}

// NeededUnit is a unit that a boot needs.
type NeededUnit struct {
	unitfile.Unit

	Err     error  // of asking systemd, or of reading its files
	Missing string // why the program of an image's unit cannot be executed; "" if it can
}

// Secret is a credential that the site names.
type Secret struct {
	Name   string
	Err    error
	Needed bool // for this boot: the token of a node that has joined is not
}

// Kept is the state of earlier runs.
type Kept struct {
	Err     error
	Newer   error // a newer prelet wrote it, so this one changes nothing; else nil
	Current int
	Aside   *generation.Aside // a state that could not be trusted; nil: none
}

// Examine runs the checks that need a node or, with in.Image, an image.
func Examine(in Observations) []check.Finding {
	has := check.Running
	if in.Root {
		has |= check.Root
	}
	if in.Image != nil {
		has = check.Files | check.Leftovers
		in.Kubelet = in.Image.Kubelet
		in.Gate = unitfile.Gate
		in.Kernels = in.Image.Kernels
	}

	return in.checks().Run(has)
}

// checksByCode are the checks that messages of the plan belong to; "site" for all other codes.
var checksByCode = map[fault.Code]string{
	fault.KubeletFlag:        "kubelet",
	fault.KubeletGate:        "kubelet",
	fault.ConfigInvalid:      "kubelet",
	fault.KubeletDeprecated:  "kubelet",
	fault.FlagsInvalid:       "kubelet",
	fault.KubeletMachine:     "machine",
	fault.RuntimeConfig:      "runtime",
	fault.ClusterUnreachable: "cluster",
	fault.ClusterUntrusted:   "cluster",
	fault.ClusterDenied:      "cluster",
	fault.ClusterUnusable:    "cluster",
	fault.CredentialMissing:  "credentials",
	fault.DetectorFailed:     "detectors",
	fault.DetectorDegraded:   "detectors",
	fault.DetectorWarning:    "detectors",
	fault.DetectorUnknown:    "detectors",
	fault.HardwareFailed:     "hardware",
	fault.HardwareDegraded:   "hardware",
	fault.ReserveRefused:     "hardware",
	fault.NullFact:           "hardware",
	fault.CannotWrite:        "disk",
	fault.Drift:              "disk",
	fault.Identity:           "identity",
	fault.Systemd:            "unit",
}

// checkSite adds the messages of loading, checking and planning, each to its check; of an image all to this one. It
// leaves out notes.
func (in *Observations) checkSite(r *check.Recorder) {
	messages := slices.Clone(in.Loaded)
	if in.Plan != nil {
		messages = append(messages, in.Plan.Diagnostics...)
	}
	for _, d := range messages {
		f := NewFinding(d)
		if in.Image != nil {
			f.Check = r.Check
		}
		if in.Image != nil && f.Code == fault.NoSite {
			f.State = check.Warning // another layer may bring it
		}
		if !origin.IsNote(d) {
			r.Add(f)
		}
	}

	switch p, i := in.Plan, in.Image; {
	case i != nil && i.Site != nil:
		r.Fine(fmt.Sprintf("it is valid on %d sample machines: %s", i.Machines, count(len(i.Site.Files), "file")))
	case p != nil && p.Site != nil:
		r.Fine("it is valid: " + count(len(p.Site.Files), "file") + ", " + count(len(p.Site.Stages), "stage"))
	}
}

func (in *Observations) checkHardware(r *check.Recorder) {
	if in.Plan != nil && in.Plan.Facts != nil {
		r.Fine("it can be read")
	}
}

// NewFinding returns the result of a message.
func NewFinding(d *hcl.Diagnostic) check.Finding {
	code := origin.CodeOf(d)
	f := check.Finding{
		Check:   cmp.Or(checksByCode[code], "site"),
		State:   check.Warning,
		Summary: d.Summary,
		Why:     d.Detail,
		Code:    code,
	}
	if at := d.Subject; at != nil {
		f.Place = origin.Place(*at).String()
	}

	switch {
	case code == fault.NoSite:
		f.State = check.Problem
		f.Do = "prelet init writes a first site"
	case code == fault.Unread:
		f.State = check.Unread
	case d.Severity == hcl.DiagError:
		f.State = check.Problem
	}

	return f
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}

	return fmt.Sprintf("%d %ss", n, noun)
}
