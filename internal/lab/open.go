package lab

import (
	"cmp"
	"context"
	"os"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"maps"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/rehearsal"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/nodefile"

	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/dryrun"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/unitflags"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/hostfiles"
)

// Node is a node that a person asks about: this machine, a recording of one, or recorded hardware.
type Node struct {
	*machine.Node
	env       *machine.Env
	given     *Given
	Recorded  *tape.Recording   // answers the questions; nil: this machine, or recorded hardware
	asked     *rehearsal.Source // nil where every answer is the node's
	rehearsed *probe.Live       // answers for recorded hardware without a recording; else nil
}

// Open opens the node of a request: request, site, variables, the source of answers. store may be nil; it stays the
// caller's, as the node is: see Close.
func Open(e *machine.Env, r Request, store *generation.Store) (*Node, error) {
	g, err := Read(e, r)
	if err != nil {
		return nil, err
	}

	return OpenMachine(e, g, r.From, store)
}

// OpenMachine opens one node of a request: that of a recording or of recorded hardware, or this machine for "".
func OpenMachine(e *machine.Env, g *Given, machine string, store *generation.Store) (*Node, error) {
	own := g.At(machine)
	var recorded *tape.Recording
	var err error
	if own == g {
		recorded, err = ReadRecording(machine)
	} else {
		err = checkFacts(own.Hardware)
	}
	if err != nil {
		return nil, err
	}

	return OpenWorld(e, own, recorded, store), nil
}

// OpenWorld opens one node of a request: that of a recording, or this machine for nil.
func OpenWorld(e *machine.Env, g *Given, recorded *tape.Recording, store *generation.Store) *Node {
	l := g.siteOf(e, recorded)
	n := &Node{Node: e.NewNode(g.Where, l, store), env: e, given: g, Recorded: recorded}
	unknown := machine.LearnSite(e.Redactor, g.Values, l.Site)
	switch {
	case recorded != nil:
		n.Source = recorded.Source()
		n.Options.Finished = n.Askers.Finish // the recording may have the answer
	case g.isRehearsed:
		n.openRehearsed()
	default:
		n.OpenLive(g.Values, g.KubeletVersion == "")
	}
	if n.Live == nil || g.KubeletVersion != "" || len(g.Binaries) > 0 {
		n.rehearse()
	}
	if g.runtime != nil {
		if n.Runtime == nil { // of this machine not all may be read, and of others only the plan is known
			n.Runtime = &dryrun.RuntimeAsker{Root: rehearsal.NoRoot, Redactor: e.Redactor}
		}
		n.Runtime.Binary = g.runtime
	}
	if !l.Diags.HasErrors() && !g.IsOlder {
		n.Found = append(n.Found, unknown...)
	}

	return n
}

// Close closes connections and temporary folders, but not the store.
func (n *Node) Close() {
	n.Node.Close()
	if n.rehearsed != nil {
		n.rehearsed.Close()
	}
}

// Plan is that of machine.Node, with a note of each assumption.
func (n *Node) Plan(ctx context.Context, event func(evaluate.StageReport)) *evaluate.Plan {
	p := n.Node.Plan(ctx, event)
	n.describeRehearsal(p)

	return p
}

// PlanUnless is Plan with the diagnostics of opening the node. Where they have an error, it does not plan.
func (n *Node) PlanUnless(ctx context.Context) *evaluate.Plan {
	p := n.Node.PlanUnless(ctx)
	if !n.Found.HasErrors() {
		n.describeRehearsal(p)
	}

	return p
}

// describeRehearsal adds to a plan the assumptions made in place of answers, and a warning for each flag without an
// effect.
func (n *Node) describeRehearsal(p *evaluate.Plan) {
	if n.asked == nil {
		return
	}

	if !n.given.isRehearsed { // else it is in place of no answer
		p.Assumed = n.asked.ListAssumed()
	}
	if f := n.asked.WhyNoKubelet(); f != nil && n.given.Test == nil {
		p.Diagnostics = append(
			p.Diagnostics,
			origin.Warning(fault.Usage, hcl.Range{}, "--kubelet-version is not used",
				"The answer about the kubelet is missing, so no version can be put into it: %s.",
				strings.TrimSuffix(f.Why, ".")),
		)
	}
	if n.asked.IgnoresObjects() && n.given.Test == nil {
		p.Diagnostics = append(
			p.Diagnostics,
			origin.Warning(fault.Usage, hcl.Range{}, "No object of --objects is used",
				"%s has no object that the site fetches, so all is as recorded.", n.Objects),
		)
	}
}

// View returns a plan of the node for the printer. source is the recording, if there are several.
func (n *Node) View(p *evaluate.Plan, source string) printer.View {
	v := printer.View{
		Plan:       p,
		Version:    n.env.Version,
		Generation: n.Generation(),
		Source:     source,
		References: n.given.References,
		CheckedBy:  printer.ByRules,
	}
	if p.DryRun != nil {
		v.CheckedBy = p.DryRun.Program
	}

	return v
}

// rehearse puts the values of flags in place of answers of the recording, and those about the kubelet in place of this
// machine's, which has the others.
func (n *Node) rehearse() {
	binaries := dryrun.AskBinaries(n.given.Binaries, n.env.Redactor.String)
	n.asked = cmp.Or(n.given.Test, &rehearsal.Source{})
	n.asked.Recording = n.Source
	n.asked.Site = n.Site
	n.asked.Kubelet = n.given.KubeletVersion
	n.asked.Binaries = binaries
	if n.given.Test != nil && n.Recorded != nil {
		n.asked.Without.Recorded = n.Recorded.Entries
	}
	if n.Recorded != nil || n.given.isRehearsed {
		n.asked.Given = n.given.Values
		if n.Objects != "" && n.Recorded != nil {
			n.asked.Objects = probe.Objects(n.Objects)
		}
	} else if len(n.given.Binaries) > 0 && n.IsHere() && os.Geteuid() == 0 {
		unit := unitflags.KubeletUnit{Root: nodefile.Root(n.Root), Name: hostfiles.KubeletUnit(n.Site)}
		if _, err := unit.Read(); err == nil { // it has the kubelet's command line
			for _, a := range binaries {
				a.Root = unit.Root
				a.Secret = n.Secret
				a.Folder = machine.FolderForDryRuns()
			}
		}
	}
	maps.Copy(n.Askers, binaries)
	n.Source = n.asked
}

// openRehearsed opens recorded hardware as the source of answers, with no files, as a test does.
func (n *Node) openRehearsed() {
	n.rehearsed = probe.New(probe.Sources{
		Root:     n.Root,
		Hardware: n.Hardware,
		Site:     n.Site,
		Redactor: n.env.Redactor,
		Now:      rehearsal.TimeOfRoot,
	})
	objects := rehearsal.SampleObjects()
	switch {
	case n.given.Test != nil && n.given.Test.Objects != nil:
		objects, n.given.Test.Objects = n.given.Test.Objects, nil
	case n.Objects != "":
		objects = probe.Objects(n.Objects)
	}
	locks := n.Where
	locks.Root = rehearsal.NoRoot
	n.Source = rehearsal.HermeticNode{
		Node:    n.rehearsed,
		Objects: objects,
		Locks:   n.env.DetectorHost(locks),
		Site:    n.Site,
	}
}
