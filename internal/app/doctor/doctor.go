// Package doctor judges whether a node is fit for a boot with its site: the kubelet and its unit, the runtime, the machine,
// the clock, credentials, the site, the cluster, the disk, whose identity is there, and what earlier runs have left. It is a
// function of what its caller has found out; it touches nothing itself.
package doctor

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// State is how one thing stands.
type State string

// The states.
const (
	OK      State = "ok"
	Warning State = "warning" // a boot ends well, and not as one would want it
	Problem State = "problem" // a boot does not end well
	Unread  State = "unread"  // this user may not look, or nobody can tell now
)

// Finding is one thing that was looked at.
type Finding struct {
	Check   string     `json:"check"` // see Checks
	State   State      `json:"state"`
	Summary string     `json:"summary"`       // what
	Why     string     `json:"why,omitempty"` // it matters, or how it was found out
	Do      string     `json:"do,omitempty"`  // next
	Code    fault.Code `json:"code,omitempty"`
	Place   string     `json:"place,omitempty"` // FILE:LINE:COLUMN of the site
}

// Checks are the names of what is looked at, in the order of the report.
func Checks() []string {
	return []string{"site", "kubelet", "unit", "runtime", "machine", "hardware", "clock", "credentials", "cluster", "disk", "identity", "state", "detectors"}
}

// Input is what the caller has found out.
type Input struct {
	Root    bool            // the user may read and write everything
	Loaded  hcl.Diagnostics // of loading and checking the site
	Plan    *boot.Plan      // made without the token; nil where the site could not be read
	Binary  Binary
	Systemd bool // it is the init of this machine
	Unit    Unit
	Gate    Gate
	Runtime Runtime
	Clock   error // nil: somebody has set it
	Secrets []Secret
	Places  []Place
	Kept    Kept
	Kubeadm string // text of kubeadm-flags.env, "" for none
}

// Binary is the kubelet's.
type Binary struct {
	Path    string // "" for none
	Version string // "" if it did not tell
}

// Unit is the kubelet's unit.
type Unit struct {
	Name  string
	Err   error
	Load  string // LoadState
	File  string // UnitFileState
	Gated bool   // an EnvironmentFile= without "-" names the gate
}

// Gate is what keeps the kubelet from starting.
type Gate struct {
	Open       bool
	Generation int
	Why        string // it is shut
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

// Kept is what earlier runs have left.
type Kept struct {
	Err     error
	Current int
	Rotten  []generation.Rotten // generations whose files are damaged
	Adopted bool                // Current was made of files that were as planned already
	Journal *generation.Journal
	Held    map[string]string // by plan, why
	Pinned  string            // why nothing is applied; "" for no pin
	Lock    string            // who holds it
}

// Examine judges. Findings come in the order of Checks, in each the worst first.
func Examine(in Input) []Finding {
	e := &examination{in: in}
	e.site()
	e.binary()
	e.unit()
	e.runtime()
	e.machine()
	e.clock()
	e.credentials()
	e.cluster()
	e.disk()
	e.identity()
	e.state()
	e.detectors()
	checks := Checks()
	worst := []State{Problem, Warning, Unread, OK}
	slices.SortStableFunc(e.found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(checks, a.Check), slices.Index(checks, b.Check)), cmp.Compare(slices.Index(worst, a.State), slices.Index(worst, b.State)))
	})
	return e.found
}

// Fit says whether a boot would end well, as far as can be told.
func Fit(findings []Finding) bool {
	return !slices.ContainsFunc(findings, func(f Finding) bool { return f.State == Problem })
}

type examination struct {
	in    Input
	found []Finding
}

func (e *examination) add(f Finding) { e.found = append(e.found, f) }

func (e *examination) say(check string, s State, do, why, format string, args ...any) {
	e.add(Finding{Check: check, State: s, Summary: fmt.Sprintf(format, args...), Why: why, Do: do})
}

// none says whether nothing worse than fine was found for a check.
func (e *examination) none(check string) bool {
	return !slices.ContainsFunc(e.found, func(f Finding) bool { return f.Check == check && f.State != OK })
}

// checkOf is where a message of the plan belongs.
func checkOf(c fault.Code) string {
	switch c {
	case fault.KubeletFlag, fault.KubeletGate, fault.ConfigInvalid, fault.KubeletDeprecated, fault.FlagsInvalid:
		return "kubelet"
	case fault.KubeletMachine:
		return "machine"
	case fault.ClusterUnreachable, fault.ClusterUntrusted, fault.ClusterDenied, fault.ClusterUnusable:
		return "cluster"
	case fault.CredentialMissing:
		return "credentials"
	case fault.DetectorFailed, fault.DetectorDegraded, fault.DetectorWarning, fault.DetectorUnknown:
		return "detectors"
	case fault.HardwareFailed, fault.HardwareDegraded, fault.ReserveRefused, fault.NullFact:
		return "hardware"
	case fault.CannotWrite, fault.Drift:
		return "disk"
	case fault.Identity:
		return "identity"
	case fault.Systemd:
		return "unit"
	}
	return "site"
}

// site takes the messages of loading, checking and planning apart. What was not asked on purpose, and notes, are left out.
func (e *examination) site() {
	diags := slices.Clone(e.in.Loaded)
	if e.in.Plan != nil {
		diags = append(diags, e.in.Plan.Diagnostics...)
	}
	seen := map[string]bool{}
	for _, d := range diags {
		code := origin.CodeOf(d)
		if origin.IsNote(d) || code == fault.Unread && !origin.IsDenied(d) {
			continue
		}
		f := Finding{Check: checkOf(code), State: Warning, Summary: d.Summary, Why: d.Detail, Code: code}
		if d.Subject != nil {
			f.Place = fmt.Sprintf("%s:%d:%d", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column)
		}
		switch {
		case code == fault.NoSite:
			f.State, f.Do = Problem, "prelet init writes a first site"
		case code == fault.Unread:
			f.State = Unread
		case d.Severity == hcl.DiagError:
			f.State = Problem
		}
		if key := f.Place + f.Summary + f.Why; !seen[key] {
			seen[key] = true
			e.add(f)
		}
	}
	if e.in.Plan != nil && e.in.Plan.Site != nil && e.none("site") {
		e.say("site", OK, "", "", "it is valid: %s, %s", count(len(e.in.Plan.Site.Files), "file"), count(len(e.in.Plan.Site.Stages), "stage"))
	}
	if e.none("hardware") && e.in.Plan != nil && e.in.Plan.Facts != nil {
		e.say("hardware", OK, "", "", "it can be read")
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
