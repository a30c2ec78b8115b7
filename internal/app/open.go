package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/app/dryrun"
	"github.com/prelet/prelet/internal/app/rehearsal"
	"github.com/prelet/prelet/internal/app/waits"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/detector"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/printer"
	"github.com/prelet/prelet/internal/probe"
	"github.com/prelet/prelet/internal/world"
)

// Node is a site with the source that answers its questions.
type Node struct {
	*Given
	env       *Env
	Site      *lang.Site
	Found     hcl.Diagnostics  // while it was opened; where they have errors, there is nothing to plan
	Recorded  *world.Recording // answers the questions; nil: this machine does
	Source    world.Source
	Live      *probe.Live   // nil with a recording
	Asker     *dryrun.Asker // of the installed kubelet, nil if that is not asked
	askers    dryrun.Askers
	Detectors *detector.Host          // nil with a recording
	asked     *rehearsal.Source       // nil where every answer is the node's
	Store     *generation.Store       // nil where it could not be opened
	past      func() *world.LastGood  // the last good generation's recording; nil where none counts
	waits     *waits.Reporter         // prints each wait; nil with a recording
	rehearsed *probe.Live             // answers in a rehearsal without a recording; else nil
	units     Manager                 // to be closed; nil where another has it, or there is none
	Machine   func() machineid.Hashes // read once
	Only      hclsyntax.Expression    // see boot.RunInput
	isHere    bool                    // the node is this machine
	IsPartial bool                    // see boot.RunInput
	Advises   bool                    // see boot.RunInput
	Explains  bool                    // see boot.RunInput
	checks    *boot.Checks            // of the site
}

// Open opens what a command works on: given → layers → variables → world → site. store may be nil; it stays the
// caller's, as the node is: see Close.
func (e *Env) Open(w Where, store *generation.Store) (*Node, error) {
	g, err := e.Read(w)
	if err != nil {
		return nil, err
	}

	return e.OpenMachine(g, w.From, store)
}

// OpenMachine opens one node of what was given: that of a recording or of recorded hardware, or this machine for "".
func (e *Env) OpenMachine(g *Given, machine string, store *generation.Store) (*Node, error) {
	own := g.At(machine)
	var recorded *world.Recording
	if own == g {
		var err error
		if recorded, err = ReadRecording(machine); err != nil {
			return nil, err
		}
	}

	return e.OpenWorld(own, recorded, store), nil
}

// OpenWorld opens one node of what was given: that of a recording, or this machine for nil.
func (e *Env) OpenWorld(g *Given, recorded *world.Recording, store *generation.Store) *Node {
	l := g.siteOf(e, recorded)
	n := &Node{
		Given:    g,
		env:      e,
		Store:    store,
		Site:     l.Site,
		Found:    slices.Clone(l.Diags), // those of a site may be of several nodes
		Recorded: recorded,
		askers:   dryrun.Askers{},
		checks:   &l.checks,
		isHere:   g.Root == "" && g.Hardware == "" || e.On != nil,
		Machine: sync.OnceValue(func() machineid.Hashes {
			if g.Hardware != "" {
				return machineid.Hashes{} // unknown
			}

			return machineid.Of(g.Root)
		}),
	}
	unknown := LearnSite(e.Redactor, g.Values, l.Site)
	if !l.Diags.HasErrors() && !g.IsOlder {
		n.Found = append(n.Found, unknown...)
	}
	switch {
	case recorded != nil:
		n.Source = recorded.Source()
	case g.isRehearsed:
		n.openRehearsed()
	default:
		n.openLive()
	}
	if n.Live == nil || n.KubeletVersion != "" || len(n.Binaries) > 0 {
		n.rehearse()
	}
	if n.Live != nil && l.Diags.HasErrors() { // what they show of the site may be a copy of a credential
		n.Live.LearnSecrets()
	}

	return n
}

// KeepDigests stores the digests of the detectors that ran.
func (n *Node) KeepDigests() error {
	digests := n.Detectors.Digests()
	if digests == nil {
		return nil
	}

	return commit.WriteIfChanged(filepath.Join(n.StateDir(), detector.CacheFile), digests)
}

// Close closes connections and temporary folders, but not the store.
func (n *Node) Close() {
	if n.Live != nil {
		n.Live.Close()
	}
	if n.rehearsed != nil {
		n.rehearsed.Close()
	}
	if n.units != nil {
		n.units.Close()
	}
}

// Joined reports whether the node has joined its cluster.
func (n *Node) Joined() bool {
	joined, _ := n.Live.Joined()
	return joined
}

// lastGoodTimeout limits the wait for the cluster on a node that can use the answers of its last good generation.
// Other nodes wait as long as the site allows.
const lastGoodTimeout = 15 * time.Second

// Plan evaluates the site.
func (n *Node) Plan(ctx context.Context, event func(boot.StageReport)) *boot.Plan {
	o := boot.RunInput{
		Source:   n.env.Hiding(n.Source),
		Now:      time.Now,
		Redact:   n.env.Redactor.String,
		Event:    event,
		Checks:   n.checks,
		Takeover: n.Takeover,
		GaveUp:   n.env.GaveUp,
		Only:     n.Only,

		IsPartial: n.IsPartial,
		Advises:   n.Advises,
		Explains:  n.Explains,
	}
	if len(n.askers) > 0 || n.Recorded != nil { // a recording may have the answer
		o.Finished = n.askers.Finish
	}
	if n.past != nil && n.Joined() { // a node that never joined must not use unverified answers
		o.Hurry = n.hurry
		o.LastGood = func(maxAge time.Duration) world.Fallback {
			return world.AnswerFromLastGood(n.past, maxAge, time.Now(), n.newestKnown)
		}
		if !n.AcceptMissing {
			o.KeepVariables = world.KeepVariables(n.Live.LastGood)
			n.Live.KeepSecrets()
		}
	}
	if n.waits != nil {
		defer n.waits.End()
	}
	p := boot.Run(ctx, n.Site, o)
	n.env.HideFlags(p)
	if n.asked != nil {
		if !n.isRehearsed { // else it is in place of no answer
			p.Assumed = n.asked.ListAssumed()
		}
		if f := n.asked.WhyNoKubelet(); f != nil && n.Test == nil {
			p.Diagnostics = append(
				p.Diagnostics,
				origin.Warning(fault.Usage, hcl.Range{}, "--kubelet-version is not used",
					"The answer about the kubelet is missing, so no version can be put into it: %s.",
					strings.TrimSuffix(f.Why, ".")),
			)
		}
		if n.asked.IgnoresObjects() && n.Test == nil {
			p.Diagnostics = append(
				p.Diagnostics,
				origin.Warning(fault.Usage, hcl.Range{}, "No object of --objects is used",
					"%s has no object that the site fetches, so all is as recorded.", n.Objects),
			)
		}
	}
	return p
}

// hurry limits the wait for the cluster on a node with a last good generation.
func (n *Node) hurry() {
	if _, ok := n.Store.LastGood(); ok {
		n.Live.Hurry(lastGoodTimeout)
	}
}

// newestKnown returns when the generation in place was made, whatever the clock shows now. An older one does not
// count: it may have been made while the clock was ahead.
func (n *Node) newestKnown() time.Time {
	current, err := n.Store.Current()
	if err != nil || current == nil { // then only the clock counts
		return time.Time{}
	}

	return current.Time
}

// PlanUnless is Plan with the diagnostics of opening the node. Where they have an error, it does not plan.
func (n *Node) PlanUnless(ctx context.Context) *boot.Plan {
	if n.Found.HasErrors() {
		return &boot.Plan{Site: n.Site, Diagnostics: n.Found}
	}
	p := n.Plan(ctx, nil)
	p.Diagnostics = slices.Concat(n.Found, n.checkStore(), p.Diagnostics)
	return p
}

// checkStore warns that a plan is that of a first boot, because the state folder cannot be trusted.
func (n *Node) checkStore() hcl.Diagnostics {
	if n.Store == nil || n.Store.StartsOver() == nil {
		return nil
	}

	return hcl.Diagnostics{origin.Warning(fault.SetAside, hcl.Range{}, "The plan is that of a first boot",
		"%s.", origin.Capitalize(n.Store.StartsOver().String()))}
}

// Recording returns the tape of p as a recording, with the site.
func (n *Node) Recording(p *boot.Plan) *world.Recording {
	header := world.Header{
		Format:  world.Format,
		Prelet:  n.env.Version,
		Time:    time.Now().UTC().Format(time.RFC3339),
		Boot:    systemd.OwnBootID(n.env.Getenv),
		Machine: n.Machine().ID,
		Site:    slices.Clone(p.Site.Files),
	}

	r := &world.Recording{Header: header, Entries: p.Tape.Entries()}
	if n.Live != nil { // earlier answers are searched again, for secrets that are known by now
		n.Live.LearnSecrets()
		r.HoldBack(n.env.Redactor.Holds, n.env.Redactor.Given, kubelet.HideSecrets)
	}
	return r
}

// Generation returns the number of the generation in place; 0 before the first.
func (n *Node) Generation() int {
	if n.Store == nil {
		return 0
	}
	if g, err := n.Store.Current(); err == nil && g != nil {
		return g.Gen
	}
	return 0
}

// View returns a plan of the node for the printer. source is the recording, if there are several.
func (n *Node) View(p *boot.Plan, source string) printer.View {
	v := printer.View{
		Plan:       p,
		Version:    n.env.Version,
		Generation: n.Generation(),
		Source:     source,
		CheckedBy:  printer.ByRules,
	}
	if p.DryRun != nil {
		v.CheckedBy = p.DryRun.Program
	}

	return v
}

// Secret implements commit.PlannedNode. The error of a missing credential names those that there are.
func (n *Node) Secret(name string) ([]byte, error) {
	b, err := n.Live.Secret(name)
	if errors.Is(err, fs.ErrNotExist) {
		if names, _ := n.env.Credentials(n.Where).Names(); len(names) > 0 {
			err = fmt.Errorf("%w; there is: %s", err, strings.Join(names, ", "))
		}
	}

	return b, err
}

// Hidden implements commit.PlannedNode.
func (n *Node) Hidden(path string) *nodefile.FileState { return n.Live.Hidden(path) }

// ApplyOptions returns the options for applying p.
func (n *Node) ApplyOptions(p *boot.Plan) commit.ProposalInput {
	if !p.Complete {
		return commit.ProposalInput{Plan: p}
	}

	return commit.ProposalInput{
		Store:    n.Store,
		Plan:     p,
		Node:     n,
		Redactor: n.env.Redactor,
		Root:     nodefile.Root(n.Root),
		Machine:  n.Machine(),
	}
}
