package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/apply"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
	"github.com/prelet/prelet/internal/live"
	"github.com/prelet/prelet/internal/machineid"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/present"
	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages/builtin"
)

// where are the flags that say which node and which site a command is about.
type where struct {
	config    []string
	root      string
	from      string
	hardware  string
	objects   string
	variables []string
	output    string
}

func (w *where) siteFlags(c *cobra.Command) {
	c.Flags().StringArrayVar(&w.config, "config", nil, "site `PATH`, a file or a folder, in place of /etc/prelet and its like (repeatable)")
	c.Flags().StringVarP(&w.output, "output", "o", "text", "`FORMAT`: text or json")
}

func (w *where) nodeFlags(c *cobra.Command) {
	w.siteFlags(c)
	c.Flags().StringVar(&w.root, "root", "", "files and targets below `DIR`; no unit is touched")
	c.Flags().StringVar(&w.hardware, "hardware", "", "facts from a recorded machine: a tree, or a snapshot of ghw or hwloc, at `PATH`")
	c.Flags().StringVar(&w.objects, "objects", "", "ConfigMaps (NAMESPACE/NAME.yaml) and ca.crt from `DIR`, in place of the cluster")
	c.Flags().StringArrayVar(&w.variables, "var", nil, "value of a variable, `NAME=VALUE` (repeatable)")
}

func (w *where) fromFlag(c *cobra.Command) {
	c.Flags().StringVar(&w.from, "from", "", "everything from the recording `FILE`, or from each one in a folder; nothing of this machine but site files")
}

func (w *where) json() (bool, error) {
	switch w.output {
	case "json":
		return true, nil
	case "text", "":
		return false, nil
	}
	return false, failure(fault.Usage, "-o %s: text or json", w.output)
}

// check refuses flags that exclude each other, and paths that are not there.
func (w *where) check() error {
	if w.from != "" && (w.root != "" || w.hardware != "" || w.objects != "") {
		return failure(fault.Usage, "--from excludes --root, --hardware and --objects: a recording answers everything")
	}
	for flag, p := range map[string]string{"--root": w.root, "--objects": w.objects} {
		if p == "" {
			continue
		}
		if st, err := os.Stat(p); errors.Is(err, fs.ErrPermission) {
			return failure(fault.Usage, "%s %s: this user may not look there", flag, p)
		} else if err != nil || !st.IsDir() {
			return failure(fault.Usage, "%s %s: there is no such folder", flag, p)
		}
	}
	if w.hardware != "" {
		if _, err := os.Stat(w.hardware); errors.Is(err, fs.ErrPermission) {
			return failure(fault.Usage, "--hardware %s: this user may not look there", w.hardware)
		} else if err != nil {
			return failure(fault.Usage, "--hardware %s: there is no such folder or archive", w.hardware)
		}
	}
	for _, v := range w.variables {
		if strings.Index(v, "=") < 1 {
			return failure(fault.Usage, "--var %s: write NAME=VALUE", v)
		}
	}
	if w.root != "" {
		abs, err := filepath.Abs(w.root)
		if err != nil {
			return failure(fault.Usage, "--root %s: %s", w.root, err)
		}
		w.root = abs
	}
	return nil
}

func (w *where) vars() map[string]string {
	m := map[string]string{}
	for _, v := range w.variables {
		k, x, _ := strings.Cut(v, "=")
		m[k] = x
	}
	return m
}

// undeclared are --var of names that the site does not declare: typing errors that would go unseen.
func (w *where) undeclared(s *site.Site) (diags hcl.Diagnostics) {
	known := slices.Sorted(maps.Keys(s.Variables))
	for _, name := range slices.Sorted(maps.Keys(w.vars())) {
		if s.Variables[name] == nil {
			diags = append(diags, origin.Error(fault.VariableUnknown, hcl.Range{}, fmt.Sprintf("There is no variable %q", name),
				"--var names it, and the site does not declare it. %s", schema.Suggest(name, known)))
		}
	}
	return diags
}

// load reads the site: the files named or found, or those inside a recording.
func (w *where) load(rec *world.Recording) (*site.Site, hcl.Diagnostics) {
	o := siteOptions(version)
	o.Paths, o.Root = w.config, w.root
	if rec != nil && len(w.config) == 0 {
		return site.Parse(rec.Header.Site, o)
	}
	return site.Load(site.OS(), o)
}

func siteOptions(version string) site.Options {
	return site.Options{Stages: builtin.Stages(), Version: version}
}

func siteFile(name, text string) []world.SiteFile { return []world.SiteFile{{Name: name, Text: text}} }

// node is a site with the world that answers it.
type node struct {
	where
	app      *app
	site     *site.Site
	source   world.Source
	live     *live.Live // nil with a recording
	rec      *world.Recording
	store    *generation.Store
	redactor *value.Redactor
	past     func() *live.Past // the last good generation's recording; nil where none counts
	waits    *waits
}

// stateDir is prelet's own folder.
func (w *where) stateDir() string { return filepath.Join("/", w.root, "var/lib/prelet") }

// open loads the site and opens the world. Diagnostics are printed by the caller.
func (a *app) open(w where, store *generation.Store) (*node, hcl.Diagnostics, error) {
	if err := w.check(); err != nil {
		return nil, nil, err
	}
	n := &node{where: w, app: a, redactor: value.NewRedactor(), store: store}
	a.redactor = n.redactor
	if w.from != "" {
		rec, err := readRecording(w.from)
		if err != nil {
			return nil, nil, err
		}
		n.rec, n.source = rec, rec.Source()
	}
	s, diags := w.load(n.rec)
	n.site = s
	if !diags.HasErrors() {
		diags = append(diags, w.undeclared(s)...)
	}
	if n.rec != nil {
		return n, diags, nil
	}
	if n.store == nil {
		n.store, _ = generation.OpenReadOnly(generation.Options{Root: w.root, Dir: w.stateDir()})
	}
	n.waits = &waits{say: a.complain}
	n.live = live.New(live.Options{
		Root: w.root, Hardware: w.hardware, Objects: w.objects, Site: s, Variables: w.vars(), Redactor: n.redactor,
		Credentials: live.SystemCredentials(a.getenv), Store: n.store, StateDir: w.stateDir(), Detectors: a.detectorHost(w, n.redactor),
		OnRetry: n.waits.retry, WaitClock: n.waits.clock(live.WaitClock),
	})
	n.source = n.live
	if n.store != nil {
		n.past = n.live.Past
	}
	return n, diags, nil
}

func (n *node) close() {
	if n.live != nil {
		n.live.Close()
	}
}

func (n *node) joined() bool {
	joined, _ := n.live.Joined()
	return joined
}

// lastGoodPatience is how long a node that can fall back on its last good generation waits for the cluster. One that
// never joined waits as long as the site says: it has nothing else to do.
const lastGoodPatience = 15 * time.Second

// plan evaluates the site.
func (n *node) plan(ctx context.Context, event func(boot.Event)) *boot.Plan {
	o := boot.Options{Source: n.source, Now: time.Now, Event: event}
	if n.past != nil && n.joined() { // one that never joined must not take what it cannot verify
		o.FallBack = func(maxAge time.Duration) func(world.Question, world.Answer) (world.Answer, bool) {
			if _, ok := n.store.LastGood(); ok {
				n.live.Hurry(lastGoodPatience)
			}
			return live.FallBack(n.past, maxAge, time.Now())
		}
	}
	if n.waits != nil {
		defer n.waits.end()
	}
	return boot.Run(ctx, n.site, o)
}

// planUnless is plan behind what opening the node has found; with an error in that, there is nothing to plan.
func (n *node) planUnless(ctx context.Context, found hcl.Diagnostics, event func(boot.Event)) *boot.Plan {
	if found.HasErrors() {
		return &boot.Plan{Site: n.site, Diagnostics: found}
	}
	if d := n.stuck(); d != nil {
		return &boot.Plan{Site: n.site, Diagnostics: append(found, d...)}
	}
	p := n.plan(ctx, event)
	p.Diagnostics = append(found, p.Diagnostics...)
	return p
}

// stuck says what of the generations needs a person before anything can be planned. What this user may not read is
// passed over: a plan works without root.
func (n *node) stuck() hcl.Diagnostics {
	if n.store == nil {
		return nil
	}
	if err := n.store.Check(); fault.CodeOf(err) == fault.NeedsPerson {
		return apply.Explain(err)
	}
	return nil
}

func readRecording(path string) (*world.Recording, error) {
	f, err := openRegular(path)
	if err != nil {
		if os.IsNotExist(err) {
			return nil, failure(fault.Usage, "--from %s: there is no such recording", path)
		}
		return nil, failure(fault.Usage, "--from %s: %s", path, err)
	}
	defer f.Close()
	r, err := world.Decode(f)
	if err != nil {
		return nil, failure(fault.RecordingInvalid, "--from %s: %s", path, err)
	}
	return r, nil
}

// say prints diagnostics for people, redacted.
func (a *app) say(s *site.Site, ds hcl.Diagnostics) {
	var sources map[string][]byte
	if s != nil {
		sources = s.Sources
	}
	_ = a.through(a.stderr, func(w io.Writer) error {
		return present.Diagnostics(w, sources, ds, present.StyleOf(a.stderr, a.getenv))
	})
}

// print writes to stdout through the redactor.
func (a *app) print(f func(io.Writer) error) error {
	a.printed = true
	if err := a.through(a.stdout, f); err != nil {
		return failure(fault.Internal, "cannot print: %s", err)
	}
	return nil
}

func (a *app) through(to io.Writer, f func(io.Writer) error) error {
	r, ok := a.redactor.(*value.Redactor)
	if !ok { // no secret is known yet, and what looks like one is hidden all the same
		r = value.NewRedactor()
	}
	w := r.Writer(to)
	if err := f(w); err != nil {
		return err
	}
	return w.Close()
}

// recording is what a run's tape becomes.
func recording(p *boot.Plan, header world.Header) *world.Recording {
	header.Site = slices.Clone(p.Site.Files)
	return &world.Recording{Header: header, Entries: p.Tape.Entries()}
}

func header(w where) world.Header {
	h := world.Header{Format: world.Format, Prelet: version, Time: time.Now().UTC().Format(time.RFC3339)}
	h.Boot = live.BootID(os.Getenv)
	if w.hardware == "" {
		h.Machine = machineid.Of(w.root).ID
	}
	return h
}
