package app

import (
	"context"
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

// openNode is a site with the source that answers its questions.
type openNode struct {
	given
	env       *Env
	Site      *lang.Site
	source    world.Source
	live      *probe.Live   // nil with a recording
	asker     *dryrun.Asker // of the installed kubelet, nil if that is not asked
	askers    askers
	detectors *detector.Host           // likewise
	asked     *rehearsal.Source        // nil where every answer is the node's
	Store     *generation.Store        // nil where it could not be opened
	past      func() *world.LastGood   // the last good generation's recording; nil where none counts
	waits     *waits.Reporter          // prints each wait; nil with a recording
	units     Manager                  // to be closed; nil where another has it, or there is none
	machine   func() machineid.Machine // read once
	only      hclsyntax.Expression     // see boot.Options
	isPartial bool                     // see boot.Options
	advises   bool                     // see boot.Options
	checks    *boot.Checks             // of the site
}

// open opens what a command works on: given → layers → variables → world → site. store may be nil; it stays the
// caller's, as the node is: see Close. The messages are those of loading; where they have errors, there is nothing to
// plan.
func (e *Env) open(w Where, store *generation.Store) (*openNode, hcl.Diagnostics, error) {
	g, err := w.read()
	if err != nil {
		return nil, nil, err
	}
	s, diags := g.load(e.Version)
	n, diags := e.openWorld(g, store, &loadedSite{site: s, diags: diags})

	return n, diags, nil
}

// openWorld opens the world for a site that was loaded with some messages.
func (e *Env) openWorld(g given, store *generation.Store, l *loadedSite) (*openNode, hcl.Diagnostics) {
	n := &openNode{
		given:   g,
		env:     e,
		Store:   store,
		Site:    l.site,
		checks:  &l.checks,
		machine: sync.OnceValue(g.findMachine),
	}
	learnSite(e.Redactor, g.variables, l.site)
	diags := slices.Clone(l.diags) // those of a site may be of several nodes
	switch {
	case !diags.HasErrors():
		diags = checkVariables(diags, g.variables, l.site)
	case g.recording == nil: // what they show of the site may be a copy of a credential
		e.learnCredentials(g.Where, l.site)
	}
	if g.recording != nil {
		n.source = g.recording.Source()
		n.rehearse()
	} else {
		n.openLive()
	}

	return n, diags
}

// keepDigests stores the digests of the detectors that ran.
func (n *openNode) keepDigests() error {
	digests := n.detectors.Digests()
	if digests == nil {
		return nil
	}

	return commit.WriteIfChanged(filepath.Join(n.stateDir(), detector.CacheFile), digests)
}

// Close closes connections and temporary folders, but not the store.
func (n *openNode) Close() {
	if n.live != nil {
		n.live.Close()
	}
	if n.units != nil {
		n.units.Close()
	}
}

func (n *openNode) joined() bool {
	joined, _ := n.live.Joined()
	return joined
}

// lastGoodTimeout limits the wait for the cluster on a node that can use the answers of its last good generation.
// Other nodes wait as long as the site allows.
const lastGoodTimeout = 15 * time.Second

// Plan evaluates the site.
func (n *openNode) Plan(ctx context.Context, event func(boot.StageReport)) *boot.Plan {
	o := boot.Options{
		Source:   n.env.hiding(n.source),
		Now:      time.Now,
		Redact:   n.env.Redactor.String,
		Event:    event,
		Checks:   n.checks,
		Takeover: n.Takeover,
		GaveUp:   n.env.GaveUp,
		Only:     n.only,

		IsPartial: n.isPartial,
		Advises:   n.advises,
	}
	if len(n.askers) > 0 || n.recording != nil { // a recording may have the answer
		o.Finished = n.askers.finish
	}
	if n.past != nil && n.joined() { // a node that never joined must not use unverified answers
		o.Hurry = n.hurry
		o.LastGood = func(maxAge time.Duration) world.Fallback {
			return world.AnswerFromLastGood(n.past, maxAge, time.Now(), n.newestKnown)
		}
		if !n.AcceptMissing {
			o.KeepVariables = world.KeepVariables(n.live.LastGood)
			n.live.KeepSecrets()
		}
	}
	if n.waits != nil {
		defer n.waits.End()
	}
	p := boot.Run(ctx, n.Site, o)
	n.env.hideFlags(p)
	if n.asked != nil {
		p.Assumed = n.asked.ListAssumed()
		if f := n.asked.WhyNoKubelet(); f != nil {
			p.Diagnostics = append(
				p.Diagnostics,
				origin.Warning(fault.Usage, hcl.Range{}, "--kubelet-version is not used",
					"The answer about the kubelet is missing, so no version can be put into it: %s.",
					strings.TrimSuffix(f.Why, ".")),
			)
		}
		if n.asked.IgnoresObjects() {
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
func (n *openNode) hurry() {
	if _, ok := n.Store.LastGood(); ok {
		n.live.Hurry(lastGoodTimeout)
	}
}

// newestKnown returns when the generation in place was made, whatever the clock shows now. An older one does not
// count: it may have been made while the clock was ahead.
func (n *openNode) newestKnown() time.Time {
	current, err := n.Store.Current()
	if err != nil || current == nil { // then only the clock counts
		return time.Time{}
	}

	return current.Time
}

// planUnless is Plan with the diagnostics of opening the node. Where they have an error, it does not plan.
func (n *openNode) planUnless(
	ctx context.Context,
	found hcl.Diagnostics,
	event func(boot.StageReport),
) *boot.Plan {
	if found.HasErrors() {
		return &boot.Plan{Site: n.Site, Diagnostics: found}
	}
	if d := n.checkStore(); d != nil {
		return &boot.Plan{Site: n.Site, Diagnostics: append(found, d...)}
	}
	p := n.Plan(ctx, event)
	p.Diagnostics = append(found, p.Diagnostics...)
	return p
}

// checkStore returns the damage of the state folder that must be repaired before a plan is possible. Files that this
// user may not read are ignored: a plan works without root.
func (n *openNode) checkStore() hcl.Diagnostics {
	if n.Store == nil {
		return nil
	}
	if err := n.Store.Check(); fault.CodeOf(err) == fault.NeedsPerson {
		return commit.Explain(err)
	}
	return nil
}

// Recording returns the tape of p as a recording, with the site.
func (n *openNode) Recording(p *boot.Plan) *world.Recording {
	header := world.Header{
		Format:  world.Format,
		Prelet:  n.env.Version,
		Time:    time.Now().UTC().Format(time.RFC3339),
		Boot:    systemd.OwnBootID(n.env.Getenv),
		Machine: n.machine().ID,
		Site:    slices.Clone(p.Site.Files),
	}

	r := &world.Recording{Header: header, Entries: p.Tape.Entries()}
	if n.live != nil { // earlier answers are searched again, for secrets that are known by now
		n.live.LearnSecrets()
		r.HoldBack(n.env.Redactor.Holds, n.env.Redactor.Given, kubelet.HideSecrets)
	}
	return r
}

// Generation returns the number of the generation in place; 0 before the first.
func (n *openNode) Generation() int {
	if n.Store == nil {
		return 0
	}
	if g, err := n.Store.Current(); err == nil && g != nil {
		return g.Gen
	}
	return 0
}

// view returns a plan of the node for the printer. source is the recording, if there are several.
func (n *openNode) view(p *boot.Plan, source string) printer.View {
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

// Secret implements commit.Node.
func (n *openNode) Secret(name string) ([]byte, error) { return n.live.Secret(name) }

// Hidden implements commit.Node.
func (n *openNode) Hidden(path string) *nodefile.State { return n.live.Hidden(path) }

// ApplyOptions returns the options for applying p.
func (n *openNode) ApplyOptions(p *boot.Plan) commit.Options {
	if !p.Complete {
		return commit.Options{Plan: p}
	}

	return commit.Options{
		Store:    n.Store,
		Plan:     p,
		Node:     n,
		Redactor: n.env.Redactor,
		Root:     nodefile.Root(n.Root),
		Machine:  n.machine(),
	}
}
