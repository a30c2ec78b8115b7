package present

import (
	"fmt"
	"io"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
)

// View is a plan with what its printing needs to know besides.
type View struct {
	Plan       *boot.Plan
	Version    string // of prelet
	Generation int    // in place
	Source     string // the recording, where there are several
}

// Changes says whether a run would change something, as far as that can be told (see boot.Plan.Complete).
func (v View) Changes() bool {
	for _, c := range v.Plan.Changes {
		if c.Action != "none" && c.Action != "keep" {
			return true
		}
	}
	return false
}

type planDocument struct {
	FormatVersion int             `json:"format_version"`
	Source        string          `json:"source,omitempty"`
	PreletVersion string          `json:"prelet_version"`
	Complete      bool            `json:"complete"`
	PlanHash      string          `json:"plan_hash"`
	Generation    int             `json:"generation"`
	Degraded      []boot.Degraded `json:"degraded"`
	Assumed       []boot.Assumed  `json:"assumed,omitempty"` // answers of a rehearsal that are not the node's
	Unread        []boot.Unread   `json:"unread,omitempty"`
	Unjudged      []string        `json:"unjudged,omitempty"` // files that may change, or not: that depends on what is unread
	// Identity is that of another machine, which is on the disk and is set aside.
	Identity    *identityDocument `json:"identity,omitempty"`
	Node        nodeDocument      `json:"node"`
	Files       []fileDocument    `json:"files"`
	Restart     restartDocument   `json:"restart"`
	Units       []unitDocument    `json:"units"` // other units that managed files notify, in the order in which they are acted on
	Stages      []stageDocument   `json:"stages"`
	Diagnostics []Diagnostic      `json:"diagnostics"`
}

type identityDocument struct {
	Node string `json:"node"` // whose it was; "" where its certificate does not tell
	Why  string `json:"why"`
}

type stageDocument struct {
	Address string `json:"address"`
	State   string `json:"state"`
}

type nodeDocument struct {
	Labels        map[string]labelDocument   `json:"labels"`
	Taints        []taintDocument            `json:"taints"`
	Flags         []flagDocument             `json:"flags"`
	Config        map[string]any             `json:"kubelet_config"`
	ConfigOrigins map[string][]origin.Origin `json:"kubelet_config_origins"`
	Reserved      *node.Reserved             `json:"reserved,omitempty"`
}

type labelDocument struct {
	Value       string          `json:"value"`
	Origins     []origin.Origin `json:"origins"`
	TakesEffect string          `json:"takes_effect"`
}

type taintDocument struct {
	Key     string          `json:"key"`
	Value   string          `json:"value"`
	Effect  string          `json:"effect"`
	Origins []origin.Origin `json:"origins"`
}

type flagDocument struct {
	Name    string          `json:"name"`
	Value   string          `json:"value"`
	Origins []origin.Origin `json:"origins"`
}

type fileDocument struct {
	Path      string `json:"path"`
	Action    string `json:"action"`
	Mode      string `json:"mode,omitempty"`
	Owner     string `json:"owner,omitempty"`
	Sensitive bool   `json:"sensitive"`
	Private   bool   `json:"private,omitempty"` // what is there is not shown: it holds a secret, or root alone reads it
	SHA256    string `json:"sha256,omitempty"`
	Diff      string `json:"diff,omitempty"`
	Drift     string `json:"drift,omitempty"`
	Why       string `json:"why,omitempty"`
	Purpose   string `json:"purpose"`
	// Notifies are the units that are restarted or reloaded when it changes, the kubelet's among them; none: nothing is.
	Notifies []string `json:"notifies"`
	Stays    string   `json:"stays,omitempty"` // what the change takes out of it and stays in force until the next boot
}

type restartDocument struct {
	Unit    string   `json:"unit"`
	Needed  bool     `json:"needed"`
	When    string   `json:"when"`
	Because []string `json:"because"`
}

type unitDocument struct {
	Unit    string   `json:"unit"`
	Action  string   `json:"action"`          // restart | reload | create (systemd-tmpfiles, of the files)
	Stage   string   `json:"stage,omitempty"` // restart.NAME; none: by the file's path, or the stage is gone
	Needed  bool     `json:"needed"`
	Because []string `json:"because"`
	Files   []string `json:"files"`
}

// PlanJSON writes the plan as one document of format version 1, on failure too ("complete": false).
func PlanJSON(w io.Writer, v View) error {
	p := v.Plan
	d := planDocument{FormatVersion: 1, Source: v.Source, PreletVersion: v.Version, Complete: p.Complete, PlanHash: p.Hash, Generation: v.Generation,
		Degraded: orEmpty(p.Degraded), Assumed: p.Assumed, Unread: p.Unread, Unjudged: p.Unjudged, Files: []fileDocument{}, Stages: []stageDocument{}, Diagnostics: DiagnosticsJSON(Sorted(p.Diagnostics)),
		Restart: restartDocument{Unit: p.Restart.Unit, Needed: p.Restart.Needed, When: "boot", Because: orEmpty(p.Restart.Because)}}
	d.Units = []unitDocument{}
	for _, u := range p.Units {
		x := unitDocument{Unit: u.Unit.Unit, Action: u.Action, Needed: len(u.Because) > 0, Because: orEmpty(u.Because), Files: u.Files}
		if u.Stage != "" {
			x.Stage = "restart." + u.Stage
		}
		d.Units = append(d.Units, x)
	}
	if a := p.Aside; a != nil {
		d.Identity = &identityDocument{a.Node, a.Why}
	}
	d.Node = nodeDocument{Labels: map[string]labelDocument{}, Taints: []taintDocument{}, Flags: []flagDocument{}, Config: p.Node.Config,
		ConfigOrigins: p.Node.ConfigOrigins, Reserved: p.Node.Reserved}
	if d.Node.Config == nil {
		d.Node.Config = map[string]any{}
	}
	if d.Node.ConfigOrigins == nil {
		d.Node.ConfigOrigins = map[string][]origin.Origin{}
	}
	for _, l := range p.Node.Labels {
		d.Node.Labels[l.Key] = labelDocument{l.Value, orEmpty(l.Origins), p.TakesEffect(l.Key)}
	}
	for _, t := range p.Node.Taints {
		d.Node.Taints = append(d.Node.Taints, taintDocument{t.Key, t.Value, t.Effect, orEmpty(t.Origins)})
	}
	for _, f := range p.Node.Flags {
		d.Node.Flags = append(d.Node.Flags, flagDocument{f.Name, f.Value, orEmpty(f.Origins)})
	}
	for _, c := range p.Changes {
		f := fileDocument{Path: c.File.Path, Action: c.Action, Owner: owner(c), Sensitive: len(c.File.Text.Secrets()) > 0 || c.File.Purpose == "identity", Drift: c.Drift, Why: c.Why, Purpose: c.File.Purpose, Private: c.Old.Private,
			Notifies: orEmpty(c.Notifies), Stays: c.Stays}
		if c.File.Kind != node.Missing {
			f.Mode = fmt.Sprintf("%04o", mode(c))
		}
		if c.File.Kind == node.Regular && !f.Sensitive {
			f.SHA256 = sum(c.File.Text.Template())
			if c.Action != "none" && c.Action != "keep" && c.Old.Uncompared == "" && !c.Old.Private {
				f.Diff = unified(c.Old.Text, c.File.Text.Template())
			}
		}
		d.Files = append(d.Files, f)
	}
	for _, s := range p.Stages {
		d.Stages = append(d.Stages, stageDocument{s.Address, s.State})
	}
	return EncodeJSON(w, d)
}

// mode is what a managed file will have: as declared, else as it has now, else what a new one gets.
func mode(c boot.Change) uint32 {
	switch {
	case c.File.Mode != 0:
		return uint32(c.File.Mode)
	case len(c.File.Text.Secrets()) > 0:
		return 0o600
	case c.Old.Exists:
		return c.Old.Mode
	case c.File.Kind == node.Directory:
		return 0o755
	}
	return 0o644
}

// owner is USER:GROUP that a target will have: as declared, else as it has now. A new one gets its folder's when it is
// written; until then it has none.
func owner(c boot.Change) string {
	switch {
	case c.File.Owner != "":
		return c.File.Owner
	case c.Old.Exists && c.Old.Owner == "":
		return "root:root"
	}
	return c.Old.Owner
}

func orEmpty[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}
