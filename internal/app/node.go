package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/app/bundle"
	"github.com/prelet/prelet/internal/app/dryrun"
	"github.com/prelet/prelet/internal/app/rehearsal"
	"github.com/prelet/prelet/internal/app/unitflags"
	"github.com/prelet/prelet/internal/app/userfile"
	"github.com/prelet/prelet/internal/app/waits"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/detector"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/printer"
	"github.com/prelet/prelet/internal/probe"
	"github.com/prelet/prelet/internal/probe/kubeletbin"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages/builtin"
)

// Where is the node and the site of a command.
type Where struct {
	Config    []string // files and folders in place of /etc/prelet and its like
	Root      string   // files and targets are below it; "" is /
	From      string   // a recording that answers all questions that the other fields do not
	Hardware  string   // a recorded machine: a tree, or facts
	Objects   string   // a folder in place of the cluster; with From in place of the objects that it has
	Variables []string // NAME=VALUE
	VarFiles  []string // vars files outside of the site; later ones win, and Variables win over them

	KubeletVersion string   // in place of the installed kubelet's; "" is that one
	Kubelets       []string // binaries of this machine in place of the installed one; upgrade takes several
	Takeover       bool     // join under the name of another machine
	AcceptMissing  bool     // do not keep the values that variables had in the last good generation

	mustBeSigned  bool                          // also if Config names the site's files
	binaries      map[string]*kubeletbin.Binary // those of Kubelets, by version
	takesKubelets bool                          // more than one
	isRun         bool                          // the kubelet's binary is asked only if there is a generation to lose
}

// check refuses flags that exclude each other, and missing paths. It makes Root absolute.
func (w *Where) check() error {
	if w.From != "" && (w.Root != "" || w.Hardware != "") {
		return failure(
			fault.Usage,
			"--from excludes --root and --hardware: a recording is of one machine, with its files",
		)
	}

	for _, v := range w.Variables {
		if strings.Index(v, "=") < 1 {
			return failure(fault.Usage, "--var %s: write NAME=VALUE", v)
		}
	}

	if w.KubeletVersion != "" {
		if err := known.CheckVersion(w.KubeletVersion); err != nil {
			return failure(fault.Usage, "--kubelet-version %s: %s", w.KubeletVersion, err)
		}
	}
	if err := w.openKubelets(); err != nil {
		return err
	}
	if err := w.checkPaths(); err != nil {
		return err
	}

	if w.Root == "" {
		return nil
	}

	abs, err := filepath.Abs(w.Root)
	if err != nil {
		return failure(fault.Usage, "--root %s: %s", w.Root, err)
	}
	w.Root = abs

	return nil
}

// openKubelets starts the binaries of Kubelets for their versions.
func (w *Where) openKubelets() error {
	if len(w.Kubelets) == 0 || w.binaries != nil {
		return nil
	}
	if w.KubeletVersion != "" {
		return failure(fault.Usage, "--kubelet excludes --kubelet-version: the program reports its version itself")
	}

	if len(w.Kubelets) > 1 && !w.takesKubelets {
		return failure(fault.Usage, "--kubelet: one program at a time; prelet upgrade compares several")
	}

	w.binaries = map[string]*kubeletbin.Binary{}
	for _, file := range w.Kubelets {
		b := kubeletbin.At(file)
		version, err := b.Version(context.Background(), true)
		if err == nil && version == "" {
			err = errors.New("no such program")
		}
		if err != nil {
			return failure(fault.Usage, "--kubelet %s: %s", file, err)
		}
		if other := w.binaries[version]; other != nil {
			return failure(fault.Usage, "--kubelet %s: this is %s, as %s is", file, version, other.Path())
		}
		w.binaries[version] = b
		w.KubeletVersion = strings.TrimPrefix(version, "v")
	}

	return nil
}

// takeKubelet takes the kubelet that was found below Root, unless another one is named.
func (w *Where) takeKubelet(found kubeletbin.Examined) {
	if w.KubeletVersion == "" && known.CheckVersion(found.Version) == nil {
		w.KubeletVersion = strings.TrimPrefix(found.Version, "v")
		w.binaries = map[string]*kubeletbin.Binary{found.Version: found.Binary}
	}
}

// checkPaths refuses missing paths. Links in Config are checked when they are read.
func (w *Where) checkPaths() error {
	for _, path := range w.Config {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return failure(fault.Usage, "%s: no such file or folder (--config)", path)
		}
	}

	return cmp.Or(
		checkFolder("--root", w.Root),
		checkFolder("--objects", w.Objects),
		checkHardware(w.Hardware),
	)
}

// checkFolder refuses the value of a flag unless it is "" or a folder.
func checkFolder(flag, path string) error {
	st, err := statFlag(flag, path, "no such folder")
	if err == nil && st != nil && !st.IsDir() {
		err = failure(fault.Usage, "%s %s: no such folder", flag, path)
	}

	return err
}

// checkHardware refuses the value of --hardware unless it is "", facts, or a folder with a recorded machine.
func checkHardware(path string) error {
	st, err := statFlag("--hardware", path, "no such folder or file")
	if err != nil || st == nil || !st.IsDir() {
		return err
	}
	if _, err := os.Stat(filepath.Join(path, "sys")); err != nil {
		return failure(fault.Usage, "--hardware %s: this is not a recorded machine: it has no folder sys", path)
	}

	return nil
}

// statFlag describes the file that the value of a flag names; nil for "".
func statFlag(flag, path, missing string) (fs.FileInfo, error) {
	if path == "" {
		return nil, nil
	}
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrPermission) {
		missing = "permission denied"
	}
	if err != nil {
		return nil, failure(fault.Usage, "%s %s: %s", flag, path, missing)
	}

	return st, nil
}

// readVariables returns the variables of the command line, by name.
func (w *Where) readVariables() (map[string]probe.Given, error) {
	out := map[string]probe.Given{}
	for _, path := range w.VarFiles {
		text, err := userfile.ReadInput(path, userfile.MaxBytes)
		if err != nil {
			return nil, failure(fault.Usage, "--var-file %s: %s", path, err)
		}
		values, err := lang.ParseVarsFile(path, text)
		if err != nil {
			return nil, failure(fault.Usage, "--var-file %s", err)
		}
		for name, value := range values {
			out[name] = probe.Given{
				Text:   value,
				Source: "--var-file " + path,
				IsFile: true,
			}
		}
	}
	for _, v := range w.Variables {
		name, value, _ := strings.Cut(v, "=")
		out[name] = probe.Given{Text: value, Source: "--var"}
	}
	return out, nil
}

// checkVariables refuses a variable of the command line that the site does not declare: a typing error would have no
// effect.
func checkVariables(given map[string]probe.Given, s *lang.Site) (diags hcl.Diagnostics) {
	known := slices.Sorted(maps.Keys(s.Variables))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if s.Variables[name] == nil {
			diags = append(diags, origin.Error(
				fault.VariableUnknown,
				hcl.Range{},
				fmt.Sprintf("Unknown variable %q", name),
				"%s names it, and the site does not declare it. %s",
				given[name].Source,
				schema.Suggest(name, known),
			))
		}
	}
	return diags
}

// load reads the site: the files of w.Config, those in the usual places, or those inside a recording.
func (w *Where) load(rec *world.Recording, version string) (*lang.Site, hcl.Diagnostics) {
	if rec != nil && len(w.Config) == 0 {
		return lang.Parse(rec.Header.Site, pastOptions(version))
	}
	o := siteOptions(version)
	o.Paths = w.Config
	o.Root = w.Root
	if w.From != "" {
		return lang.Load(anyOwner{lang.OS()}, o)
	}
	isDraft := !w.mustBeSigned && len(w.Config) > 0
	if !isDraft {
		o.Verify = verifier(w.Root)
	}

	s, diags := lang.Load(lang.OS(), o)
	if isDraft && !diags.HasErrors() {
		o.Verify = verifier(w.Root)
		diags = append(diags, warnUnsigned(o)...)
	}
	if refused := checkCounter(w.stateDir(), s.Counter); refused != nil {
		diags = append(diags, refused)
	}

	return s, diags
}

// anyOwner has the files of a site that does not control this machine, as in a checkout or in a container of CI: other
// users may change them.
type anyOwner struct{ lang.Files }

// CheckTrusted implements lang.Files.
func (anyOwner) CheckTrusted(string) error { return nil }

// siteOptions returns the options of every site that this program reads.
func siteOptions(version string) lang.Options {
	return lang.Options{Stages: builtin.Stages(), Version: version}
}

// pastOptions returns the options of a site that is not going to run: that of a recording, or one to compare with.
func pastOptions(version string) lang.Options {
	o := siteOptions(version)
	o.IsPast = true

	return o
}

// openNode is a site with the source that answers its questions.
type openNode struct {
	Where
	env       *Env
	Site      *lang.Site
	source    world.Source
	live      *probe.Live   // nil with a recording
	asker     *dryrun.Asker // of the installed kubelet, nil if that is not asked
	askers    askers
	detectors *detector.Host    // likewise
	asked     *rehearsal.Source // nil where every answer is the node's
	rec       *world.Recording
	Store     *generation.Store        // nil where it could not be opened
	past      func() *world.LastGood   // the last good generation's recording; nil where none counts
	waits     *waits.Reporter          // prints each wait; nil with a recording
	units     Manager                  // to be closed; nil where another has it, or there is none
	machine   func() machineid.Machine // read once; unknown with recorded hardware
	only      hclsyntax.Expression     // see boot.Options
	isPartial bool                     // see boot.Options
	advises   bool                     // see boot.Options
	checks    *boot.Checks             // of the site, in plans of many machines; nil otherwise
}

// stateDir returns prelet's own folder.
func (w *Where) stateDir() string {
	return filepath.Join("/", w.Root, "var/lib/prelet")
}

// open loads the site and opens the world. store may be nil; it stays the caller's, as the node is: see Close. The
// messages are those of loading; where they have errors, there is nothing to plan.
func (e *Env) open(w Where, store *generation.Store) (*openNode, hcl.Diagnostics, error) {
	if err := w.check(); err != nil {
		return nil, nil, err
	}
	given, err := w.readVariables()
	if err != nil {
		return nil, nil, err
	}
	rec, err := w.readRecording()
	if err != nil {
		return nil, nil, err
	}
	s, diags := w.load(rec, e.Version)
	learnSite(e.Redactor, given, s)
	if diags.HasErrors() && rec == nil { // what they show of the site may be a copy of a credential
		e.learnCredentials(w, s)
	}
	n, diags := e.openSite(w, store, rec, given, s, diags)

	return n, diags, nil
}

// readRecording reads the recording of w.From; nil for this machine.
func (w *Where) readRecording() (*world.Recording, error) {
	if w.From == "" {
		return nil, nil
	}

	return readRecording(w.From)
}

// openSite opens the world for a site that was loaded with some messages. rec is nil on this machine.
func (e *Env) openSite(
	w Where,
	store *generation.Store,
	rec *world.Recording,
	given map[string]probe.Given,
	s *lang.Site,
	diags hcl.Diagnostics,
) (*openNode, hcl.Diagnostics) {
	n := &openNode{
		Where: w,
		env:   e,
		Store: store,
		Site:  s,
		rec:   rec,
		machine: sync.OnceValue(func() machineid.Machine {
			if w.Hardware != "" {
				return machineid.Machine{}
			}

			return machineid.Of(w.Root)
		}),
	}
	diags = slices.Clone(diags) // those of a site may be of several nodes
	if !diags.HasErrors() {
		diags = append(diags, checkVariables(given, s)...)
	}
	if rec != nil {
		n.source = rec.Source()
		n.rehearse(given)
	} else {
		n.openLive(given)
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

// rehearse puts the values of flags in place of answers of the recording.
func (n *openNode) rehearse(given map[string]probe.Given) {
	n.asked = &rehearsal.Source{
		Recording: n.source,
		Site:      n.Site,
		Given:     given,
		Kubelet:   n.KubeletVersion,
	}
	n.asked.Binaries, n.askers = n.askBinaries(n.env)
	if n.Objects != "" {
		n.asked.Objects = probe.Objects(n.Objects)
	}
	n.source = n.asked
}

// openLive opens this machine as the source of answers.
func (n *openNode) openLive(given map[string]probe.Given) {
	e := n.env
	if n.Store == nil {
		n.Store, _ = generation.OpenReadOnly(generation.Options{Root: n.Root, Dir: n.stateDir()})
	}
	n.waits = &waits.Reporter{Say: e.Say}
	n.detectors = e.detectorHost(n.Where)
	options := probe.Options{
		Root:        n.Root,
		Hardware:    n.Hardware,
		Objects:     n.Objects,
		Site:        n.Site,
		Variables:   given,
		Redactor:    e.Redactor,
		Credentials: e.credentials(n.Where),
		Store:       n.Store,
		StateDir:    n.stateDir(),
		Detectors:   n.detectors,
		Unit:        boot.KubeletUnit(n.Site),
		OnRetry:     n.waits.Retry,
		WaitClock:   n.waits.AnnounceClock(systemd.WaitClock),
	}
	if a := n.newAsker(); a != nil {
		n.asker = a
		n.askers = append(n.askers, a)
		options.DryRun = a.Answer
	}
	if m := e.manager(); m != nil {
		options.Units = m
		if e.On == nil {
			n.units = m
			options.InhibitDelay = systemd.InhibitDelay
		}
	}

	n.live = probe.New(options)
	n.source = n.live
	if n.KubeletVersion != "" || len(n.binaries) > 0 {
		n.asked = &rehearsal.Source{
			Recording: n.live,
			Site:      n.Site,
			Kubelet:   n.KubeletVersion,
		}
		answers, all := n.askBinaries(e)
		if n.knowsUnit() {
			for _, a := range all {
				a.Root = nodefile.Root(n.Root)
				a.Secret = n.Secret
				a.Folder = folderForDryRuns()
			}
		}
		n.asked.Binaries = answers
		n.askers = append(n.askers, all...)
		n.source = n.asked
	}
	if n.Store != nil {
		n.past = n.live.LastGood
	}
}

// knowsUnit reports whether the kubelet's command line can be read in the files of its unit: on this machine, as root.
func (n *openNode) knowsUnit() bool {
	if len(n.binaries) == 0 || !n.isHere() || os.Geteuid() != 0 {
		return false
	}
	_, _, err := unitflags.Unit{Root: nodefile.Root(n.Root), Name: boot.KubeletUnit(n.Site)}.ListWords()

	return err == nil
}

// isHere reports whether the node is this machine.
func (n *openNode) isHere() bool { return n.Root == "" && n.Hardware == "" || n.env.On != nil }

// askers ask kubelets' binaries about a plan; none: no binary is asked.
type askers []*dryrun.Asker

// finish gives all the kubelet of a plan.
func (all askers) finish(k boot.FinishedKubelet) {
	for _, a := range all {
		a.Finish(k)
	}
}

// wereAsked reports whether one of them was asked.
func (all askers) wereAsked() bool {
	return slices.ContainsFunc(all, (*dryrun.Asker).WasAsked)
}

// askBinaries returns what answers for the binaries of Kubelets, by version. They know of the node what the plan does.
func (w *Where) askBinaries(e *Env) (answers map[string]world.Source, all askers) {
	answers = map[string]world.Source{}
	for version, binary := range w.binaries {
		asker := &dryrun.Asker{
			Binary: func() *kubeletbin.Binary { return binary },
			Run:    kubeletbin.DryRun.Run,
			Redact: e.Redactor.String,
		}
		all = append(all, asker)
		answers[version] = world.Adapters{
			world.DryRun.Adapt(asker.Answer),
			world.Accepts.Adapt(func(ctx context.Context, _ world.AcceptsReq) world.Answer {
				return probe.AnswerAccepts(ctx, binary, true)
			}),
		}
	}

	return answers, all
}

// newAsker returns what asks the kubelet's binary of this machine, as root, whether it accepts a plan, or that of an
// image; nil for a recorded machine. At a first boot there is nothing to lose, and the start of the kubelet is the
// answer.
func (n *openNode) newAsker() *dryrun.Asker {
	binary := func() *kubeletbin.Binary { return n.live.KubeletBinary() }
	if isImage := n.Root != "" && n.Hardware == "" && n.env.On == nil; isImage {
		if n.KubeletVersion != "" || !kubeletbin.MayStart(n.Root) {
			return nil
		}
		return &dryrun.Asker{Binary: binary, Run: kubeletbin.DryRun.Run, Redact: n.env.Redactor.String}
	}

	run := dryrun.Run(kubeletbin.DryRun.Run)
	if n.env.On != nil {
		run = n.env.On.DryRun
	}
	if !n.isHere() || n.KubeletVersion != "" || os.Geteuid() != 0 {
		return nil
	}
	if n.isRun && n.Generation() == 0 {
		run = nil
	}

	folder := folderForDryRuns()
	kubeletbin.RemoveLeft(folder) // also if nothing is asked

	return &dryrun.Asker{
		Binary: binary,
		Run:    run,
		IsRun:  n.isRun,
		Root:   nodefile.Root(n.Root),
		Secret: n.Secret,
		Redact: n.env.Redactor.String,
		Folder: folder,
	}
}

// credentials returns the credentials of this process. By hand on a node they are those that a run would get: systemd
// gives them to prelet's units only.
func (e *Env) credentials(w Where) systemd.Credentials {
	own := systemd.NewCredentials(e.Getenv)

	isNode := w.Root == "" && w.Hardware == "" && e.On == nil && systemd.IsRunning()
	if !isNode || isPreletUnit(systemd.OwnUnit()) {
		return own
	}

	return own.OfUnit(ApplyUnit, BootUnit)
}

// manager returns systemd of the machine that commands work on; nil where there is none.
func (e *Env) manager() Manager {
	switch {
	case e.On == nil && systemd.IsRunning():
		return systemd.NewConn()
	case e.On != nil && e.On.Systemd:
		return e.On.Units
	}

	return nil
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
	if len(n.askers) > 0 || n.rec != nil { // a recording may have the answer
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

// readRecording reads a recording, or the one in a bundle.
func readRecording(path string) (*world.Recording, error) {
	read := readRecordingFile
	if bundle.IsNamed(path) {
		read = bundle.ReadRecording
	}

	r, err := read(path)
	switch {
	case os.IsNotExist(err):
		return nil, failure(fault.RecordingInvalid, "--from %s: no such recording", path)
	case err != nil:
		return nil, failure(fault.RecordingInvalid, "--from %s: %s", path, err)
	}

	return r, nil
}

func readRecordingFile(path string) (*world.Recording, error) {
	f, err := userfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	return world.Decode(f)
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

// folderForDryRuns returns where root makes the private folders of dry runs, which may have secrets: in memory.
func folderForDryRuns() string {
	for _, dir := range []string{runDir, filepath.Dir(runDir)} {
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			return dir
		}
	}

	return ""
}
