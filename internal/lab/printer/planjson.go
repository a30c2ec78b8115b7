package printer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/compare"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/plan/identity"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// View is a plan with the properties that are printed with it.
type View struct {
	Plan       *evaluate.Plan
	Version    string // of prelet
	Generation int    // the current one
	Source     string // the recording, if there are several
	// References are those of the sites that were pulled from registries, with their digests.
	References []string
	// CheckedBy is the judge of the kubelet's flags and configuration: the path of its binary, or ByRules.
	CheckedBy string
	// Full asks for the content of each file, whole.
	Full bool
}

// ByRules names the rules of prelet, if the kubelet's binary was not asked.
const ByRules = "rules"

// nameChecker names CheckedBy in a text; "" if the kubelet is not known.
func (v View) nameChecker() string {
	version := v.Plan.Kubelet.KnownVersion()
	switch {
	case v.CheckedBy != ByRules:
		return v.CheckedBy
	case version == "":
		return ""
	}

	return "prelet's rules for kubelet " + strings.TrimPrefix(version, "v")
}

// Changes reports whether a run would change a file, as far as that is known (see evaluate.Plan.Complete).
func (v View) Changes() bool { return wouldChange(v.Plan) }

func wouldChange(p *evaluate.Plan) bool {
	return slices.ContainsFunc(p.Changes, evaluate.FileChange.Changes)
}

type planDocument struct {
	FormatVersion int                `json:"format_version"`
	Source        string             `json:"source,omitempty"`
	References    []string           `json:"site_references,omitempty"` // with digests
	PreletVersion string             `json:"prelet_version"`
	Complete      bool               `json:"complete"`
	PlanHash      string             `json:"plan_hash"`
	Generation    int                `json:"generation"`
	Degraded      []fault.Reason     `json:"degraded"`
	Assumed       []evaluate.Assumed `json:"assumed,omitempty"` // answers of a rehearsal that are not the node's
	// CheckedBy is the path of the kubelet's binary that has judged its flags and configuration, or "rules".
	CheckedBy string `json:"kubelet_checked_by"`
	// Identity is the one of another machine on this disk, which is set aside.
	Identity *identity.Previous `json:"identity,omitempty"`
	Node     nodeDocument       `json:"node"`
	Files    []fileDocument     `json:"files"`
	Restart  restartDocument    `json:"restart"`
	// Needs is nothing, units, kubelet or drain: what applying the plan needs of the node. "": it is not complete.
	Needs evaluate.Need `json:"needs,omitempty"`
	// Drains has why the node must be drained first.
	Drains []string `json:"drain_because,omitempty"`
	// Units are notified by managed files, in the order of their actions.
	Units       []unitDocument         `json:"units"`
	Stages      []evaluate.StageReport `json:"stages"`
	Diagnostics []Diagnostic           `json:"diagnostics"`
}

type nodeDocument struct {
	Labels        map[string]labelDocument   `json:"labels"`
	Taints        []desired.Taint            `json:"taints"`
	Flags         []desired.Flag             `json:"flags"`
	Config        map[string]any             `json:"kubelet_config"`
	ConfigOrigins map[string][]origin.Origin `json:"kubelet_config_origins"`
	Reserved      *desired.Reserved          `json:"reserved,omitempty"`
}

type labelDocument struct {
	desired.Label
	TakesEffect string `json:"takes_effect"`
}

type fileDocument struct {
	Path      string `json:"path"`
	Action    string `json:"action"`
	Mode      string `json:"mode,omitempty"`
	Owner     string `json:"owner,omitempty"`
	Sensitive bool   `json:"sensitive"`
	Private   bool   `json:"private,omitempty"` // not shown: it has a secret, or not every user may read it
	SHA256    string `json:"sha256,omitempty"`
	Diff      string `json:"diff,omitempty"`
	Drift     string `json:"drift,omitempty"`
	Why       string `json:"why,omitempty"`
	Purpose   string `json:"purpose"`
	// Notifies are the units that are restarted or reloaded after a change, including the kubelet's.
	Notifies []string `json:"notifies"`
	Stays    string   `json:"stays,omitempty"` // removed by the change, and in force until the next boot
}

type restartDocument struct {
	evaluate.Restart
	When string `json:"when"`
}

type unitDocument struct {
	Unit    string   `json:"unit"`
	Action  string   `json:"action"`          // restart | reload | create (systemd-tmpfiles, of the files)
	Stage   string   `json:"stage,omitempty"` // restart.NAME; "" for a unit notified by path, or of a removed stage
	Needed  bool     `json:"needed"`
	Because []string `json:"because"`
	Files   []string `json:"files"`
}

// PlanDocument returns the plan as a document of format version 1, also of a failed run ("complete": false).
func PlanDocument(v View) any {
	p := v.Plan
	d := planDocument{
		FormatVersion: 1,
		Source:        v.Source,
		References:    v.References,
		PreletVersion: v.Version,
		Complete:      p.Complete,
		PlanHash:      p.Hash,
		Generation:    v.Generation,
		Degraded:      orEmpty(p.Degraded),
		Assumed:       p.Assumed,
		CheckedBy:     v.CheckedBy,
		Node:          newNodeDocument(p),
		Files:         []fileDocument{},
		Units:         []unitDocument{},
		Identity:      p.Previous,
		Stages:        orEmpty(p.Stages),
		Diagnostics:   DiagnosticsJSON(Sorted(p.Diagnostics)),
		Restart:       restartDocument{p.Restart, "boot"},
	}
	d.Restart.Because = orEmpty(d.Restart.Because)
	if p.Complete {
		d.Needs, d.Drains = p.Needs(), p.Drains
	}
	for _, c := range p.Changes {
		d.Files = append(d.Files, newFileDocument(c))
	}
	for _, u := range p.Units {
		d.Units = append(d.Units, newUnitDocument(u))
	}

	return d
}

func newNodeDocument(p *evaluate.Plan) nodeDocument {
	d := nodeDocument{
		Labels:        map[string]labelDocument{},
		Taints:        orEmpty(p.Node.Taints),
		Flags:         orEmpty(p.Node.Flags),
		Config:        map[string]any{},
		ConfigOrigins: map[string][]origin.Origin{},
		Reserved:      p.Node.Reserved,
	}
	maps.Copy(d.Config, p.Node.Config)
	maps.Copy(d.ConfigOrigins, p.Node.ConfigOrigins)
	for _, l := range p.Node.Labels {
		d.Labels[l.Key] = labelDocument{l, p.TakesEffect(l.Key)}
	}

	return d
}

func newUnitDocument(u hostfiles.UnitChange) unitDocument {
	d := unitDocument{
		Unit:    u.Unit.Unit,
		Action:  u.Action,
		Needed:  len(u.Because) > 0,
		Because: orEmpty(u.Because),
		Files:   u.Files,
	}
	if u.Stage != "" {
		d.Stage = "restart." + u.Stage
	}

	return d
}

func newFileDocument(c evaluate.FileChange) fileDocument {
	f := c.File
	text := f.Text.Template()
	hidden := compare.WhyHidden(c)
	d := fileDocument{
		Path:      f.Path,
		Action:    c.Action,
		Owner:     c.Owner(),
		Sensitive: hidden == compare.Secret,
		Private:   c.Old.Private,
		Drift:     c.Drift,
		Why:       c.Why,
		Purpose:   f.Purpose,
		Notifies:  orEmpty(c.Notifies),
		Stays:     c.Stays,
	}
	if f.Kind != desired.Missing {
		d.Mode = fmt.Sprintf("%04o", c.Mode())
	}
	isPublic := f.Kind == desired.Regular && !d.Sensitive
	if isPublic {
		d.SHA256 = nodefile.Checksum([]byte(text))
	}
	if isPublic && hidden == "" && c.Changes() {
		d.Diff = compare.Unified(c.Old.Text, text)
	}

	return d
}

func orEmpty[T any](l []T) []T {
	if l == nil {
		return []T{}
	}

	return l
}
