package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/compare"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
)

// FormatVersion is the number of the format of a report as JSON.
const FormatVersion = 1

// FleetEffect is the effect of a site on a fleet. As JSON it is the document of `plan` over a folder, and the partial
// result of a shard.
type FleetEffect struct {
	FormatVersion int    `json:"format_version"`
	Kind          string `json:"kind"` // fleet
	PreletVersion string `json:"prelet_version"`
	Against       string `json:"against,omitempty"` // the older site; "": the disks
	Site          string `json:"site,omitempty"`    // the hash of the site's files; "": each recording's own site
	AgainstSite   string `json:"against_site,omitempty"`
	Shard         *Shard `json:"shard,omitempty"`  // of a partial result
	Inputs        string `json:"inputs,omitempty"` // a hash of the options; parts of other options are not merged

	Recordings int `json:"recordings"`
	Changed    int `json:"changed"`
	Unchanged  int `json:"unchanged"`
	Incomplete int `json:"incomplete"` // the recording lacks an answer
	Degraded   int `json:"degraded"`
	Failed     int `json:"failed"`
	Held       int `json:"held"`        // a hold of the site is true
	Tainted    int `json:"tainted"`     // a taint comes that keeps pods away
	KeptAway   int `json:"kept_away"`   // either
	MayBeHeld  int `json:"may_be_held"` // neither, and it is not known whether a hold is true
	// Assumed are the answers that the command line replaced on some machine.
	Assumed []Assumed `json:"assumed,omitempty"`
	// Causes are the inputs that differ from those of Against on some machine: files of the site, variables, objects.
	Causes   []string `json:"causes,omitempty"`
	Declares Declares `json:"declared_features,omitzero"`
	// Twins are node names that several machines would have. Only one of them can join.
	Twins  []Twin  `json:"twins,omitempty"`
	Groups []Group `json:"groups"`

	Common Group `json:"-"` // what all groups that change have; empty if fewer than two do

	groups map[string]*Group
}

// Twin is a node name with the machines that would have it.
type Twin struct {
	Node     string   `json:"node"`
	Machines []string `json:"machines"` // sorted
}

// Assumed is an answer that is not the machines' own.
type Assumed struct {
	Kind string `json:"kind"` // variable, object, ca or kubelet
	Name string `json:"name"`
	From string `json:"from"` // --var, a file, --objects, …
}

// Declares counts the nodes that would declare features in status.declaredFeatures, as far as feature gates decide.
type Declares struct {
	Nodes    int       `json:"nodes"`    // of which it is known
	Features []Feature `json:"features"` // sorted by name
}

// Feature is a feature with the nodes that would declare it.
type Feature struct {
	Name      string `json:"name"`
	Nodes     int    `json:"nodes"`
	ByRuntime bool   `json:"by_runtime,omitempty"` // only where the container runtime supports it
}

// Group is the machines with equal effect.
type Group struct {
	ID        string               `json:"id"`
	State     EffectKind           `json:"state"`
	Count     int                  `json:"count"`
	Degraded  int                  `json:"degraded"`
	Restarts  int                  `json:"kubelet_restarts"`      // machines whose kubelet is restarted
	Drains    int                  `json:"drains"`                // machines that must be drained first
	Waits     int                  `json:"wait_for_registration"` // nodes that have joined: labels or taints come later
	MayBeHeld int                  `json:"may_be_held"`           // of which it is not known whether a hold is true
	Changes   []compare.NodeChange `json:"changes"`
	Messages  []Message            `json:"diagnostics"` // of its first machine
	Machines  []Member             `json:"machines,omitempty"`

	Apart []Trait `json:"-"` // the fewest that no other group with changes has all of; nil: there are none
}

// Member is a machine of a group.
type Member struct {
	Source string     `json:"source"`
	Node   string     `json:"node,omitempty"`
	Code   fault.Code `json:"code,omitempty"`   // of a failure
	Reason string     `json:"reason,omitempty"` // of a failure, in one line
}

// NewReport returns a report without machines. Its lists are empty in JSON, not null.
func NewReport(version string) *FleetEffect {
	return &FleetEffect{
		FormatVersion: FormatVersion,
		Kind:          "fleet",
		PreletVersion: version,
		Groups:        []Group{},
	}
}

// Add adds a machine to the group with the same effect, or to a new one.
func (r *FleetEffect) Add(e Effect) {
	g := e.Group
	g.ID = e.signature()
	g.Count = 1
	g.Changes = orEmpty(e.Changes)
	g.Messages = orEmpty(e.Messages)
	g.Machines = []Member{e.Member}
	r.addGroup(g)
	r.addAssumed(e.Assumed)
	r.addCauses(e.Causes)
	if e.Declares != nil {
		r.Declares.add(*e.Declares)
	}
}

func (d *Declares) add(list []rules.Declaration) {
	d.Nodes++
	for _, f := range list {
		if f.Declared {
			d.addFeature(Feature{Name: f.Name, Nodes: 1, ByRuntime: f.ByRuntime})
		}
	}
}

// merge adds the features of other nodes.
func (d *Declares) merge(other Declares) {
	d.Nodes += other.Nodes
	for _, f := range other.Features {
		d.addFeature(f)
	}
}

func (d *Declares) addFeature(f Feature) {
	i, isKnown := slices.BinarySearchFunc(d.Features, f, func(a, b Feature) int {
		return cmp.Compare(a.Name, b.Name)
	})
	if !isKnown {
		d.Features = slices.Insert(d.Features, i, Feature{Name: f.Name})
	}
	known := &d.Features[i]
	known.Nodes += f.Nodes
	known.ByRuntime = known.ByRuntime || f.ByRuntime
}

// addAssumed adds those that are not known yet, sorted.
func (r *FleetEffect) addAssumed(all []Assumed) {
	for _, a := range all {
		if !slices.Contains(r.Assumed, a) {
			r.Assumed = append(r.Assumed, a)
		}
	}
	slices.SortStableFunc(r.Assumed, func(a, b Assumed) int {
		return cmp.Or(
			cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.From, b.From),
		)
	})
}

// addCauses adds those that are not known yet, sorted.
func (r *FleetEffect) addCauses(names []string) {
	r.Causes = slices.Concat(r.Causes, names)
	slices.Sort(r.Causes)
	r.Causes = slices.Compact(r.Causes)
}

func count(is bool) int {
	if is {
		return 1
	}

	return 0
}

// orEmpty returns a list that is [] in JSON, not null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}

	return list
}

// addGroup adds the machines of a group. The messages stay those of the first machine by name.
func (r *FleetEffect) addGroup(g Group) {
	if r.groups == nil {
		r.groups = map[string]*Group{}
	}
	r.Recordings += g.Count
	r.Degraded += g.Degraded
	switch g.State {
	case Changed:
		r.Changed += g.Count
	case Unchanged:
		r.Unchanged += g.Count
	case Unknown:
		r.Incomplete += g.Count
	case Failed:
		r.Failed += g.Count
	}

	known := r.groups[g.ID]
	if known == nil {
		r.groups[g.ID] = &g
		return
	}
	if g.Machines[0].Source < known.Machines[0].Source {
		known.Messages = g.Messages
		known.Machines[0], g.Machines[0] = g.Machines[0], known.Machines[0]
	}
	known.Count += g.Count
	known.Degraded += g.Degraded
	known.Restarts += g.Restarts
	known.Drains += g.Drains
	known.Waits += g.Waits
	known.MayBeHeld += g.MayBeHeld
	known.Machines = append(known.Machines, g.Machines...)
}

// Finish sorts groups and machines. Groups with more machines come first, those without a change and those that failed
// last.
func (r *FleetEffect) Finish() {
	r.Groups = []Group{}
	if r.Declares.Nodes > 0 {
		r.Declares.Features = orEmpty(r.Declares.Features)
	}
	for _, g := range r.groups {
		slices.SortStableFunc(g.Machines, func(a, b Member) int {
			return cmp.Compare(a.Source, b.Source)
		})
		r.Groups = append(r.Groups, *g)
	}

	order := []EffectKind{Changed, Unknown, Unchanged, Failed}
	slices.SortStableFunc(r.Groups, func(a, b Group) int {
		return cmp.Or(
			slices.Index(order, a.State)-slices.Index(order, b.State),
			b.Count-a.Count,
			cmp.Compare(a.Machines[0].Source, b.Machines[0].Source),
		)
	})
	r.countKeptAway()
	r.setTwins()
	r.setCommon()
	r.setApart()
}

// setTwins finds the node names that several machines would have.
func (r *FleetEffect) setTwins() {
	byNode := map[string][]string{}
	for _, g := range r.Groups {
		for _, m := range g.Machines {
			if m.Node != "" && m.Code == "" {
				byNode[m.Node] = append(byNode[m.Node], m.Source)
			}
		}
	}

	r.Twins = nil
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		if sources := byNode[node]; len(sources) > 1 {
			slices.Sort(sources)
			r.Twins = append(r.Twins, Twin{node, sources})
		}
	}
}

// countKeptAway counts the machines whose kubelet would be held, or of which that is not known, and those that would
// get a taint.
func (r *FleetEffect) countKeptAway() {
	r.Held, r.Tainted, r.KeptAway, r.MayBeHeld = 0, 0, 0, 0
	for _, g := range r.Groups {
		if g.State == Failed || g.State == Unknown { // which are counted as such
			continue
		}
		isHeld := g.IsHeld()
		isTainted := slices.ContainsFunc(g.Changes, func(c compare.NodeChange) bool {
			keepsAway := strings.HasSuffix(c.Name, ":NoSchedule") || strings.HasSuffix(c.Name, ":NoExecute")

			return c.Kind == "taint" && c.Action == "create" && keepsAway
		})
		r.Held += g.Count * count(isHeld)
		r.Tainted += g.Count * count(isTainted)
		r.KeptAway += g.Count * count(isHeld || isTainted)
		r.MayBeHeld += g.MayBeHeld * count(!isHeld && !isTainted)
	}
}

// IsHeld reports whether a hold of the site is true on the machines of a group.
func (g Group) IsHeld() bool {
	return slices.ContainsFunc(g.Messages, func(m Message) bool { return m.Code == string(fault.KubeletHeld) })
}

// Code returns the code of a command over this fleet: the one with the lowest exit status among the failures.
func (r *FleetEffect) Code() fault.Code {
	var lowest fault.Code
	for _, g := range r.Groups {
		for _, m := range g.Machines {
			lowest = fault.Lower(lowest, m.Code)
		}
	}

	return lowest
}

// WithoutNames returns the report without the names of machines that did not fail.
func (r *FleetEffect) WithoutNames() *FleetEffect {
	out := *r
	out.Groups = slices.Clone(r.Groups)
	for i, g := range out.Groups {
		if g.State != Failed {
			out.Groups[i].Machines = nil
		}
	}

	return &out
}
