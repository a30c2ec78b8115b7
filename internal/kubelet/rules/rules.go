// Package rules is what a kubelet refuses, and what it swallows without a word, of flags and a configuration: one entry
// a rule, with the versions that have it and where Kubernetes says so. It is pure, so that a site is judged on a laptop
// by the same rules as on the node. Each rule that can be run was run against a real kubelet (test/kube).
package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
)

// Severity says what is made of a finding.
type Severity string

// The severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Does says what the kubelet makes of it.
type Does string

// What a kubelet does.
const (
	Exits    Does = "exits"    // it does not start, or its Node is refused
	Swallows Does = "swallows" // it runs, and does not do what the text says, without a word that one would see
	Later    Does = "later"    // it does what the text says, and a later version will not
	Differs  Does = "differs"  // it does what the text says, and that is another thing than an older version did
)

// Rule is one thing that a kubelet minds, or should.
type Rule struct {
	ID           string
	Minds        string   // what it minds, in words
	Since, Until int      // minor versions: the first that has the rule, and the first that has it no more; 0: all
	Does         Does     // what the kubelet does
	Severity     Severity // what is made of it
	Alone        bool     // it judges each field for itself, so that a part of a configuration can be judged
	Source       string   // where Kubernetes says so; paths are those of k8s.io/kubernetes
	check        func(*look)
}

// Finding is one violation. Message has the kubelet's own words where it has any, so that the same refusal is recognised
// in its journal.
type Finding struct {
	Rule     string   `json:"rule"`
	Pointer  string   `json:"pointer,omitempty"` // RFC 6901, the field of the configuration
	Flag     string   `json:"flag,omitempty"`    // or the flag, without dashes
	Does     Does     `json:"does"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"` // what to do
	// Vague says that another version than the one that was assumed may be right: none was given, or one of which
	// nothing is known.
	Vague bool `json:"vague,omitempty"`
}

// Subject is a kubelet that is about to start.
type Subject struct {
	Config  *kubelet.Config // merged, drop-ins included; nil: unknown
	Part    bool            // Config is only a part: what it does not set may stand elsewhere
	Unset   []string        // of a part: pointers of what is certainly not there
	Flags   []Flag          // in their order; of several with one name the last counts
	Version string          // v1.36.3; "" where it is unknown, then the newest that is known here is taken
	Accepts *Accepts        // what the binary itself says; nil: not asked, then the tables tell
	Dir     string          // the folder of the file that Config is, which its relative paths begin at; "": unknown
	Machine *Machine        // nil: none at hand
	// DropInVariable says whether DropInVariable is set for the kubelet; nil: nobody knows.
	DropInVariable *bool
	// Refused says why a kubelet would not take a file of CAs, or, where key is not "", a certificate with that key; "" if it
	// would. told is false where nobody can tell, and where a file is not there. nil: nobody can.
	Refused func(cert, key string) (why string, told bool)
}

// Flag is one flag of the command line, its name without dashes.
type Flag struct{ Name, Value string }

// Accepts is what the --help of a binary lists.
type Accepts struct {
	Flags map[string]bool       // deprecated or not
	Gates map[string]known.Gate // alpha and beta ones
}

// Check judges a subject. No findings do not mean that it starts. They are sorted by place, then rule.
func Check(s Subject) []Finding {
	l := newLook(s)
	for _, r := range All() {
		if l.tooOld(r) {
			continue
		}
		l.rule = r
		l.fresh()
		r.check(l)
	}
	slices.SortStableFunc(l.found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Flag, b.Flag), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(l.found)
}

// All lists the rules.
func All() []Rule {
	return slices.Concat(flagRules(), fieldRules(), valueRules(), timeRules(), enforcementRules(), reservedRules(), evictionRules(),
		managerRules(), gateRules(), gatedRules(), servingRules(), otherRules(), machineRules())
}

// look is a judgement in progress.
type look struct {
	Subject
	whole  map[string]any    // the configuration with what flags say over it
	doc    map[string]any    // whole without the fields that this version does not have: it runs as if they were not there
	byFlag map[string]string // of its top-level fields those that a flag sets
	bad    []badFlag
	minor  int
	exact  bool // the version is given, and what it knows is known
	rule   Rule
	found  []Finding

	flagged map[string]bool // the fields that flags set, by their whole name

	// Of a part, what the judgement that is being made rests on.
	guessed bool // a field that may be set elsewhere
	gated   bool // a feature gate that is as by default, and may be set elsewhere
}

func newLook(s Subject) *look {
	oldest, newest := known.Range()
	l := &look{Subject: s, minor: newest}
	l.Flags = slices.Clone(s.Flags)
	for i := range l.Flags {
		l.Flags[i].Name = kubelet.FlagName(l.Flags[i].Name)
	}
	if m, ok := known.Minor(s.Version); ok && s.Version != "" {
		l.minor, l.exact = m, m >= oldest && m <= newest
	}
	if s.Config != nil {
		l.whole = s.Config.Object()
	}
	l.overlay()
	l.doc = l.knownOf("", l.whole)

	return l
}

// Effective returns the configuration that a kubelet works with: its own, with what flags say over it.
func Effective(s Subject) map[string]any { return newLook(s).doc }

// Knows reports whether the tables have a version: then they answer what its binary accepts.
func Knows(version string) bool { return newLook(Subject{Version: version}).exact }

// knownOf returns an object without the fields that the version does not have. at is its own name in the tables, "" for the
// root.
func (l *look) knownOf(at string, object map[string]any) map[string]any {
	if object == nil {
		return nil
	}

	out := map[string]any{}
	for name, v := range object {
		f, ok := known.FieldAt(strings.TrimPrefix(at+"."+name, "."), l.minor)
		if !ok {
			continue
		}
		out[name] = v
		if inner, isObject := v.(map[string]any); isObject && f.Type == known.Object {
			out[name] = l.knownOf(strings.TrimPrefix(at+"."+name, "."), inner)
		}
	}

	return out
}

func (l *look) tooOld(r Rule) bool {
	return l.minor < r.Since || r.Until > 0 && l.minor >= r.Until
}

// assumed is the minor version that a kubelet of which nobody knows the version is taken to have at least.
const assumed = 24

func (l *look) add(f Finding) {
	f.Rule, f.Does = l.rule.ID, l.rule.Does
	f.Severity = cmp.Or(f.Severity, l.rule.Severity)
	switch {
	case !l.Part || l.rule.Alone:
	case l.guessed:
		return
	case l.gated && f.Severity == Error:
		f.Severity, f.Vague = Warning, true
	}
	if l.Version == "" && (l.rule.Since > assumed || l.rule.Until > 0) && f.Severity == Error {
		f.Severity, f.Vague = Warning, true // an older one does not mind
	}
	l.found = append(l.found, f)
}

// fresh begins another judgement within a rule: what was read before has no part in it.
func (l *look) fresh() { l.guessed, l.gated = false, false }

// reads notes that a judgement rests on a field. Of a part, one that it does not set may be set elsewhere.
func (l *look) reads(path []string) {
	if l.Part && !l.settled(path) {
		l.guessed = true
	}
}

// settled says whether a part of a configuration decides what is at a path: it sets or removes that, or a list or value
// around it. Objects are merged, so an object itself is never settled, but as the value of a flag.
func (l *look) settled(path []string) bool {
	var at any = l.doc
	for i, name := range path {
		here := path[:i+1]
		if l.flagged[strings.Join(here, ".")] || slices.Contains(l.Unset, kubelet.Pointer(here...)) {
			return true
		}
		object, ok := at.(map[string]any)
		if !ok {
			return true
		}
		if at = object[name]; at == nil {
			return false
		}
	}
	_, isObject := at.(map[string]any)

	return !isObject
}

// at adds a finding about a field. One that a flag sets is the flag's.
func (l *look) at(path []string, hint, format string, args ...any) {
	f := Finding{Message: fmt.Sprintf(format, args...), Hint: hint}
	if name := l.byFlag[path[0]]; name != "" {
		f.Flag = name
	} else {
		f.Pointer = kubelet.Pointer(path...)
	}
	l.add(f)
}

// field is at for a path of one name.
func (l *look) field(name, hint, format string, args ...any) {
	l.at([]string{name}, hint, format, args...)
}

func (l *look) flag(name, hint, format string, args ...any) {
	l.add(Finding{Flag: name, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// version is the kubelet's, for messages.
func (l *look) version() string {
	if l.Version == "" {
		return fmt.Sprintf("1.%d", l.minor)
	}
	return strings.TrimPrefix(l.Version, "v")
}

// gate says whether a feature gate is on: as it is set, or by AllAlpha and AllBeta, or by default.
func (l *look) gate(name string) bool {
	set, _ := l.doc["featureGates"].(map[string]any)
	if on, ok := set[name].(bool); ok {
		return on
	}
	g, ok := l.gateOf(name)
	if l.Part && ok && !g.Locked {
		l.gated = true
	}
	if all, said := set[map[string]string{"alpha": "AllAlpha", "beta": "AllBeta"}[g.Stage]].(bool); said && !g.Locked {
		return all
	}
	return ok && g.On
}

func (l *look) gateOf(name string) (known.Gate, bool) {
	if l.Accepts != nil {
		if g, ok := l.Accepts.Gates[name]; ok {
			return g, true
		}
	}
	return known.GateAt(name, l.minor)
}

func choose(word string, allowed []string) string {
	if near := kubelet.Nearest(word, allowed); near != "" {
		return "did you mean " + near + "?"
	}
	return "write one of " + strings.Join(allowed, ", ")
}
