// Package doctor checks whether a node is fit for a boot with its site, and whether an image that does not run may be
// sealed, by one list of checks. Its caller collects the input. Of an image it reads files; it has no side effects.
//
// A run judges its plan and the kubelet's unit by the same functions. Two checks are only in its preflight, because
// they are about what the commit then does: package activation writes into the run folder to see that it has space,
// and package generation examines the folders through the descriptors by which it writes.
package doctor

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/doctor/image"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// State is the result of one check.
type State string

// The states.
const (
	OK      State = "ok"
	Warning State = "warning" // a boot succeeds, but probably not as intended
	Problem State = "problem" // a boot fails
	Unread  State = "unread"  // this user may not read it, or it is not known now
	Skipped State = "skipped" // only a running machine can be checked for it
)

// Finding is the result of one check.
type Finding struct {
	Check   string     `json:"check"` // see list
	State   State      `json:"state"`
	Summary string     `json:"summary"`
	Why     string     `json:"why,omitempty"` // the reason, or why it matters
	Do      string     `json:"do,omitempty"`  // the next step
	Code    fault.Code `json:"code,omitempty"`
	Place   string     `json:"place,omitempty"` // FILE:LINE:COLUMN of the site
}

// Needs is what a check needs: one of them is enough.
type Needs uint8

// The needs of checks.
const (
	Running   Needs = 1 << iota // a machine that runs
	Files                       // the root folder of a machine that does not run, or of an image
	Leftovers                   // what an image must not contain
)

// check is one row of the list of checks.
type check struct {
	name  string // of its findings, most of them; messages of the site belong to several checks
	needs Needs
	run   func(*examination) (fine string) // the summary if all findings of the name are fine; "" for none
}

// list returns all checks, in the order of the report. The commands doctor, seal and bundle run those that need what
// they have; a name without a check for an image is reported as skipped there. The findings of a name count in its
// later checks.
func list() []check {
	return []check{
		{"site", Running | Files, (*examination).checkSite},
		{"kubelet", Running, (*examination).checkSkew},
		{"kubelet", Running | Files, (*examination).checkKubelet},
		{"unit", Running | Files, (*examination).checkUnits},
		{"unit", Running, (*examination).recommendWatchdog},
		{"users", Files, (*examination).checkUsers},
		{"runtime", Running, (*examination).checkImages},
		{"runtime", Running | Files, (*examination).checkRuntime},
		{"permissions", Files, (*examination).checkPermissions},
		{"machine", Running, (*examination).checkName},
		{"machine", Running, (*examination).checkKernel},
		{"machine", Running, (*examination).checkMachine},
		{"hardware", Running, (*examination).checkHardware},
		{"clock", Running, (*examination).checkClock},
		{"credentials", Running, (*examination).checkCredentials},
		{"cluster", Running, (*examination).checkCluster},
		{"disk", Running, (*examination).checkDisk},
		{"identity", Running, (*examination).checkServing},
		{"identity", Running, (*examination).checkIdentity},
		{"identity", Leftovers, listLeftovers("the image has none")},
		{"secrets", Leftovers, listLeftovers("the image has none that prelet knows of")},
		{"state", Running, (*examination).checkState},
		{"state", Leftovers, listLeftovers("the image has none")},
		{"detectors", Running, (*examination).checkDetectors},
		{"detectors", Files, (*examination).checkImageDetectors},
	}
}

// Checks returns the names of the checks that have enough with some needs, in the order of the report.
func Checks(needs Needs) (names []string) {
	for _, c := range list() {
		if c.needs&needs != 0 && !slices.Contains(names, c.name) {
			names = append(names, c.name)
		}
	}

	return names
}

// Images are the images of the runtime that the kubelet gives to no pod without credentials of its own.
type Images struct {
	Policy  string // imagePullCredentialsVerificationPolicy; "": nothing was looked for
	Err     error  // of the runtime, or of reading the kubelet's records
	Count   int    // of all images
	Refused []Image
}

// Image is one of them.
type Image struct{ Name, Why string }

// Input is the state of the node or of the image that the caller collects.
type Input struct {
	Loaded hcl.Diagnostics // of loading and checking the site
	Image  *ImageInput     // nil for a running node, which has the fields below

	Root    bool       // the user may read and write everything
	Plan    *boot.Plan // made without the token; nil if the site could not be read
	Kubelet image.Kubelet
	Systemd bool // is the init of this machine
	Unit    Unit
	Gate    Gate
	Runtime Runtime
	Clock   error // nil: it is set
	Secrets []Secret
	Places  []Place
	Kept    Kept
	Kubeadm string // text of kubeadm-flags.env, "" for none
	Images  Images
	Serving error // why the kubelet has no certificate for its API; nil: it has one, or requests none

	Server string          // the version of the API server; "" unknown
	Name   error           // why the node's name does not resolve; nil: it does, or is not known
	Kernel map[string]bool // the options that the kernel was built with; nil unknown
}

// Unit is a unit that a boot needs.
type Unit struct {
	unitfile.Unit

	Err error // of asking systemd, or of reading its files
}

// Gate is the file without which the kubelet does not start.
type Gate struct {
	Path       string
	Open       bool
	Generation int
	Why        string // it is closed
	Err        error
}

// Runtime is the container runtime's socket.
type Runtime struct {
	Endpoint string // "" unknown
	Driver   string // of its cgroups; "" unknown
	Err      error  // of connecting
}

// Secret is a credential that the site names.
type Secret struct {
	Name   string
	Err    error
	Needed bool // for this boot: the token of a node that has joined is not
}

// Place is a folder that prelet writes to, or the deepest existing folder above it.
type Place struct {
	nodefile.Disk
	For string // the folder itself
}

// Kept is the state of earlier runs.
type Kept struct {
	Err     error
	Newer   error // a newer prelet wrote it, so this one changes nothing; else nil
	Current int
	Damaged []generation.DamagedGeneration // generations whose files are damaged
	Adopted bool                           // the files of Current were as planned before it
	Journal *generation.Journal
	Held    map[string]string // the reason by plan
	Pinned  string            // why nothing is applied; "" for no pin
	Lock    string            // its holder
}

// Examine runs the checks of list that need a node or, with in.Image, an image. Findings are in the order of list, the
// worst of each check first, and skipped checks last.
func Examine(in Input) []Finding {
	e := &examination{in: in}
	has := Running
	if in.Image != nil {
		has = Files | Leftovers
		e.in.Kubelet = in.Image.Kubelet
		e.in.Runtime.Endpoint = in.Image.Runtime
		e.in.Gate.Path = unitfile.Gate
	}

	var names []string
	for _, c := range list() {
		names = append(names, c.name)
		if c.needs&has != 0 {
			e.current = c.name
			if fine := c.run(e); fine != "" && e.isFine() {
				e.report(OK, fine, "", "")
			}
		}
	}
	if in.Image != nil {
		e.skip()
	}

	worst := []State{Problem, Warning, Unread, OK, Skipped}
	slices.SortStableFunc(e.found, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(skippedLast(a), skippedLast(b)),
			cmp.Compare(slices.Index(names, a.Check), slices.Index(names, b.Check)),
			cmp.Compare(slices.Index(worst, a.State), slices.Index(worst, b.State)),
		)
	})

	return e.found
}

// skippedLast returns the place of a finding: 1 for one of a check that was skipped, else 0.
func skippedLast(f Finding) int {
	if f.State == Skipped {
		return 1
	}

	return 0
}

// skip adds a finding for each check of a node that an image has not.
func (e *examination) skip() {
	ofImage := Checks(Files | Leftovers)
	for _, name := range Checks(Running) {
		if !slices.Contains(ofImage, name) {
			e.add(Finding{Check: name, State: Skipped, Summary: "only a running machine can be checked for it"})
		}
	}
}

// Fit reports whether a boot would succeed, as far as is known.
func Fit(findings []Finding) bool {
	return !slices.ContainsFunc(findings, func(f Finding) bool {
		return f.State == Problem
	})
}

type examination struct {
	in      Input
	current string // the name of the check that runs
	found   []Finding
}

func (e *examination) add(f Finding) { e.found = append(e.found, f) }

// report adds a finding of the current check, with its reason and the next step.
func (e *examination) report(state State, summary, why, do string) {
	e.add(Finding{Check: e.current, State: state, Summary: summary, Why: why, Do: do})
}

// problem adds what stops a run.
func (e *examination) problem(summary, why, do string) { e.report(Problem, summary, why, do) }

// warn adds what does not stop a run.
func (e *examination) warn(summary, why, do string) { e.report(Warning, summary, why, do) }

// unread adds what could not be checked.
func (e *examination) unread(summary, why, do string) { e.report(Unread, summary, why, do) }

// isFine reports whether all findings of the current check so far are OK.
func (e *examination) isFine() bool {
	return !slices.ContainsFunc(e.found, func(f Finding) bool {
		return f.Check == e.current && f.State != OK
	})
}

// checksByCode are the checks that messages of the plan belong to; "site" for all other codes.
var checksByCode = map[fault.Code]string{
	fault.KubeletFlag:        "kubelet",
	fault.KubeletGate:        "kubelet",
	fault.ConfigInvalid:      "kubelet",
	fault.KubeletDeprecated:  "kubelet",
	fault.FlagsInvalid:       "kubelet",
	fault.KubeletMachine:     "machine",
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
func (e *examination) checkSite() string {
	messages := slices.Clone(e.in.Loaded)
	if e.in.Plan != nil {
		messages = append(messages, e.in.Plan.Diagnostics...)
	}
	for _, d := range messages {
		f := NewFinding(d)
		if e.in.Image != nil {
			f.Check = e.current
		}
		if e.in.Image != nil && f.Code == fault.NoSite {
			f.State = Warning // another layer may bring it
		}
		if !origin.IsNote(d) && !slices.Contains(e.found, f) {
			e.add(f)
		}
	}

	switch p, i := e.in.Plan, e.in.Image; {
	case i != nil && i.Site != nil:
		return fmt.Sprintf(
			"it is valid on %d sample machines: %s",
			i.Machines,
			count(len(i.Site.Files), "file"),
		)
	case p != nil && p.Site != nil:
		return "it is valid: " + count(len(p.Site.Files), "file") + ", " + count(len(p.Site.Stages), "stage")
	}

	return ""
}

func (e *examination) checkHardware() string {
	if e.in.Plan != nil && e.in.Plan.Facts != nil {
		return "it can be read"
	}

	return ""
}

// NewFinding returns the finding of a message.
func NewFinding(d *hcl.Diagnostic) Finding {
	code := origin.CodeOf(d)
	f := Finding{
		Check:   cmp.Or(checksByCode[code], "site"),
		State:   Warning,
		Summary: d.Summary,
		Why:     d.Detail,
		Code:    code,
	}
	if at := d.Subject; at != nil {
		f.Place = origin.Place(*at).String()
	}

	switch {
	case code == fault.NoSite:
		f.State = Problem
		f.Do = "prelet init writes a first site"
	case code == fault.Unread:
		f.State = Unread
	case d.Severity == hcl.DiagError:
		f.State = Problem
	}

	return f
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}

	return fmt.Sprintf("%d %ss", n, noun)
}
