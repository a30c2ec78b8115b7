// Package judge decides whether the installed kubelet would start with a finished node, and use all of it: AskBinary by
// a dry run of its binary, CheckRules by the rules for what that does not cover, with warnings of a machine that
// lacks something for a kubelet (host.go). AskRuntime asks whether the container runtime accepts the files that a plan
// changes. The package asks through the tape only, and starts nothing.
package judge

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/blame"
	"github.com/prelet/prelet/internal/plan/effective"
	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/stages"
)

// Case is a finished node, and the known state of its machine.
type Case struct {
	stages.Inputs    // of every stage
	Site             *lang.Site
	Tape             *tape.Tape            // nil in a check
	Binary           *tape.Tape            // asks the kubelet's binary; nil: it is not asked
	IsAskedElsewhere bool                  // it is asked on other sample machines, whose base is known
	Finished         func(FinishedKubelet) // gets the kubelet before the binary is asked; nil: it is not asked
	Unit             string                // of the kubelet
	Node             desired.Node
	Files            *effective.Files // nil: a stage has reported why they cannot be merged
	Accepts          *tape.AcceptsAns // nil: the binary was not asked, or did not answer
	Advises          bool             // also about settings of the base that do not matter yet
}

type checker struct {
	Case
	*origin.Collector

	verdict   *tape.DryRunAns // nil: the kubelet's binary was not asked, or did not answer
	pointers  []string        // of the fields that stages set, sorted
	flags     *kubelet.Flags  // of the whole command line, see listWords
	effective rules.Subject   // the kubelet with the configuration that it works with, flags included
}

// CheckRules reports the flags and fields of the finished node that the installed kubelet rejects or silently ignores.
// Each finding is at the place where the site sets the rejected item. declares are the features that the node will
// declare, as far as feature gates decide; nil if they are not known.
//
// Inputs: the finished node, the kubelet's version and what its binary accepts, facts; through the tape, whether
// files exist and certificates can be used. Fails where the kubelet would not start. Items that a recording was never
// asked for are not checked.
func (in Case) CheckRules(ctx context.Context, verdict *tape.DryRunAns) (
	declares *[]rules.Declaration, found origin.Collector,
) {
	j := checker{
		Case:      in,
		Collector: &found,
		verdict:   verdict,
		pointers:  slices.Sorted(maps.Keys(in.Node.ConfigOrigins)),
		effective: in.makeInstalled(),
	}
	c := kubelet.NewConfig()
	if j.Node.Effective != nil && c.Merge(j.Node.Effective) == nil {
		j.effective.Config = c
	}
	if list, isKnown := rules.Declarations(j.effective); isKnown {
		declares = &list
	}
	j.checkSizes()
	if j.Files == nil {
		return declares, found
	}

	j.flags = kubelet.FlagsOf(listWords(j.Node))
	j.check(ctx)
	j.checkStray()
	j.warnHidden()
	j.checkDropIns()
	j.checkStub(ctx)
	j.Report(hostfiles.CheckWatchdog(j.Node, j.effective, j.Start, blame.FindWriter(j.Site))...)
	j.Report(hostfiles.CheckFeatures(j.Node)...)
	j.checkHost(ctx)
	j.Report(hostfiles.CheckSystemFiles(j.Node, func(path string) bool {
		exists, isKnown := j.pathExists(ctx, path)
		return isKnown && !exists
	})...)

	return declares, found
}

// checkSizes refuses files that are too large to be written, and too many of them: each generation keeps them all.
func (j checker) checkSizes() {
	const next = "Install large files with the image, or by another program."
	total := 0
	for _, f := range j.Node.Files {
		size := len(f.Text.Template())
		total += size
		if size > nodefile.MaxContent {
			j.Error(fault.Limit, f.FindDeclaration(), f.Path+" is too large",
				"It has %d bytes, and a file may have %d. %s", size, nodefile.MaxContent, next)
		}
	}
	if total > 2*nodefile.MaxContent && len(j.Diags) == 0 {
		largest := slices.MaxFunc(j.Node.Files, func(a, b desired.File) int {
			return cmp.Compare(len(a.Text.Template()), len(b.Text.Template()))
		})
		j.Error(fault.Limit, largest.FindDeclaration(), "The files of this node are too large",
			"All of them have %d bytes, and may have %d. %s is the largest. %s",
			total, 2*nodefile.MaxContent, largest.Path, next)
	}
}

// checkStub warns of a resolvConf that leads to systemd-resolved's stub: it listens on a loopback address of the
// node, which is another address inside a pod. A recording that is older than the target of a link has no target.
func (j checker) checkStub(ctx context.Context) {
	const stub = "stub-resolv.conf"
	value, _ := j.Files.Merged.Config.Get("/resolvConf")
	file, _ := value.(string)
	if file == "" || j.Tape == nil {
		return
	}
	a, _, err := tape.Exists.Ask(ctx, j.Tape, tape.ExistsReq{Path: file})
	if path.Base(file) != stub && (err != nil || path.Base(a.Target) != stub) {
		return
	}

	j.Warn(
		fault.ConfigInvalid, origin.LastRange(j.Node.ConfigOrigins["/resolvConf"]),
		"Pods would use systemd-resolved's stub",
		"resolvConf is %s, which is %s: its server is 127.0.0.53, "+
			"and nothing listens on that address inside a pod, "+
			"so CoreDNS and pods with the node's DNS cannot resolve names. "+
			"Write /run/systemd/resolve/resolv.conf, as kubeadm does, or leave resolvConf out.",
		file, stub,
	)
}

// checkDropIns reports drop-ins of others with which the kubelet does not start.
func (j checker) checkDropIns() {
	for _, d := range j.Files.DropIns {
		switch {
		case d.Refusal == nil:
		case d.Path == j.Files.Folder:
			j.diagnose(rules.Violation{
				Flag: "config-dir", Severity: rules.Error, Effect: rules.Exits,
				Message: d.Path + ": " + d.Refusal.Error(), Hint: "create the folder, or remove the flag",
			})
		default:
			j.Error(
				fault.ConfigInvalid, j.findFileRange("kubelet-config"), "The kubelet would not start with "+d.Path,
				"%s", stages.Sentence(d.Refusal.Error(), "Fix the file, or remove it"),
			)
		}
	}
}

func (j checker) check(ctx context.Context) {
	kinds := map[violationKind]int{}
	var rest []rules.Violation // the first one of each kind that is not printed
	subject := j.makeSubject(ctx)
	subject.Judged = j.isJudgedByBinary()
	var newer []string
	result := rules.CheckAll(subject)
	violations := result.Violations
	if v := j.verdict; v != nil && !v.Accepted {
		violations = j.reportRefusal(v, violations)
	}
	for _, f := range violations {
		if f.Newer {
			newer = append(newer, nameItem(f)+": "+f.Message+" (set by "+j.findSetter(f).name+")")
			continue
		}
		kind := kindOf(f)
		kinds[kind]++
		if n := kinds[kind]; n > manyViolations && !j.Advises {
			if n == manyViolations+1 {
				rest = append(rest, f)
			}
			continue
		}
		j.diagnose(f)
	}

	for _, f := range rest {
		kind := kindOf(f)
		f.Message = fmt.Sprintf("%d more like these", kinds[kind]-manyViolations)
		f.Hint = ""
		f.Member = ""
		if f.Flag == "" {
			f.Pointer = kind.parent
		}
		j.diagnose(f)
	}

	j.describeNewer(subject.Version, newer)
	j.describeUnchecked(result.Unchecked)
}

// UncheckedSummary is the first line of the note about fields that are not checked without the base.
const UncheckedSummary = "Some fields are not checked without the cluster's kubelet configuration"

// describeUnchecked reports the site's fields whose check depends on fields of a base that is not known.
func (j checker) describeUnchecked(unchecked []rules.Violation) {
	var items []string
	for _, f := range unchecked {
		if !j.findSetter(f).isBase {
			items = append(items, nameItem(f)+": "+f.Message)
		}
	}
	if len(items) == 0 {
		return
	}

	j.Note(
		fault.ConfigInvalid, j.findFileRange("kubelet-config"), UncheckedSummary,
		"Unless that configuration has what they need, the kubelet refuses or ignores them: %s. To check them, give "+
			"the ConfigMaps of the cluster with --objects DIR.", joinSome(items),
	)
}

// joinSome returns a text with some of many items, and the number of the others.
func joinSome(items []string) string {
	if n := len(items) - manyViolations; n > 0 {
		items = append(items[:manyViolations], fmt.Sprintf("%d more", n))
	}

	return strings.Join(items, "; ")
}

// NewerSummary begins the first line of the message about a kubelet that is newer than the tables.
const NewerSummary = "prelet knows kubelets to"

// describeNewer reports a kubelet that is newer than the tables, with the items that they refuse or do not know, a
// kubelet that was not released when the tables were made, and a kubelet that is older than they are.
func (j checker) describeNewer(version string, items []string) {
	minor, isVersion := known.Minor(version)
	oldest, _ := known.Range()
	summary := NewerSummary + " " + known.Describe(known.Newest())
	at := j.findFileRange("kubelet-config")
	switch {
	case isVersion && minor < oldest:
		j.Note(
			fault.KubeletFlag, at, "prelet knows kubelets from "+known.Version(oldest),
			"The kubelet is %s, and is checked as that version.", strings.TrimPrefix(version, "v"),
		)

		return
	case !known.IsNewer(version) && known.Prerelease(minor) == "":
		return
	case !known.IsNewer(version):
		j.Note(
			fault.KubeletFlag, at, summary,
			"What it refuses in that version was read in %s, and may change until the version is out.",
			known.Prerelease(minor),
		)

		return
	case len(items) == 0:
		j.Note(
			fault.KubeletFlag, at, summary,
			"The kubelet is %s. What only that version has is not checked.", strings.TrimPrefix(version, "v"),
		)

		return
	}

	j.Warn(
		fault.KubeletFlag, at, summary,
		"The kubelet is %s, and may accept what those refuse: %s. Use a prelet that knows this version, or check "+
			"each against the kubelet.", strings.TrimPrefix(version, "v"), joinSome(items),
	)
}

// manyViolations is how many violations of one kind are printed. The others are counted.
const manyViolations = 10

// violationKind identifies equal findings: the keys of one map, or the flags, that break one rule.
type violationKind struct {
	rule     string
	severity rules.Severity
	parent   string // pointer of the map or list; of flags: "."
}

func kindOf(f rules.Violation) violationKind {
	return violationKind{f.Rule, f.Severity, path.Dir(f.Pointer)}
}
