package app

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

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/probe"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages/builtin"
)

// Where is the node and the site of a command.
type Where struct {
	Config    []string // files and folders in place of /etc/prelet and its like
	Root      string   // files and targets are below it; "" is /
	From      string   // a recording that answers what the rest of Where does not
	Hardware  string   // a recorded machine: a tree, or a snapshot of ghw or hwloc
	Objects   string   // a folder in place of the cluster; with From in place of the objects that it has
	Variables []string // NAME=VALUE
	VarFiles  []string // vars files outside of the site; later ones win, and Variables win over them

	KubeletVersion string // in place of the installed kubelet's; "" is that one
	Takeover       bool   // join under the name of another machine
}

// check refuses flags that exclude each other, and paths that are not there.
func (w *Where) check() error {
	if w.From != "" && (w.Root != "" || w.Hardware != "") {
		return failure(fault.Usage, "--from excludes --root and --hardware: a recording is of one machine, with its files")
	}
	if err := checkKubeletVersion(w.KubeletVersion); err != nil {
		return err
	}
	for _, p := range w.Config { // a link is judged when it is read
		if _, err := os.Lstat(p); errors.Is(err, fs.ErrNotExist) {
			return failure(fault.Usage, "%s: there is no such file or folder (--config)", p)
		}
	}
	for flag, p := range map[string]string{"--root": w.Root, "--objects": w.Objects} {
		if p == "" {
			continue
		}
		if st, err := os.Stat(p); errors.Is(err, fs.ErrPermission) {
			return failure(fault.Usage, "%s %s: this user may not look there", flag, p)
		} else if err != nil || !st.IsDir() {
			return failure(fault.Usage, "%s %s: there is no such folder", flag, p)
		}
	}
	if w.Hardware != "" {
		if _, err := os.Stat(w.Hardware); errors.Is(err, fs.ErrPermission) {
			return failure(fault.Usage, "--hardware %s: this user may not look there", w.Hardware)
		} else if err != nil {
			return failure(fault.Usage, "--hardware %s: there is no such folder or archive", w.Hardware)
		}
		if st, err := os.Stat(w.Hardware); err == nil && st.IsDir() {
			if _, err := os.Stat(filepath.Join(w.Hardware, "sys")); err != nil {
				return failure(fault.Usage, "--hardware %s: this is not a recorded machine: there is no folder sys in it", w.Hardware)
			}
		}
	}
	for _, v := range w.Variables {
		if strings.Index(v, "=") < 1 {
			return failure(fault.Usage, "--var %s: write NAME=VALUE", v)
		}
	}
	if w.Root != "" {
		abs, err := filepath.Abs(w.Root)
		if err != nil {
			return failure(fault.Usage, "--root %s: %s", w.Root, err)
		}
		w.Root = abs
	}
	return nil
}

// given returns the variables of the command line, by name.
func (w *Where) given() (map[string]live.Given, error) {
	out := map[string]live.Given{}
	for _, path := range w.VarFiles {
		text, err := readVarFile(path)
		if err != nil {
			return nil, failure(fault.Usage, "--var-file %s: %s", path, err)
		}
		values, err := site.ParseVarsFile(path, text)
		if err != nil {
			return nil, failure(fault.Usage, "--var-file %s", err)
		}
		for name, value := range values {
			out[name] = live.Given{Text: value, Source: "--var-file " + path, IsFile: true}
		}
	}
	for _, v := range w.Variables {
		name, value, _ := strings.Cut(v, "=")
		out[name] = live.Given{Text: value, Source: "--var"}
	}
	return out, nil
}

// maxVarFile bounds a --var-file, in bytes.
const maxVarFile = 1 << 20

func readVarFile(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		if os.IsNotExist(err) {
			return nil, errors.New("there is no such file")
		}
		return nil, err
	}
	defer f.Close()

	text, err := io.ReadAll(io.LimitReader(f, maxVarFile+1))
	if len(text) > maxVarFile {
		return nil, errors.New("it is larger than 1 MiB")
	}
	return text, err
}

// checkVariables refuses a variable of the command line that the site does not declare: a typing error would have no
// effect.
func checkVariables(given map[string]live.Given, s *site.Site) (diags hcl.Diagnostics) {
	known := slices.Sorted(maps.Keys(s.Variables))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if s.Variables[name] == nil {
			diags = append(diags, origin.Error(fault.VariableUnknown, hcl.Range{},
				fmt.Sprintf("There is no variable %q", name),
				"%s names it, and the site does not declare it. %s", given[name].Source, schema.Suggest(name, known)))
		}
	}
	return diags
}

// load reads the site: the files of w.Config, those in the usual places, or those inside a recording.
func (w *Where) load(rec *world.Recording, version string) (*site.Site, hcl.Diagnostics) {
	o := siteOptions(version)
	o.Paths, o.Root = w.Config, w.Root
	if rec != nil && len(w.Config) == 0 {
		return site.Parse(rec.Header.Site, o)
	}
	return site.Load(site.OS(), o)
}

// siteOptions returns the options of every site that this program reads.
func siteOptions(version string) site.Options {
	return site.Options{Stages: builtin.Stages(), Version: version}
}

// node is a site with the source that answers its questions.
type node struct {
	Where
	env    *Env
	Site   *site.Site
	source world.Source
	live   *live.Live // nil with a recording
	asked  *rehearsal // nil where every answer is the node's
	rec    *world.Recording
	Store  *generation.Store      // nil where it could not be opened
	past   func() *world.LastGood // the last good generation's recording; nil where none counts
	waits  *waits
	units  Manager // to be closed; nil where another has it, or there is none
}

// stateDir returns prelet's own folder.
func (w *Where) stateDir() string { return filepath.Join("/", w.Root, "var/lib/prelet") }

// Open loads the site and opens the world. store may be nil; it stays the caller's, as the node is: see Close. The
// messages are those of loading; where they have errors, there is nothing to plan.
func (e *Env) open(w Where, store *generation.Store) (*node, hcl.Diagnostics, error) {
	if err := w.check(); err != nil {
		return nil, nil, err
	}
	given, err := w.given()
	if err != nil {
		return nil, nil, err
	}
	n := &node{Where: w, env: e, Store: store}
	if w.From != "" {
		rec, err := readRecording(w.From)
		if err != nil {
			return nil, nil, err
		}
		n.rec, n.source = rec, rec.Source()
	}
	s, diags := w.load(n.rec, e.Version)
	n.Site = s
	if !diags.HasErrors() {
		diags = append(diags, checkVariables(given, s)...)
	}
	for name, v := range given {
		if d := s.Variables[name]; d != nil && d.Sensitive && v.IsFile && e.Redactor != nil {
			e.Redactor.Add([]byte(v.Text))
		}
	}
	if n.rec != nil {
		n.asked = &rehearsal{recording: n.source, site: s, given: given, kubelet: w.KubeletVersion}
		if w.Objects != "" {
			n.asked.objects = live.Objects(w.Objects)
		}
		n.source = n.asked
		return n, diags, nil
	}
	if n.Store == nil {
		n.Store, _ = generation.OpenReadOnly(generation.Options{Root: w.Root, Dir: w.stateDir()})
	}
	n.waits = &waits{say: e.Say}
	options := live.Options{
		Root: w.Root, Hardware: w.Hardware, Objects: w.Objects, Site: s, Variables: given, Redactor: e.Redactor,
		Credentials: systemd.NewCredentials(e.Getenv), Store: n.Store, StateDir: w.stateDir(),
		Detectors: e.detectorHost(w),
		OnRetry:   n.waits.retry, WaitClock: n.waits.clock(systemd.WaitClock),
	}
	if m := e.manager(); m != nil {
		options.Units = m
		if e.On == nil {
			n.units = m
		}
	}

	n.live = live.New(options)
	n.source = n.live
	if w.KubeletVersion != "" {
		n.asked = &rehearsal{recording: n.live, site: s, kubelet: w.KubeletVersion}
		n.source = n.asked
	}
	if n.Store != nil {
		n.past = n.live.LastGood
	}
	return n, diags, nil
}

// manager returns systemd of the machine that commands work on; nil where there is none.
func (e *Env) manager() Manager {
	switch {
	case e.On == nil && systemd.IsRunning():
		return systemd.NewUnits(context.Background())
	case e.On != nil && e.On.Systemd:
		return e.On.Units
	}

	return nil
}

// Close ends what the node has open, without its store.
func (n *node) Close() {
	if n.live != nil {
		n.live.Close()
	}
	if n.units != nil {
		n.units.Close()
	}
}

func (n *node) joined() bool {
	joined, _ := n.live.Joined()
	return joined
}

// lastGoodTimeout is how long a node that can fall back on its last good generation waits for the cluster. One that
// never joined waits as long as the site says: it has nothing else to do.
const lastGoodTimeout = 15 * time.Second

// Plan evaluates the site.
func (n *node) Plan(ctx context.Context, event func(boot.Event)) *boot.Plan {
	o := boot.Options{Source: n.source, Now: time.Now, Event: event, Takeover: n.Takeover}
	if n.env.Redactor != nil {
		o.Redact = n.env.Redactor.String
	}
	if n.past != nil && n.joined() { // one that never joined must not take what it cannot verify
		o.FallBack = func(maxAge time.Duration) func(world.Question, world.Answer) (world.Answer, bool) {
			if _, ok := n.Store.LastGood(); ok {
				n.live.Hurry(lastGoodTimeout)
			}
			return world.FallBack(n.past, maxAge, time.Now(), n.newestKnown)
		}
	}
	if n.waits != nil {
		defer n.waits.end()
	}
	p := boot.Run(ctx, n.Site, o)
	if n.asked != nil {
		p.Assumed = n.asked.assumed()
		if n.asked.objects != nil && !n.asked.hasObjects {
			p.Diagnostics = append(p.Diagnostics, origin.Warning(fault.Usage, hcl.Range{}, "Nothing of --objects is used",
				"%s has no object that the site fetches, so all is as recorded.", n.Objects))
		}
	}
	return p
}

// newestKnown returns when the newest generation was made, whatever the clock shows now.
func (n *node) newestKnown() (newest time.Time) {
	all, _ := n.Store.List() // without it only the clock counts
	for _, g := range all {
		if g.Time.After(newest) {
			newest = g.Time
		}
	}

	return newest
}

// planUnless is Plan with the diagnostics of opening the node. Where they have an error, it does not plan.
func (n *node) planUnless(ctx context.Context, found hcl.Diagnostics, event func(boot.Event)) *boot.Plan {
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

// checkStore returns what a person has to fix in the generations before anything can be planned. What this user may not
// read is ignored: a plan works without root.
func (n *node) checkStore() hcl.Diagnostics {
	if n.Store == nil {
		return nil
	}
	if err := n.Store.Check(); fault.CodeOf(err) == fault.NeedsPerson {
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

// Recording returns the tape of p as a recording, with the site.
func (n *node) Recording(p *boot.Plan) *world.Recording {
	header := world.Header{
		Format: world.Format, Prelet: n.env.Version, Time: time.Now().UTC().Format(time.RFC3339),
		Boot: systemd.OwnBootID(n.env.Getenv),
	}
	if n.Hardware == "" {
		header.Machine = machineid.Of(n.Root).ID
	}
	header.Site = slices.Clone(p.Site.Files)

	r := &world.Recording{Header: header, Entries: p.Tape.Entries()}
	if n.live != nil && n.env.Redactor != nil { // what was read before a secret was known is searched once more
		n.live.LearnSecrets()
		r.HoldBack(n.env.Redactor.Holds, n.env.Redactor.String)
	}
	return r
}

// Generation returns the number of the generation in place; 0 before the first.
func (n *node) Generation() int {
	if n.Store == nil {
		return 0
	}
	if g, err := n.Store.Current(); err == nil && g != nil {
		return g.Gen
	}
	return 0
}

// ApplyOptions returns the options for applying p.
func (n *node) ApplyOptions(p *boot.Plan) apply.Options {
	o := apply.Options{
		Store: n.Store, Plan: p, Recording: n.Recording(p), Secret: n.live.Secret, Owner: apply.LookupOwners(n.Root),
	}
	if n.env.Redactor != nil {
		o.Holds = n.env.Redactor.Holds
	}
	if n.Hardware == "" {
		o.Machine = machineid.Of(n.Root)
	}
	return o
}
