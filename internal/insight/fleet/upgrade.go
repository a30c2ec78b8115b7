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
)

// Upgrade is what newer kubelets do on the machines of a fleet, compared with the version that each has. As JSON it is
// the document of `prelet upgrade`.
type Upgrade struct {
	FormatVersion int      `json:"format_version"`
	Kind          string   `json:"kind"` // upgrade
	PreletVersion string   `json:"prelet_version"`
	To            string   `json:"to"`               // 1.38
	Server        string   `json:"server,omitempty"` // the API server's minor version
	Versions      []string `json:"versions"`         // the minor versions after the oldest one in place, to To
	// Prereleases has, of versions that are not out, the release from which they are known: 1.38.0-alpha.2.
	Prereleases map[string]string `json:"prereleases,omitempty"`
	From        map[string]int    `json:"from"` // how many machines have a minor version
	Machines    int               `json:"machines"`
	Failed      []Machine         `json:"failed"` // without a plan, so nothing is known of them
	Effects     []Upgraded        `json:"effects"`

	known   map[upgradeKey]int     // places in Effects
	refused int                    // machines whose kubelet in place would not start
	changed map[[2]int][2][]string // fields and gates that differ between two minor versions
}

// Upgraded is a message or a change that comes with newer kubelets, and on how many machines.
type Upgraded struct {
	Effect  rules.Effect `json:"effect"`
	Message *Message     `json:"message,omitempty"`
	Item    string       `json:"item,omitempty"`   // that a message is about: flag/NAME, or config/FIELD
	SetBy   string       `json:"set_by,omitempty"` // the stage, ConfigMap or file that has the item
	Reason  string       `json:"reason,omitempty"` // of a message: with the next step
	Source  string       `json:"source,omitempty"` // where Kubernetes does that
	Lines   []string     `json:"lines,omitempty"`  // of Example, as in a diff: its setting, and what replaces it
	Change  *Change      `json:"change,omitempty"`
	// Counts has the number of machines for each version of Upgrade.Versions.
	Counts  []int   `json:"machines"`
	Example Machine `json:"example"` // the first one
}

// upgradeKey identifies an effect: one message for all versions, although its reason may name the version.
type upgradeKey struct {
	effect  rules.Effect
	item    string // of a message, as Upgraded.Item and SetBy
	setBy   string
	message Message
	change  Change
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
		known:         map[upgradeKey]int{},
		changed:       map[[2]int][2][]string{},
	}
	for minor := oldest + 1; minor <= to; minor++ {
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

// Add adds a machine: the plan with its own kubelet, and those with newer ones, up to that of the last version.
func (u *Upgrade) Add(source string, planned *boot.Plan, newer []*boot.Plan, r *world.Recording) {
	u.Machines++
	own := newNames(planned, r)
	m := Machine{Source: source, Node: planned.NodeName()}
	minor, isKnown := known.Minor(planned.Kubelet.KnownVersion())
	if code := codeOfSite(planned.Diagnostics); code != "" || !isKnown {
		m.Code = cmp.Or(code, fault.Unread)
		m.Reason = cmp.Or(
			describeFailure(planned.Diagnostics),
			"the version of its kubelet is not known: record again on the node, or give --kubelet-version",
		)
		u.Failed = append(u.Failed, m)
		return
	}
	u.From[known.Version(minor)]++
	if planned.Diagnostics.HasErrors() {
		u.refused++
	}

	before := map[origin.Extra]bool{}
	for _, d := range planned.Diagnostics {
		e := extra(d)
		e.Note = false
		before[e] = true
	}
	for i, p := range newer {
		at := len(u.Versions) - len(newer) + i
		u.addSkew(at, m)
		u.addMessages(at, m, before, planned, p, own)
		if codeOfSite(p.Diagnostics) == "" { // else it is known up to its first error only
			u.addChanges(at, m, planned, p, own)
		}
	}
}

// addSkew adds that a version is newer than the API server, or too old for it.
// Source: https://kubernetes.io/releases/version-skew-policy/#kubelet
func (u *Upgrade) addSkew(version int, m Machine) {
	server, isKnown := known.Minor(u.Server)
	minor, _ := known.Minor(u.Versions[version])
	how := "newer than"
	next := "Upgrade the control plane first."
	if oldest := server - 3; minor < oldest {
		how = "more than three minor versions older than"
		next = "Upgrade to " + known.Version(oldest) + " or later."
	} else if minor <= server {
		isKnown = false
	}
	if !isKnown {
		return
	}

	key := upgradeKey{effect: Skews, message: Message{
		Severity: "warning",
		Summary:  "The kubelet would be " + how + " the API server, which is " + u.Server,
	}}
	u.count(key, version, Upgraded{
		Reason:  "Kubernetes does not support that. " + next,
		Source:  "https://kubernetes.io/releases/version-skew-policy/#kubelet",
		Example: m,
	})
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

// addMessages adds the violations of rules that come with a version, and what stays deprecated. before has the
// diagnostics of the version in place.
func (u *Upgrade) addMessages(
	version int, m Machine, before map[origin.Extra]bool, old, planned *boot.Plan, own names,
) {
	counted := map[upgradeKey]bool{} // several rules may refuse one setting
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

		key := upgradeKey{effect: effect, item: e.Item, setBy: e.SetBy, message: newMessage(d, own)}
		if counted[key] {
			continue
		}
		counted[key] = true
		first := Upgraded{
			Item:    e.Item,
			SetBy:   own.replace(e.SetBy),
			Reason:  own.replace(d.Detail),
			Source:  rules.SourceOf(e.Rule),
			Example: m,
		}
		if _, isKnown := u.known[key]; !isKnown && effect != rules.Differs && effect != rules.Places {
			first.Lines = listLines(e.Item, effect, old, planned)
		}
		u.count(key, version, first)
	}
}

// listLines returns a setting as its file has it and, of a flag that is deprecated or gone, the lines of the kubelet's
// configuration that replace it. Of a node with a file that not every user may read it returns none.
func listLines(item string, effect rules.Effect, old, planned *boot.Plan) (lines []string) {
	isPrivate := func(c boot.Change) bool { return c.Old.Private }
	if slices.ContainsFunc(old.Changes, isPrivate) {
		return nil
	}
	sign := "- "
	field := strings.TrimPrefix(item, "config/")
	if name, isFlag := strings.CutPrefix(item, "flag/"); isFlag {
		name, _, _ = strings.Cut(name, "/")
		if set, isSet := node.FindFlag(old.Node.Flags, name); isSet {
			lines = append(lines, "- --"+name+"="+set.Value)
		}
		minor, _ := known.Minor(old.Kubelet.KnownVersion())
		flag, _ := known.FlagAt(name, minor)
		later, _ := known.Minor(planned.Kubelet.KnownVersion())
		if _, stays := known.FlagAt(name, later); stays && effect != rules.Deprecated {
			return lines
		}
		sign = "+ "
		field = flag.Field
	}

	path := strings.Split(field, ".")
	value, isSet := kubelet.LookUp(old.Node.Effective, "/"+strings.Join(path, "/"))
	written := kubelet.ConfigOf(map[string]any{})
	if !isSet || written.Set(path, value) != nil {
		return lines
	}
	for line := range strings.Lines(string(written.Canonical())) {
		lines = append(lines, sign+strings.TrimSuffix(line, "\n"))
	}

	return lines
}

// addChanges adds what differs on the node, and the defaults and feature gates of its kubelet.
func (u *Upgrade) addChanges(version int, m Machine, old, planned *boot.Plan, own names) {
	before, after := listLeft(old), listLeft(planned)
	if planned.Hash == "" || planned.Hash != old.Hash {
		maps.Copy(before, listNode(old))
		maps.Copy(after, listNode(planned))
	}
	changes := append(compareItems(before, after), u.compareDefaults(old, planned)...)
	for _, c := range changes {
		c.From, c.To = own.replace(c.From), own.replace(c.To)
		u.count(upgradeKey{effect: Changes, change: c}, version, Upgraded{Example: m})
	}
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

// compareDefaults returns the defaults and feature gates of a kubelet that an older one has too, and that differ.
func (u *Upgrade) compareDefaults(old, planned *boot.Plan) []Change {
	from, isKnown := known.Minor(old.Kubelet.KnownVersion())
	to, isNewKnown := known.Minor(planned.Kubelet.KnownVersion())
	if !isKnown || !isNewKnown || old.Node.Effective == nil || planned.Node.Effective == nil {
		return nil
	}
	changed, isListed := u.changed[[2]int{from, to}]
	if !isListed {
		changed = [2][]string{known.ChangedFields(from, to), known.ChangedGates(from, to)}
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

	changes := compareItems(list(old.Node.Effective, from), list(planned.Node.Effective, to))

	return slices.DeleteFunc(changes, func(c Change) bool { return c.Action != "update" })
}

// count counts a machine that has an effect with a version. first is the row of a new effect.
func (u *Upgrade) count(key upgradeKey, version int, first Upgraded) {
	at, isKnown := u.known[key]
	if !isKnown {
		at = len(u.Effects)
		u.known[key] = at
		first.Effect = key.effect
		first.Counts = make([]int, len(u.Versions))
		if key.message != (Message{}) {
			first.Message = &key.message
		} else {
			first.Change = &key.change
		}
		u.Effects = append(u.Effects, first)
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
		rules.Deprecated,
	}
}

// Finish sorts the effects, and leaves out the versions that every machine has passed.
func (u *Upgrade) Finish() {
	passed := slices.IndexFunc(u.Versions, func(version string) bool { return u.From[previous(version)] > 0 })
	if passed < 0 {
		passed = len(u.Versions)
	}
	u.Versions = u.Versions[passed:]
	for i := range u.Effects {
		u.Effects[i].Counts = u.Effects[i].Counts[passed:]
	}

	order := UpgradeEffects()
	slices.SortStableFunc(u.Effects, func(a, b Upgraded) int {
		return cmp.Or(
			slices.Index(order, a.Effect)-slices.Index(order, b.Effect),
			a.first()-b.first(),
			cmp.Compare(a.name(), b.name()),
			cmp.Compare(a.Reason, b.Reason),
		)
	})
}

// previous returns the minor version before another one.
func previous(version string) string {
	minor, _ := known.Minor(version)

	return known.Version(minor - 1)
}

// first returns the index of the first version with the effect.
func (r Upgraded) first() int {
	return slices.IndexFunc(r.Counts, func(n int) bool { return n > 0 })
}

func (r Upgraded) name() string {
	if r.Message != nil {
		return r.Message.Summary + "\x00" + r.Message.Place
	}

	return strings.Join([]string{r.Change.Kind, r.Change.Name, r.Change.Action, r.Change.From, r.Change.To}, "\x00")
}

// Breaks reports whether some machine would not start, and ChangesNodes whether something would differ on some.
func (u *Upgrade) Breaks() bool {
	return slices.ContainsFunc(u.Effects, func(r Upgraded) bool {
		return r.Effect == Fails || r.Effect == rules.Exits
	})
}

// ChangesNodes reports whether something would differ on some machine.
func (u *Upgrade) ChangesNodes() bool {
	return slices.ContainsFunc(u.Effects, func(r Upgraded) bool { return r.Effect != rules.Deprecated })
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
