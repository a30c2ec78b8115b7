package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/compare"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// The effects of a newer kubelet in addition to those of rules.
const (
	Fails   rules.Effect = "fails"    // prelet has no plan with that version
	MayExit rules.Effect = "may-exit" // as rules.Exits, if the kubelet gets the setting
	Skews   rules.Effect = "skews"    // Kubernetes does not support it with that API server
	Changes rules.Effect = "changes"  // something else is on the node, or the kubelet takes another default
	Gates   rules.Effect = "gates"    // the version itself turns a feature gate of the kubelet on or off
)

// Upgrade has the effects of newer kubelets on the machines of a fleet, compared with the version that each has. As
// JSON it is the document of `prelet upgrade`.
type Upgrade struct {
	FormatVersion int      `json:"format_version"`
	Kind          string   `json:"kind"` // upgrade
	PreletVersion string   `json:"prelet_version"`
	To            string   `json:"to"`               // 1.38
	Server        string   `json:"server,omitempty"` // the API server's minor version
	Versions      []string `json:"versions"`         // the minor versions after the oldest in place, at least To
	// Prereleases has, of versions that are not out, the release from which they are known: 1.38.0-alpha.2.
	Prereleases map[string]string `json:"prereleases,omitempty"`
	From        map[string]int    `json:"from"` // how many machines have a minor version
	Machines    int               `json:"machines"`
	Failed      []Member          `json:"failed"` // without a plan, so nothing is known of them
	Effects     []Upgraded        `json:"effects"`

	known   map[UpgradedItem]int   // places in Effects
	changed map[[2]int][2][]string // fields and gates that differ between two minor versions
}

// Upgraded is a message or a change that comes with newer kubelets, and on how many machines.
type Upgraded struct {
	UpgradedItem

	Reason string   `json:"reason,omitempty"` // with the next step
	Source string   `json:"source,omitempty"` // where Kubernetes does that
	Lines  []string `json:"lines,omitempty"`  // of Example, as in a diff: its setting, and what replaces it
	// Counts has the number of machines for each version of Upgrade.Versions.
	Counts  []int  `json:"machines"`
	Example Member `json:"example"` // the first one
}

// UpgradedItem is the item of an effect. It is equal for all versions and machines, although a reason may name the
// version.
type UpgradedItem struct {
	Effect  rules.Effect       `json:"effect"`
	Message Message            `json:"message,omitzero"`
	Change  compare.NodeChange `json:"change,omitzero"` // only without a message
	Rule    string             `json:"rule,omitempty"`  // the rule of the message
	Item    string             `json:"item,omitempty"`  // flag/NAME, or config/FIELD
	SetBy   string             `json:"set_by,omitempty"`
	Place   UpgradedPlace      `json:"place,omitzero"`
}

// UpgradedPlace is the place where the item is set or can be set: a line of the site, and the file of the base.
type UpgradedPlace struct {
	Site string `json:"site,omitempty"` // FILE:LINE
	origin.BasePlace
}

// UpgradedMachine is a machine with its plans.
type UpgradedMachine struct {
	Source    string
	Planned   *evaluate.Plan
	Newer     []*evaluate.Plan // with newer kubelets, up to that of the last version; of that version Planned itself
	Recording *tape.Recording
	Err       error // why the machine could not be planned
}

// NewUpgrade returns an empty report of the upgrades to a minor version. server is the version of the API server; "":
// it is not known.
func NewUpgrade(prelet, server string, to int) *Upgrade {
	u := &Upgrade{
		FormatVersion: FormatVersion,
		Kind:          "upgrade",
		PreletVersion: prelet,
		To:            known.Version(to),
		Prereleases:   map[string]string{},
		From:          map[string]int{},
		Failed:        []Member{},
		Effects:       []Upgraded{},
		known:         map[UpgradedItem]int{},
		changed:       map[[2]int][2][]string{},
	}
	if minor, isKnown := known.Minor(server); isKnown {
		u.Server = known.Version(minor)
	}
	oldest, _ := known.Range()
	for minor := min(oldest+1, to); minor <= to; minor++ {
		u.Versions = append(u.Versions, known.Version(minor))
		if release := known.Prerelease(minor); release != "" {
			u.Prereleases[known.Version(minor)] = release
		}
	}

	return u
}

func (u *Upgrade) Add(m UpgradedMachine) {
	u.Machines++
	if m.Err != nil {
		u.Failed = append(u.Failed, Member{Source: m.Source, Code: fault.CodeOf(m.Err), Reason: m.Err.Error()})
		return
	}
	minor, isKnown := known.Minor(m.Planned.Kubelet.KnownVersion())
	to, _ := known.Minor(u.To)
	one := Member{Source: m.Source, Node: m.Planned.NodeName(), Code: codeOfSite(m.Planned.Diagnostics)}
	switch {
	case one.Code != "": // the version may not be known for that reason
		one.Reason = describeFailure(m.Planned.Diagnostics)
	case !isKnown:
		one.Code = fault.Unread
		one.Reason = "the version of its kubelet is not known: record again on the node, or give --kubelet-version"
	case minor > to:
		one.Code = fault.Usage
		one.Reason = "kubelet " + known.Describe(minor) +
			" is newer than --to: write --to with a version after it"
	}
	if one.Code != "" {
		u.Failed = append(u.Failed, one)
		return
	}

	u.From[known.Version(minor)]++
	own := newNames(m.Planned, m.Recording)
	for i, p := range m.Newer {
		version := len(u.Versions) - len(m.Newer) + i
		to, _ := known.Minor(u.Versions[version])
		step := upgradeStep{minor, to, m.Planned, p, m.Recording, own}
		rows := append(u.compareSkew(to), step.compareMessages()...)
		if codeOfSite(p.Diagnostics) == "" { // else it is known up to its first error only
			rows = slices.Concat(rows, step.compareIgnored(), u.compareNodes(step))
		}
		counted := map[UpgradedItem]bool{} // several rules may refuse one setting: the first one counts
		for _, row := range rows {
			item := row.UpgradedItem
			item.Rule = ""
			if counted[item] {
				continue
			}
			counted[item] = true
			at, isKnown := u.known[row.UpgradedItem]
			if !isKnown {
				at = len(u.Effects)
				u.known[row.UpgradedItem] = at
				row.Lines = step.listLines(row)
				row.Counts = make([]int, len(u.Versions))
				row.Example = one
				u.Effects = append(u.Effects, row)
			}
			u.Effects[at].Counts[version]++
		}
	}
}

// compareSkew returns that a version is newer than the API server, or too old for it.
// Source: https://kubernetes.io/releases/version-skew-policy/#kubelet
func (u *Upgrade) compareSkew(minor int) []Upgraded {
	server, isKnown := known.Minor(u.Server)
	oldest := server - 3
	how := "newer than"
	next := "Upgrade the control plane first."
	switch {
	case !isKnown || oldest <= minor && minor <= server:
		return nil
	case minor < oldest:
		how = "more than three minor versions older than"
		next = "Upgrade to " + known.Version(oldest) + " or later."
	}

	return []Upgraded{{
		UpgradedItem: UpgradedItem{Effect: Skews, Message: Message{
			Severity: "warning",
			Summary:  "The kubelet would be " + how + " the API server, which is " + u.Server,
		}},
		Reason: "Kubernetes does not support that. " + next,
		Source: "https://kubernetes.io/releases/version-skew-policy/#kubelet",
	}}
}

// codeOfSite returns the code of the first error that is not of a rule of the kubelet; "" for none.
func codeOfSite(diags hcl.Diagnostics) fault.Code {
	for _, d := range diags {
		if d.Severity == hcl.DiagError && extra(d).Rule == "" {
			return origin.CodeOf(d)
		}
	}

	return ""
}

// extra returns the details of a diagnostic that do not depend on the kubelet's version.
func extra(d *hcl.Diagnostic) origin.Extra {
	e, _ := d.Extra.(origin.Extra)
	e.Code = origin.CodeOf(d)
	e.Note = false

	return e
}

// upgradeStep is the upgrade of one machine from one minor version to another.
type upgradeStep struct {
	from, to     int
	old, planned *evaluate.Plan
	recording    *tape.Recording
	own          names
}

// newUpgraded returns a diagnostic of a plan as an effect.
func (s upgradeStep) newUpgraded(effect rules.Effect, d *hcl.Diagnostic) Upgraded {
	e := extra(d)

	return Upgraded{
		UpgradedItem: UpgradedItem{
			Effect:  effect,
			Message: newMessage(d, s.own),
			Rule:    e.Rule,
			Item:    e.Item,
			SetBy:   s.own.replace(e.SetBy),
			Place:   UpgradedPlace{Site: place(d), BasePlace: e.At},
		},
		Reason: s.own.replace(d.Detail),
		Source: rules.SourceOf(e.Rule),
	}
}

// compareMessages returns the violations of rules that come with a version, and what stays deprecated or refused.
func (s upgradeStep) compareMessages() (rows []Upgraded) {
	added := findAdded(s.old.Diagnostics, s.planned.Diagnostics, s.own, s.own)
	for _, d := range s.planned.Diagnostics {
		e := extra(d)
		effect := rules.Effect(e.Effect)
		switch {
		case !slices.Contains(added, d) && effect != rules.Deprecated && effect != rules.Exits:
			continue
		case e.Rule == "" && d.Severity != hcl.DiagError:
			continue
		case e.Rule == "":
			effect = Fails
		case effect == rules.Exits && d.Severity != hcl.DiagError:
			effect = MayExit
		}
		row := s.newUpgraded(effect, d)
		if effect == MayExit {
			row.Message.Summary = strings.Replace(row.Message.Summary, "would not start", "may not start", 1)
		}
		rows = append(rows, row)
	}

	return rows
}

// compareIgnored returns the settings that the current kubelet ignores, and that a newer one obeys. Fields that have
// no value, as kubeadm writes them, are left out.
func (s upgradeStep) compareIgnored() (rows []Upgraded) {
	for _, d := range findAdded(s.planned.Diagnostics, s.old.Diagnostics, s.own, s.own) {
		e := extra(d)
		kind, name, _ := strings.Cut(e.Item, "/")
		hasNoValue := kind == "config" && isEmpty(lookUpField(s.planned.Node.Effective, name))
		stays := slices.ContainsFunc(s.planned.Diagnostics, func(d *hcl.Diagnostic) bool { // by another rule
			other := extra(d)
			return other.Item == e.Item && (other.Effect == e.Effect || rules.Effect(other.Effect) == rules.Exits)
		})
		if rules.Effect(e.Effect) == rules.Ignores && !stays && !hasNoValue {
			row := s.newUpgraded(rules.Differs, d)
			row.Message.Summary = "The kubelet would obey " + name
			row.Reason = "The current kubelet ignores it (set by " + row.SetBy + "). Check its value, or remove it."
			rows = append(rows, row)
		}
	}

	return rows
}

// lookUpField returns a field like "memorySwap.swapBehavior" of a configuration; nil if it is not set.
func lookUpField(config map[string]any, field string) any {
	value, _ := kubelet.LookUp(config, "/"+strings.ReplaceAll(field, ".", "/"))

	return value
}

// isEmpty reports whether the kubelet takes its default for a value.
func isEmpty(value any) bool {
	object, isObject := value.(map[string]any)
	for _, member := range object {
		isObject = isObject && isEmpty(member)
	}

	return isObject || slices.Contains([]string{"<nil>", "", "0", "0s"}, fmt.Sprint(value))
}

// listLines returns the setting of an effect as its file has it and, of a flag that is deprecated or gone, the lines of
// the kubelet's configuration that replace it. It returns none of a file that not every user may read.
func (s upgradeStep) listLines(r Upgraded) (lines []string) {
	isListed := r.Message.Summary != "" && r.Effect != rules.Differs && r.Effect != rules.Places
	if !isListed || s.isPrivate(r.Place.File) {
		return nil
	}
	field := strings.TrimPrefix(r.Item, "config/")
	sign := "- "
	if name, isFlag := strings.CutPrefix(r.Item, "flag/"); isFlag {
		name, member, isMember := strings.Cut(name, "/")
		set, isSet := desired.FindFlag(s.old.Node.Flags, name)
		members := []string{set.Value}
		if isMember { // of a flag that is a map, as one of the feature gates
			members = strings.Split(set.Value, ",")
			member += "="
		}
		for _, value := range members {
			if isSet && strings.HasPrefix(strings.TrimSpace(value), member) {
				lines = append(lines, "- --"+name+"="+strings.TrimSpace(value))
			}
		}
		flag, _ := known.FlagAt(name, s.from)
		if _, stays := known.FlagAt(name, s.to); isMember || stays && r.Effect != rules.Deprecated {
			return lines
		}
		sign = "+ "
		field = flag.Field
	}
	value := lookUpField(kubelet.WithoutSecrets(s.old.Node.Effective), field)
	written := kubelet.ConfigOf(map[string]any{})
	if value == nil || written.Set(strings.Split(field, "."), value) != nil {
		return lines
	}
	for line := range strings.Lines(string(written.Canonical())) {
		lines = append(lines, sign+strings.TrimSuffix(line, "\n"))
	}

	return lines
}

// isPrivate reports whether not every user may read a file from which the plan is made.
func (s upgradeStep) isPrivate(file string) bool {
	ctx := s.old.Eval.AskContext()
	a, _, _ := tape.Original.Ask(ctx, s.recording.Source(), tape.OriginalReq{Path: file}) // no answer: it is not

	return a.Private
}

// compareNodes returns the differences of the node, and of the properties that follow from its kubelet's version.
func (u *Upgrade) compareNodes(s upgradeStep) (rows []Upgraded) {
	versions := [2]int{s.from, s.to}
	if _, isListed := u.changed[versions]; !isListed {
		u.changed[versions] = [2][]string{known.ChangedFields(s.from, s.to), known.ChangedGates(s.from, s.to)}
	}

	changed := u.changed[versions]
	if s.old.Node.Effective == nil || s.planned.Node.Effective == nil {
		changed = [2][]string{}
	}
	before := compare.PlanState(s.old, listOwn(s.old, s.from, changed))
	after := compare.PlanState(s.planned, listOwn(s.planned, s.to, changed))
	for _, c := range s.own.replaceIn(compare.Changes(before, after)) {
		row := Upgraded{UpgradedItem: UpgradedItem{Effect: Changes, Change: c}}
		isInBoth := c.Action == "update" || c.Kind == "gate" && c.Action == "create" && c.To == "true"
		switch c.Kind {
		case "gate":
			row.Effect = Gates
		case "default":
			row.Item = "config/" + c.Name
			row.SetBy = "the kubelet's default"
			row.Place.Site = placeOfConfig(s.planned)
			row.Reason = "The configuration does not set this field, so the new default applies. " +
				"Set it to keep the old one."
			row.Source = "pkg/kubelet/apis/config/v1beta1/defaults.go"
		default:
			isInBoth = true
		}
		if isInBoth {
			rows = append(rows, row)
		}
	}

	return rows
}

// listOwn returns the properties of a plan that follow from the kubelet's version: the allocatable resources, the
// declared features, and the defaults of some unset fields and of some feature gates.
func listOwn(p *evaluate.Plan, minor int, changed [2][]string) compare.Items {
	out := compare.Items{}
	if r := p.Node.Reserved; r != nil {
		for name, amount := range r.Allocatable {
			out.Set("allocatable", name, amount)
		}
	}
	if p.Declares != nil {
		for _, f := range *p.Declares {
			if f.Declared {
				out.Set("feature", f.Name, "declared")
			}
		}
	}
	defaults, isOn := rules.Defaults(p.Node.Effective, minor, changed[0], changed[1])
	for name, text := range defaults {
		out.Set("default", name, text)
	}
	for name, on := range isOn {
		out.Set("gate", name, on)
	}

	return out
}

// placeOfConfig returns where the site declares the kubelet's configuration; "" if it does not.
func placeOfConfig(p *evaluate.Plan) string {
	f, _ := p.Node.FindPurpose("kubelet-config")

	return placeAt(origin.DecidingRange(f.Origins))
}

// UpgradeGroup is the heading of an effect.
type UpgradeGroup struct {
	Effect  rules.Effect
	Heading string
}

// UpgradeGroups returns the effects in the order in which they are printed, from worst to least.
func UpgradeGroups() []UpgradeGroup {
	return []UpgradeGroup{
		{rules.Exits, "The kubelet would not start"},
		{Fails, "There would be no plan"},
		{MayExit, "The kubelet may not start"},
		{Skews, "Not supported with this API server"},
		{rules.Ends, "A later kubelet would not start"},
		{rules.Ignores, "Silently ignored"},
		{rules.Differs, "Changed meaning"},
		{rules.Places, "Other pods would be placed"},
		{Changes, "Changes on the node"},
		{Gates, "Feature gates that a version turns on or off"},
		{rules.Deprecated, "Deprecated"},
	}
}

// Oldest returns the oldest minor version in place; that of To where none is known.
func (u *Upgrade) Oldest() string {
	return slices.Min(append(slices.Collect(maps.Keys(u.From)), u.To))
}

// Finish sorts the effects, and leaves out the versions that every machine has passed, but not the last one.
func (u *Upgrade) Finish() {
	passed := min(slices.Index(u.Versions, u.Oldest())+1, len(u.Versions)-1)
	u.Versions = u.Versions[passed:]
	for i := range u.Effects {
		u.Effects[i].Counts = u.Effects[i].Counts[passed:]
	}

	order := map[rules.Effect]int{}
	for i, g := range UpgradeGroups() {
		order[g.Effect] = i
	}
	slices.SortStableFunc(u.Effects, func(a, b Upgraded) int {
		return cmp.Or(
			order[a.Effect]-order[b.Effect],
			a.First()-b.First(),
			cmp.Compare(a.Message.Summary, b.Message.Summary),
			a.Change.Compare(b.Change),
		)
	})
}

// First returns the index of the first version with the effect.
func (r Upgraded) First() int {
	return slices.IndexFunc(r.Counts, func(n int) bool { return n > 0 })
}

// worst returns the worst effect after Finish; rules.Deprecated if there is none.
func (u *Upgrade) worst() rules.Effect {
	if len(u.Effects) == 0 {
		return rules.Deprecated
	}

	return u.Effects[0].Effect
}

// Breaks reports whether some machine would not start.
func (u *Upgrade) Breaks() bool { return u.worst() == rules.Exits || u.worst() == Fails }

// ChangesNodes reports whether something would differ on some machine in addition to the feature gates of a version.
func (u *Upgrade) ChangesNodes() bool { return u.worst() != Gates && u.worst() != rules.Deprecated }

// Code returns the code with the lowest exit status among the machines without a plan; "" if there is none.
func (u *Upgrade) Code() (lowest fault.Code) {
	for _, m := range u.Failed {
		lowest = fault.Lower(lowest, m.Code)
	}

	return lowest
}
