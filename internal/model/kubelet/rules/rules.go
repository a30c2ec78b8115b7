// Package rules lists the flags and fields that a kubelet rejects or silently ignores: one row per rule, with the
// Kubernetes versions that have it, its places, a condition and a message for each, and the source that proves it.
// Check applies all rules to a kubelet that is about to start, on its node or on a laptop. The package must not read
// anything itself: the caller provides all facts.
package rules

import (
	"cmp"
	"slices"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/tape"
)

// Severity is how serious a violation is for the caller.
type Severity string

// The severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Effect is the kubelet's reaction to a violated rule.
type Effect string

// The effects.
const (
	Exits      Effect = "exits"      // it does not start, or the API server rejects its Node
	Ignores    Effect = "ignores"    // it runs, and silently ignores the setting
	Deprecated Effect = "deprecated" // it follows the setting; a later version will not
	Differs    Effect = "differs"    // it does something else than an older version with the same configuration
	Ends       Effect = "ends"       // it runs on this machine; a later version does not start on it
	Places     Effect = "places"     // it runs; the scheduler places other pods on the node
)

// Rule is one rule of the table.
type Rule struct {
	ID       string
	Summary  string // what violates the rule
	Since    int    // the first minor version that has the rule; 0: all
	Until    int    // the first minor version that no longer has it; 0: none
	Effect   Effect
	Severity Severity
	Lists    bool   // it knows names, words or ranges of the versions in the tables; a newer one may accept more
	Source   string // the place in Kubernetes; paths are those of k8s.io/kubernetes
	checks   []placeCheck

	isInDryRun bool // a dry run of the kubelet's binary ends with it, unless the check is later
}

// placeCheck is one place, or several, with its conditions.
type placeCheck struct {
	where      string // see checker.places
	isLater    bool   // the kubelet finds it after the end of a dry run
	conditions []func(value) bool
	place      string         // that is reported; "": where
	hint       string         // the next step; a condition may set another
	message    string         // it quotes the kubelet; "" is {why}. For the names in braces see value.expand
	find       func(*checker) // instead of all others: reports violations that need more than a condition at a place
}

// Violation is one violation of a rule. Message quotes the kubelet where it prints anything, so that the same failure
// is recognised in its log.
type Violation struct {
	Rule      string
	Pointer   string // RFC 6901, the field of the configuration
	Flag      string // or the flag, without dashes
	Member    string // of a flag that is a map, the key: the feature gate of --feature-gates
	Effect    Effect
	Severity  Severity
	Message   string
	Hint      string // the next step
	InFile    bool   // it is in Subject.File, and drop-ins may hide it
	InDryRun  bool   // a dry run of the kubelet's binary ends with it
	Uncertain bool   // it depends on a version, a feature gate or a flag that is not known
	Newer     bool   // the kubelet is newer than the tables, and only they have this violation
}

// IsAboutName reports whether a violation is about the name of a field, and not about its value.
func (f Violation) IsAboutName() bool { return f.Rule == unknownField || f.Rule == otherVersion }

// Subject is a kubelet that is about to start.
type Subject struct {
	Config *kubelet.Config // merged, drop-ins included; nil: unknown
	File   *kubelet.Config // the file of --config, if drop-ins are merged over it; nil: Config
	Part   bool            // Config is only a part: fields that it does not set may be set elsewhere
	Unset  []string        // with Part: pointers of fields that are certainly not set
	Judged bool            // by a dry run of the kubelet's binary: what that finds is not checked
	Flags  []kubelet.Use   // see kubelet.Flags.Parsed; in their order; the last one of a name counts
	// MaySet reports whether a flag that is not among Flags may be set all the same, because a part of the command line
	// is not known; nil: all of it is known.
	MaySet  func(flag string) bool
	Version string           // v1.36.3; "" if unknown, then the newest known version is assumed
	Accepts *tape.AcceptsAns // the list of the binary itself; nil: unknown, then the tables decide
	Dir     string           // the folder of the configuration file, for relative paths; "": unknown
	Machine *MachineFacts    // nil: unknown
	// DropInVariable reports whether DropInVariable is set for the kubelet; nil: unknown.
	DropInVariable *bool
	// CheckFile returns why the kubelet would reject a file of CAs or, if key is not empty, a certificate with that
	// key; "" if it would not. isKnown is false for a missing file. A nil function knows nothing.
	CheckFile func(cert, key string) (why string, isKnown bool)
	// Plugins are the names in the configuration of image credential providers; PluginsRefused is why the kubelet
	// cannot read it.
	Plugins        []string
	PluginsRefused string
}

// Check returns all violations, sorted by place and rule. A kubelet without violations may still fail to start.
func Check(s Subject) []Violation { return CheckAll(s).Violations }

// Checked is the result of CheckAll.
type Checked struct {
	Violations []Violation
	// Unchecked are violations unless another part of the configuration sets a field that Subject.Config does not.
	Unchecked []Violation
}

// CheckAll returns the violations of Check, and what cannot be checked in a part of a configuration.
func CheckAll(s Subject) Checked {
	c := newChecker(s)
	for _, r := range All() {
		if c.minor >= r.Since && (r.Until == 0 || c.minor < r.Until) {
			c.apply(r)
		}
	}

	return Checked{sortViolations(c.violations), sortViolations(c.unchecked)}
}

// sortViolations sorts violations by place and rule, each once.
func sortViolations(all []Violation) []Violation {
	slices.SortStableFunc(all, compareViolations)

	return slices.Compact(all)
}

func compareViolations(a, b Violation) int {
	return cmp.Or(
		cmp.Compare(a.Pointer, b.Pointer),
		cmp.Compare(a.Flag, b.Flag),
		cmp.Compare(a.Rule, b.Rule),
		cmp.Compare(a.Message, b.Message),
	)
}

// Effective returns the configuration that a kubelet works with: its own, changed by its flags.
func Effective(s Subject) map[string]any { return newChecker(s).config }

// IsGateOn reports whether a feature gate of a kubelet is on: as it is set, by AllAlpha or AllBeta, or by default.
// isKnown is false where the version, or the configuration, is not known.
func IsGateOn(s Subject, name string) (isOn, isKnown bool) {
	c := newChecker(s)

	return c.isGateOn(name), c.hasTables && s.Config != nil
}

// SourceOf returns the place in Kubernetes of a rule; "" for an unknown one.
func SourceOf(id string) string {
	for _, r := range All() {
		if r.ID == id {
			return r.Source
		}
	}

	return ""
}
