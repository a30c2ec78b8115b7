package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/world"
)

// The effects of a newer kubelet in addition to those of rules.
const (
	Fails   rules.Effect = "fails"    // prelet has no plan with that version
	MayExit rules.Effect = "may-exit" // as rules.Exits, if the kubelet gets the setting
	Skews   rules.Effect = "skews"    // Kubernetes does not support it with that API server
	Changes rules.Effect = "changes"  // something else is on the node, or the kubelet takes another default
	Gates   rules.Effect = "gates"    // the version itself turns a feature gate of the kubelet on or off
)

// Upgrade is what newer kubelets do on the machines of a fleet, compared with the version that each has. As JSON it is
// the document of `prelet upgrade`.
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
	Failed      []Machine         `json:"failed"` // without a plan, so nothing is known of them
	Effects     []Upgraded        `json:"effects"`

	known   map[UpgradedItem]int   // places in Effects
	refused int                    // machines whose kubelet in place would not start
	changed map[[2]int][2][]string // fields and gates that differ between two minor versions
}

// Upgraded is a message or a change that comes with newer kubelets, and on how many machines.
type Upgraded struct {
	UpgradedItem

	Reason string   `json:"reason,omitempty"` // with the next step
	Source string   `json:"source,omitempty"` // where Kubernetes does that
	Lines  []string `json:"lines,omitempty"`  // of Example, as in a diff: its setting, and what replaces it
	// Counts has the number of machines for each version of Upgrade.Versions.
	Counts  []int   `json:"machines"`
	Example Machine `json:"example"` // the first one
}

// UpgradedItem is what an effect is about. It is equal for all versions and machines, although a reason may name the
// version.
type UpgradedItem struct {
	Effect  rules.Effect  `json:"effect"`
	Message Message       `json:"message,omitzero"`
	Change  Change        `json:"change,omitzero"` // if there is no message
	Rule    string        `json:"rule,omitempty"`  // the rule of the message
	Item    string        `json:"item,omitempty"`  // flag/NAME, or config/FIELD
	SetBy   string        `json:"set_by,omitempty"`
	Place   UpgradedPlace `json:"place,omitzero"`
}

// UpgradedPlace is where the item is set, or can be: a line of the site, and what the base has it from.
type UpgradedPlace struct {
	Site string `json:"site,omitempty"` // FILE:LINE
	origin.BasePlace
}

// NewUpgrade returns an empty report of the upgrades from a minor version, the oldest one in place, to another.
func NewUpgrade(prelet, server string, oldest, to int) *Upgrade {
	u := &Upgrade{
		FormatVersion: FormatVersion,
		Kind:          "upgrade",
		PreletVersion: prelet,
		To:            known.Version(to),
		Server:        server,
		Versions:      []string{},
		Prereleases:   map[string]string{},
		From:          map[string]int{},
		Failed:        []Machine{},
		Effects:       []Upgraded{},
		known:         map[UpgradedItem]int{},
		changed:       map[[2]int][2][]string{},
	}
	for minor := min(oldest+1, to); minor <= to; minor++ {
		u.Versions = append(u.Versions, known.Version(minor))
		if release := known.Prerelease(minor); release != "" {
			u.Prereleases[known.Version(minor)] = release
		}
	}

	return u
}

// AddFailed adds a machine whose recording or site has no plan.
func (u *Upgrade) AddFailed(source string, err error) {
	u.Machines++
	u.Failed = append(u.Failed, Machine{Source: source, Code: fault.CodeOf(err), Reason: err.Error()})
}

// Add adds a machine: the plan with its own kubelet, and those with newer ones, up to that of the last version. A
// machine of the last version has its own plan there too.
func (u *Upgrade) Add(source string, planned *boot.Plan, newer []*boot.Plan, r *world.Recording) {
	u.Machines++
	m := Machine{Source: source, Node: planned.NodeName()}
	minor, isKnown := known.Minor(planned.Kubelet.KnownVersion())
	to, _ := known.Minor(u.To)
	m.Code = codeOfSite(planned.Diagnostics)
	switch {
	case m.Code != "": // the version may not be known for that reason
		m.Reason = describeFailure(planned.Diagnostics)
	case !isKnown:
		m.Code = fault.Unread
		m.Reason = "the version of its kubelet is not known: record again on the node, or give --kubelet-version"
	case minor > to:
		m.Code = fault.Usage
		m.Reason = "its kubelet is " + known.Describe(minor) + " already, newer than --to: give " +
			known.Version(minor) + " or later; older kubelets are not compared"
	}
	if m.Code != "" {
		u.Failed = append(u.Failed, m)
		return
	}

	u.From[known.Version(minor)]++
	if planned.Diagnostics.HasErrors() {
		u.refused++
	}
	own := newNames(planned, r)
	for i, p := range newer {
		version := len(u.Versions) - len(newer) + i
		rows := append(u.compareSkew(u.Versions[version]), compareMessages(planned, p, own)...)
		if codeOfSite(p.Diagnostics) == "" { // else it is known up to its first error only
			rows = append(rows, compareIgnored(planned, p, own)...)
			rows = append(rows, compareNodes(planned, p, own)...)
			rows = append(rows, u.compareDefaults(planned, p)...)
		}
		counted := map[UpgradedItem]bool{} // several rules may refuse one setting: the first one counts
		for _, row := range rows {
			item := row.UpgradedItem
			item.Rule = ""
			if !counted[item] {
				u.count(row, version, m, planned, p)
			}
			counted[item] = true
		}
	}
}

// compareSkew returns that a version is newer than the API server, or too old for it.
// Source: https://kubernetes.io/releases/version-skew-policy/#kubelet
func (u *Upgrade) compareSkew(version string) []Upgraded {
	server, isKnown := known.Minor(u.Server)
	minor, _ := known.Minor(version)
	how := "newer than"
	next := "Upgrade the control plane first."
	if oldest := server - 3; minor < oldest {
		how = "more than three minor versions older than"
		next = "Upgrade to " + known.Version(oldest) + " or later."
	} else if minor <= server {
		isKnown = false
	}
	if !isKnown {
		return nil
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

func extra(d *hcl.Diagnostic) origin.Extra {
	e, _ := d.Extra.(origin.Extra)

	return e
}

// newUpgraded returns a diagnostic of a plan as an effect.
func newUpgraded(effect rules.Effect, d *hcl.Diagnostic, own names) Upgraded {
	e := extra(d)

	return Upgraded{
		UpgradedItem: UpgradedItem{
			Effect:  effect,
			Message: newMessage(d, own),
			Rule:    e.Rule,
			Item:    e.Item,
			SetBy:   own.replace(e.SetBy),
			Place:   UpgradedPlace{Site: place(d), BasePlace: e.At},
		},
		Reason: own.replace(d.Detail),
		Source: rules.SourceOf(e.Rule),
	}
}

// compareMessages returns the violations of rules that come with a version, and what stays deprecated or refused.
func compareMessages(old, planned *boot.Plan, own names) (rows []Upgraded) {
	before := map[origin.Extra]bool{}
	for _, d := range old.Diagnostics {
		e := extra(d)
		e.Note = false
		before[e] = true
	}
	for _, d := range planned.Diagnostics {
		e := extra(d)
		e.Note = false
		effect := rules.Effect(e.Effect)
		switch {
		case before[e] && effect != rules.Deprecated && effect != rules.Exits:
			continue
		case e.Rule == "" && d.Severity != hcl.DiagError:
			continue
		case e.Rule == "":
			effect = Fails
		case effect == rules.Exits && d.Severity != hcl.DiagError:
			effect = MayExit
		}
		rows = append(rows, newUpgraded(effect, d, own))
	}

	return rows
}

// compareIgnored returns the settings that the kubelet in place ignores, and that a newer one obeys. Fields that have
// no value, as kubeadm writes them, are left out.
func compareIgnored(old, planned *boot.Plan, own names) (rows []Upgraded) {
	isIgnored := func(e origin.Extra) bool { return rules.Effect(e.Effect) == rules.Ignores }
	stays := map[string]bool{}
	for _, d := range planned.Diagnostics {
		e := extra(d)
		stays[e.Item] = stays[e.Item] || isIgnored(e) || rules.Effect(e.Effect) == rules.Exits
	}
	for _, d := range old.Diagnostics {
		e := extra(d)
		name, isField := strings.CutPrefix(e.Item, "config/")
		hasNoValue := isField && isEmpty(lookUpField(planned, name))
		if isIgnored(e) && !stays[e.Item] && !hasNoValue {
			row := newUpgraded(rules.Differs, d, own)
			_, name, _ := strings.Cut(e.Item, "/")
			row.Message.Summary = "The kubelet would obey " + name
			row.Reason = "The kubelet in place ignores it (set by " + row.SetBy + "). Check its value, or remove it."
			rows = append(rows, row)
		}
	}

	return rows
}

// lookUpField returns a field like "memorySwap.swapBehavior" of a kubelet's effective configuration; nil if it is not
// set.
func lookUpField(p *boot.Plan, field string) any {
	value, _ := kubelet.LookUp(p.Node.Effective, "/"+strings.ReplaceAll(field, ".", "/"))

	return value
}

// isEmpty reports whether the kubelet takes its default for a value.
func isEmpty(value any) bool {
	object, isObject := value.(map[string]any)
	for _, member := range object {
		isObject = isObject && isEmpty(member)
	}

	return isObject || slices.Contains([]any{nil, "", "0", "0s", 0.0, int64(0)}, value)
}

// listLines returns the setting of an effect as its file has it and, of a flag that is deprecated or gone, the lines of
// the kubelet's configuration that replace it. Of a node with a file that not every user may read it returns none.
func (r Upgraded) listLines(old, planned *boot.Plan) (lines []string) {
	isPrivate := func(c boot.Change) bool { return c.Old.Private }
	field := strings.TrimPrefix(r.Item, "config/")
	sign := "- "
	switch {
	case r.Message.Summary == "", r.Effect == rules.Differs, r.Effect == rules.Places:
		return nil
	case slices.ContainsFunc(old.Changes, isPrivate):
		return nil
	}
	if name, isFlag := strings.CutPrefix(r.Item, "flag/"); isFlag {
		name, member, isMember := strings.Cut(name, "/")
		set, isSet := node.FindFlag(old.Node.Flags, name)
		if isMember {
			return listMember(set, member)
		}
		if isSet {
			lines = append(lines, "- --"+name+"="+set.Value)
		}
		minor, _ := known.Minor(old.Kubelet.KnownVersion())
		flag, _ := known.FlagAt(name, minor)
		later, _ := known.Minor(planned.Kubelet.KnownVersion())
		if _, stays := known.FlagAt(name, later); stays && r.Effect != rules.Deprecated {
			return lines
		}
		sign = "+ "
		field = flag.Field
	}
	value := lookUpField(old, field)
	written := kubelet.ConfigOf(map[string]any{})
	if value == nil || written.Set(strings.Split(field, "."), value) != nil {
		return lines
	}
	for line := range strings.Lines(string(written.Canonical())) {
		lines = append(lines, sign+strings.TrimSuffix(line, "\n"))
	}

	return lines
}

// listMember returns the line of one member of a flag that is a map, as of one of the feature gates.
func listMember(set node.Flag, name string) (lines []string) {
	for member := range strings.SplitSeq(set.Value, ",") {
		if strings.HasPrefix(strings.TrimSpace(member), name+"=") {
			lines = append(lines, "- --"+set.Name+"="+strings.TrimSpace(member))
		}
	}

	return lines
}

// compareNodes returns what differs on the node, what it leaves to pods, and the features that it declares.
func compareNodes(old, planned *boot.Plan, own names) (rows []Upgraded) {
	before, after := listLeft(old), listLeft(planned)
	if planned.Hash == "" || planned.Hash != old.Hash {
		maps.Copy(before, listNode(old))
		maps.Copy(after, listNode(planned))
	}
	for _, c := range compareItems(before, after) {
		c.From, c.To = own.replace(c.From), own.replace(c.To)
		rows = append(rows, Upgraded{UpgradedItem: UpgradedItem{Effect: Changes, Change: c}})
	}

	return rows
}

// listLeft returns what a node leaves to pods, and the features that it declares.
func listLeft(p *boot.Plan) node.Items {
	out := node.Items{}
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

	return out
}

// compareDefaults returns the defaults and feature gates of a kubelet that an older one has too, and that differ. Gates
// that the kubelet does not read itself are left out.
func (u *Upgrade) compareDefaults(old, planned *boot.Plan) (rows []Upgraded) {
	from, isKnown := known.Minor(old.Kubelet.KnownVersion())
	to, isNewKnown := known.Minor(planned.Kubelet.KnownVersion())
	if !isKnown || !isNewKnown || old.Node.Effective == nil || planned.Node.Effective == nil {
		return nil
	}
	changed, isListed := u.changed[[2]int{from, to}]
	if !isListed {
		isOthers := func(gate string) bool { return !known.IsGateRead(gate, from) && !known.IsGateRead(gate, to) }
		changed = [2][]string{
			known.ChangedFields(from, to),
			slices.DeleteFunc(known.ChangedGates(from, to), isOthers),
		}
		u.changed[[2]int{from, to}] = changed
	}

	list := func(config map[string]any, minor int) node.Items {
		out := node.Items{}
		fields, gates := rules.Defaults(config, minor, changed[0], changed[1])
		for name, text := range fields {
			out.Set("default", name, text)
		}
		for name, isOn := range gates {
			out.Set("gate", name, isOn)
		}
		return out
	}
	for _, c := range compareItems(list(old.Node.Effective, from), list(planned.Node.Effective, to)) {
		row := Upgraded{UpgradedItem: UpgradedItem{Effect: Gates, Change: c}}
		isNewGate := c.Kind == "gate" && c.Action == "create" && c.To == "true"
		switch {
		case c.Action != "update" && !isNewGate:
			continue
		case c.Kind == "default":
			row.Effect = Changes
			row.Item = "config/" + c.Name
			row.SetBy = "the kubelet's default"
			row.Place.Site = placeOfConfig(planned)
			row.Reason = "The configuration does not set this field, and its default has changed. Set it to choose."
			row.Source = "pkg/kubelet/apis/config/v1beta1/defaults.go"
		}
		rows = append(rows, row)
	}

	return rows
}

// placeOfConfig returns where the site declares the kubelet's configuration; "" if it does not.
func placeOfConfig(p *boot.Plan) string {
	for _, f := range p.Node.Files {
		if f.Purpose == "kubelet-config" {
			return placeAt(origin.FirstRange(f.Origins))
		}
	}

	return ""
}

// count counts a machine that has an effect with a version.
func (u *Upgrade) count(row Upgraded, version int, m Machine, old, planned *boot.Plan) {
	at, isKnown := u.known[row.UpgradedItem]
	if !isKnown {
		at = len(u.Effects)
		u.known[row.UpgradedItem] = at
		row.Lines = row.listLines(old, planned)
		row.Counts = make([]int, len(u.Versions))
		row.Example = m
		u.Effects = append(u.Effects, row)
	}
	u.Effects[at].Counts[version]++
}

// UpgradeEffects returns the effects in the order in which they are printed, from worst to least.
func UpgradeEffects() []rules.Effect {
	return []rules.Effect{
		rules.Exits,
		Fails,
		MayExit,
		Skews,
		rules.Ends,
		rules.Ignores,
		rules.Differs,
		rules.Places,
		Changes,
		Gates,
		rules.Deprecated,
	}
}

// Finish sorts the effects, and leaves out the versions that every machine has passed, but not the last one.
func (u *Upgrade) Finish() {
	passed := slices.IndexFunc(u.Versions, func(version string) bool { return u.From[previous(version)] > 0 })
	if passed < 0 { // all have the last one
		passed = len(u.Versions) - 1
	}
	u.Versions = u.Versions[passed:]
	for i := range u.Effects {
		u.Effects[i].Counts = u.Effects[i].Counts[passed:]
	}

	order := UpgradeEffects()
	slices.SortStableFunc(u.Effects, func(a, b Upgraded) int {
		return cmp.Or(
			slices.Index(order, a.Effect)-slices.Index(order, b.Effect),
			a.First()-b.First(),
			cmp.Compare(a.Message.Summary, b.Message.Summary),
			cmp.Compare(a.Message.Place, b.Message.Place),
			cmp.Compare(a.Change.Kind, b.Change.Kind),
			compareChanges(a.Change, b.Change),
			cmp.Compare(a.Reason, b.Reason),
		)
	})
}

// previous returns the minor version before another one.
func previous(version string) string {
	minor, _ := known.Minor(version)

	return known.Version(minor - 1)
}

// First returns the index of the first version with the effect.
func (r Upgraded) First() int {
	return slices.IndexFunc(r.Counts, func(n int) bool { return n > 0 })
}

// Breaks reports whether some machine would not start.
func (u *Upgrade) Breaks() bool {
	return slices.ContainsFunc(u.Effects, func(r Upgraded) bool {
		return r.Effect == Fails || r.Effect == rules.Exits
	})
}

// ChangesNodes reports whether something would differ on some machine in addition to the feature gates of a version.
func (u *Upgrade) ChangesNodes() bool {
	return slices.ContainsFunc(u.Effects, func(r Upgraded) bool {
		return r.Effect != rules.Deprecated && r.Effect != Gates
	})
}

// Altered returns the fields and feature gates that a kubelet has otherwise in another plan for its machine.
func Altered(old, planned *boot.Plan) (names []string) {
	const ofGates = "featureGates"
	var gates []string
	for _, p := range []*boot.Plan{old, planned} {
		set, _ := p.Node.Effective[ofGates].(map[string]any)
		gates = slices.AppendSeq(gates, maps.Keys(set))
	}
	minor, _ := known.Minor(old.Kubelet.KnownVersion())
	list := func(p *boot.Plan) node.Items {
		out := node.Items{}
		for field, value := range p.Node.Effective {
			out.Set("field", field, value)
		}
		delete(out, node.Item{Kind: "field", Name: ofGates})
		_, isOn := rules.Defaults(p.Node.Effective, minor, nil, gates)
		for name, on := range isOn {
			out.Set("gate", name, on)
		}
		return out
	}
	for _, c := range compareItems(list(old), list(planned)) {
		names = append(names, c.Name)
	}

	return names
}

// Worse reports whether more machines than in another report have no plan, or a kubelet in place that would not start.
func (u *Upgrade) Worse(than *Upgrade) bool {
	return len(u.Failed) > len(than.Failed) || u.refused > than.refused
}

// Code returns the code with the lowest exit status among the machines without a plan; "" if there is none.
func (u *Upgrade) Code() (lowest fault.Code) {
	for _, m := range u.Failed {
		lowest = fault.Lower(lowest, m.Code)
	}

	return lowest
}
