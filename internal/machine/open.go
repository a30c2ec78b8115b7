package machine

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

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/detector"
	"github.com/prelet/prelet/internal/machine/dryrun"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/machine/waits"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/schema"
)

// Node is a site with the source that answers its questions.
type Node struct {
	Where
	env       *Env
	Site      *lang.Site
	Found     hcl.Diagnostics // while it was opened; where they have errors, there is nothing to plan
	Source    tape.Source
	Live      *probe.Live             // nil where this machine does not answer
	Askers    dryrun.Askers           // of kubelets, by version; "" is the installed one
	Runtime   *dryrun.RuntimeAsker    // of the container runtime; nil: only a recording answers for it
	Detectors *detector.Host          // nil without Live
	Store     *generation.Store       // nil where it could not be opened
	Options   evaluate.RunInput       // of each plan; Plan adds the node's own
	Machine   func() machineid.Hashes // read once
	Delivery  *report.Delivery        // of a node that pulls its site; nil for others
	Block     schema.Delivery         // of the site without its pulled layer
	degraded  []fault.Reason          // about it
	waits     *waits.Reporter         // prints each wait; nil without Live
	units     Manager                 // to be closed; nil where another has it, or there is none
}

// Open opens this machine, or the one below Root: site → variables → the source of answers. store may be nil; it stays
// the caller's, as the node is: see Close.
func (e *Env) Open(w Where, store *generation.Store) *Node {
	l := e.Load(w)
	n := e.NewNode(w, l, store)
	values := w.ReadVariables()
	unknown := LearnSite(e.Redactor, values, l.Site)
	n.OpenLive(values, true)
	if !l.Diags.HasErrors() {
		n.Found = append(n.Found, unknown...)
	}

	return n
}

// NewNode returns a node with a site, and no source of answers yet.
func (e *Env) NewNode(w Where, l *LoadedSite, store *generation.Store) *Node {
	return &Node{
		Where:    w,
		env:      e,
		Store:    store,
		Site:     l.Site,
		Delivery: l.Delivery,
		Block:    l.block,
		degraded: l.degraded,
		Found:    slices.Clone(l.Diags), // those of a site may be of several nodes
		Askers:   dryrun.Askers{},
		Options:  evaluate.RunInput{Checks: &l.checks},
		Machine: sync.OnceValue(func() machineid.Hashes {
			if w.Hardware != "" {
				return machineid.Hashes{} // unknown
			}

			return machineid.Of(w.Root)
		}),
	}
}

// IsHere reports whether the node is this running machine, not one below a root or recorded hardware.
func (n *Node) IsHere() bool { return n.Root == "" && n.Hardware == "" || n.env.On != nil }

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

// Plan evaluates the site over the node's answers, and hides secrets in all output. event may be nil.
func (n *Node) Plan(ctx context.Context, event func(evaluate.StageReport)) *evaluate.Plan {
	o := n.Options
	o.Source = n.env.Hiding(n.Source)
	if n.Runtime != nil {
		o.Source = n.env.Hiding(n.Runtime.Over(n.Source))
		o.FinishedRuntime = n.Runtime.Finish
	}
	o.Now = time.Now
	o.Redact = n.env.Redactor.String
	o.Event = event
	o.Takeover = n.Takeover
	o.GaveUp = n.env.GaveUp
	if len(n.Askers) > 0 {
		o.Finished = n.Askers.Finish
	}
	if n.Live != nil && n.Store != nil && n.Joined() { // a node that never joined must not use unverified answers
		o.Hurry = n.hurry
		o.LastGood = func(maxAge time.Duration) tape.Fallback {
			return tape.AnswerFromLastGood(n.Live.LastGood, maxAge, time.Now(), n.newestKnown)
		}
		if !n.AcceptMissing {
			o.KeepVariables = tape.KeepVariables(n.Live.LastGood)
			n.Live.KeepSecrets()
		}
	}
	if n.waits != nil {
		defer n.waits.End()
	}
	p := evaluate.Run(ctx, n.Site, o)
	n.env.HideFlags(p)
	n.noteDelivery(p)

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
func (n *Node) PlanUnless(ctx context.Context) *evaluate.Plan {
	if n.Found.HasErrors() {
		return &evaluate.Plan{Site: n.Site, Diagnostics: n.Found}
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
func (n *Node) Recording(p *evaluate.Plan) *tape.Recording {
	header := tape.Header{
		Format:  tape.Format,
		Prelet:  n.env.Version,
		Time:    time.Now().UTC().Format(time.RFC3339),
		Boot:    systemd.OwnBootID(n.env.Getenv),
		Machine: n.Machine().ID,
		Site:    slices.Clone(p.Site.Files),
	}

	if d := n.Delivery; d != nil && d.Used != "" {
		header.Pulled = &tape.Pulled{Digest: d.Used, Tag: d.Tag, Ring: d.Ring}
	}

	r := &tape.Recording{Header: header, Entries: p.Tape.Entries()}
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
func (n *Node) ApplyOptions(p *evaluate.Plan) commit.ProposalInput {
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
