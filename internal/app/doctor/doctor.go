// Package doctor checks whether a node is fit for a boot with its site: the kubelet and its unit, the runtime, the
// machine, the clock, credentials, the site, the cluster, the disk, the identity on it, and the state of earlier runs.
// Its caller collects the input. It has no side effects.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
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
	Check   string     `json:"check"` // see Checks
	State   State      `json:"state"`
	Summary string     `json:"summary"`
	Why     string     `json:"why,omitempty"` // the reason, or why it matters
	Do      string     `json:"do,omitempty"`  // the next step
	Code    fault.Code `json:"code,omitempty"`
	Place   string     `json:"place,omitempty"` // FILE:LINE:COLUMN of the site
}

// Checks returns the names of the checks, in the order of the report.
func Checks() []string {
	return []string{
		"site",
		"kubelet",
		"unit",
		"runtime",
		"machine",
		"hardware",
		"clock",
		"credentials",
		"cluster",
		"disk",
		"identity",
		"state",
		"detectors",
	}
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

// Input is the state of the node that the caller collects.
type Input struct {
	Root    bool            // the user may read and write everything
	Loaded  hcl.Diagnostics // of loading and checking the site
	Plan    *boot.Plan      // made without the token; nil if the site could not be read
	Binary  Binary
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
}

// Binary is the kubelet's program.
type Binary struct {
	Path    string // "" for none
	Version string // "" if it does not report one
}

// Unit is the kubelet's unit.
type Unit struct {
	Name  string
	Err   error
	Load  string // LoadState
	File  string // UnitFileState
	Gated bool   // an EnvironmentFile= without "-" names the gate

	Watchdog time.Duration // WatchdogSec=; 0: none
}

// Gate is the file without which the kubelet does not start.
type Gate struct {
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

// Examine runs all checks. Findings are in the order of Checks, the worst of each check first.
func Examine(in Input) []Finding {
	e := &examination{in: in}
	e.checkSite()
	e.checkBinary()
	e.checkUnit()
	e.checkImages()
	e.checkRuntime()
	e.checkMachine()
	e.checkClock()
	e.checkCredentials()
	e.checkCluster()
	e.checkDisk()
	e.checkServing()
	e.checkIdentity()
	e.checkState()
	e.checkDetectors()
	checks := Checks()
	worst := []State{Problem, Warning, Unread, OK}
	slices.SortStableFunc(e.found, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(checks, a.Check), slices.Index(checks, b.Check)),
			cmp.Compare(slices.Index(worst, a.State), slices.Index(worst, b.State)),
		)
	})
	return e.found
}

// Fit reports whether a boot would succeed, as far as is known.
func Fit(findings []Finding) bool {
	return !slices.ContainsFunc(findings, func(f Finding) bool {
		return f.State == Problem
	})
}

type examination struct {
	in    Input
	found []Finding
}

func (e *examination) add(f Finding) { e.found = append(e.found, f) }

func (e *examination) ok(check, summary string) {
	e.add(Finding{Check: check, State: OK, Summary: summary})
}

// problem adds what stops a run, with its reason and the next step.
func (e *examination) problem(check, summary, why, do string) {
	e.add(Finding{Check: check, State: Problem, Summary: summary, Why: why, Do: do})
}

// warn adds what does not stop a run, with its reason and the next step.
func (e *examination) warn(check, summary, why, do string) {
	e.add(Finding{Check: check, State: Warning, Summary: summary, Why: why, Do: do})
}

// unread adds what could not be checked, with the reason and the next step.
func (e *examination) unread(check, summary, why, do string) {
	e.add(Finding{Check: check, State: Unread, Summary: summary, Why: why, Do: do})
}

// isFine reports whether all findings of a check are OK.
func (e *examination) isFine(check string) bool {
	return !slices.ContainsFunc(e.found, func(f Finding) bool {
		return f.Check == check && f.State != OK
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

// checkSite adds the messages of loading, checking and planning, each to its check. It leaves out notes, and the
// answers that are missing because LimitSource did not ask.
func (e *examination) checkSite() {
	messages := slices.Clone(e.in.Loaded)
	if e.in.Plan != nil {
		messages = append(messages, e.in.Plan.Diagnostics...)
	}
	for _, d := range messages {
		isSkipped := origin.CodeOf(d) == fault.Unread && !origin.IsDenied(d)
		f := NewFinding(d)
		if !isSkipped && !origin.IsNote(d) && !slices.Contains(e.found, f) {
			e.add(f)
		}
	}

	p := e.in.Plan
	if p == nil {
		return
	}
	if p.Site != nil && e.isFine("site") {
		files := count(len(p.Site.Files), "file")
		stages := count(len(p.Site.Stages), "stage")
		e.ok("site", "it is valid: "+files+", "+stages)
	}
	if p.Facts != nil && e.isFine("hardware") {
		e.ok("hardware", "it can be read")
	}
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
		f.Place = fmt.Sprintf("%s:%d:%d", at.Filename, at.Start.Line, at.Start.Column)
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
