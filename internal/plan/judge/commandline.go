package judge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/hostfiles"
)

// ownFlags is the place of the words in the flags file that the site writes: the node has their origins.
const ownFlags = "the flags file"

const (
	labelsFlag = "node-labels"
	gatesFlag  = "feature-gates"
)

// listWords returns the command line of a node's kubelet, each word with its place, as systemd passes it: each rule
// about a flag is applied to it, whatever sets the flag.
func listWords(n desired.Node) []kubelet.Word {
	own := listOwnWords(n)
	if isUnused(n) {
		own = nil
	}
	if line := n.Inherited.Line; line.AsOne && len(own) != 1 {
		var texts []string
		for _, w := range own {
			texts = append(texts, w.Text)
		}
		own = []kubelet.Word{{Text: strings.Join(texts, " "), From: ownFlags}}
	}

	return slices.Concat(n.Inherited.Line.Before, own, n.Inherited.Line.After)
}

// isUnused reports whether the kubelet's unit is known not to pass the words of the flags file, as a warning of the
// stage that writes it says. A planned file of the unit may change that.
func isUnused(n desired.Node) bool {
	line := n.Inherited.Line

	return line.IsKnown && !line.IsPassed && len(hostfiles.ListUnitFiles(n)) == 0
}

// listOwnWords returns the words of the flags file; without one, as in a check, those of the node's own flags.
func listOwnWords(n desired.Node) (words []kubelet.Word) {
	add := func(text string) {
		words = append(words, kubelet.Word{Text: text, From: ownFlags, Open: secret.HasPlaceholder(text)})
	}
	if file, isPlanned := n.FindPurpose("kubelet-flags"); isPlanned {
		if file.Argv == nil {
			return n.Inherited.Line.Hidden
		}
		for _, text := range file.Argv {
			add(text)
		}

		return words
	}

	for _, f := range n.Flags {
		if !f.Inherited {
			add("--" + f.Name + "=" + f.Written())
		}
	}

	return words
}

// maySet reports whether a flag that the plan does not know may be set: another program or file may add it.
func (j checker) maySet(flag string) bool {
	in := j.Node.Inherited

	return in.Partly || in.Line.Assumed || j.flags.MayHave(flag) || len(hostfiles.ListUnitFiles(j.Node)) > 0
}

// findUse returns the last use of a flag that sets the item of a violation.
func findUse(flags *kubelet.Flags, f rules.Violation) (found kubelet.Use) {
	for _, u := range flags.Uses() {
		if u.Name == f.Flag && (found.Name == "" || strings.Contains(u.Value, f.Member)) {
			found = u
		}
	}

	return found
}

// checkStray refuses words that are neither flags nor values of flags.
func (j checker) checkStray() {
	stray := j.flags.Stray()
	if isUnused(j.Node) {
		stray = append(stray, kubelet.FlagsOf(listOwnWords(j.Node)).Stray()...)
	}
	for _, w := range stray {
		set := j.makeInherited(w.From, w.Assumed)
		if w.From == ownFlags {
			set.name, set.place = j.nameBase(rules.Violation{Flag: labelsFlag}, "kubelet-flags")
			set.isAssumed = !j.Node.Inherited.Line.IsPassed
		}
		j.Report(refuseStray(w.Text, set))
	}
}

// warnHidden warns of flags that the kubelet loses, because the flags file sets the variable that they are in.
func (j checker) warnHidden() {
	file, isPlanned := j.Node.FindPurpose("kubelet-flags")
	for _, w := range j.Node.Inherited.Line.Hidden {
		if w.Open && w.Assumed { // it may have no flag at all
			continue
		}
		if isPlanned && file.Argv != nil && w.From != file.Path {
			j.Warn(fault.Conflict, file.FindDeclaration(), "The kubelet would lose the flags of "+w.From,
				"They are in the variable that %s sets, and systemd uses that. Write them into the site's flags, or "+
					"name another variable in kubelet_flags.", file.Path)

			return
		}
	}
}

// refuseStray returns the message about a word that is not a flag: a warning if the kubelet may not get it.
func refuseStray(word string, set setter) *hcl.Diagnostic {
	report := origin.Error
	if set.isAssumed {
		report = origin.Warning
	}

	hint := ""
	if strings.HasPrefix(word, "#") { // the words behind it have the same cause
		hint = "A # inside the quotes does not begin a comment. "
	}

	return report(fault.FlagsInvalid, set.at, fmt.Sprintf("%q is not a flag", word),
		"The kubelet would exit with \"unknown command\" (set by %s). %sRemove it there.", set.name, hint)
}
