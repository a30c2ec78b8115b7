// Package delivery pulls the site of a node: Update asks the places that the node names, verifies a new site and stores
// it as a layer of the next run. A failure keeps the last verified site. Only a command imports the package: a boot
// reads the stored site (internal/machine/pulledsite.go), and contains no client of registries.
//
// Start with Update; verify.go decides which sites a node accepts, store.go stores them.
package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/registry"
	"github.com/prelet/prelet/schema"
)

// Bounds of an update. prelet-site.service has a longer timeout than all of them together.
const (
	maxUpdate  = 3 * time.Minute  // while no site can be used; else each place is asked once
	maxPlace   = 40 * time.Second // for one place
	firstPause = 2 * time.Second  // between tries; it doubles
)

// Registry is where sites are.
type Registry interface {
	Resolve(ctx context.Context, ref registry.Reference) (string, error)
	Pull(ctx context.Context, ref registry.Reference) (*registry.Artifact, error)
}

// Config replaces parts of the machine in tests. The zero value is that of a node.
type Config struct {
	Registry  Registry                    // nil: the client for the delivery block
	WaitClock func(context.Context) error // returns nil as soon as the clock is set; nil: that of systemd
	InBoot    bool                        // try again while there is no site; true in prelet-site.service
	Step      func(name string) error     // is called before each step of storing; its error is a power cut
}

// Result is how an update ended: the document of `site update -o json`.
type Result struct {
	report.Delivery
	IsOn    bool `json:"delivered"` // false: this node pulls no site
	Changed bool `json:"changed"`   // a new site was stored
}

// updater is one update.
type updater struct {
	Config
	machine.Sources
	env    *machine.Env
	host   *machine.Host
	block  schema.Delivery
	store  *store
	record *report.Delivery

	hasGeneration bool
}

// Update looks for a new site of this node, or of the one below a root. The error says why the last look failed; a site
// in the result is used in spite of it.
func Update(ctx context.Context, e *machine.Env, root string, c Config) (Result, error) {
	h, err := e.HostOf(root, true)
	if err != nil {
		return Result{}, err
	}
	defer h.Units.Close()
	if h.IsOff() {
		return Result{}, nil
	}

	w := machine.Where{Root: h.Root}
	block, failed := readBlock(e, w)
	var sources machine.Sources
	if failed == nil {
		sources, failed = machine.SiteSources(e.SiteCredentials(w), w, block)
	}
	isDelivered := len(sources.From) > 0 || failed != nil && machine.HasPulled(w, block)
	if !isDelivered || machine.IsForUnit(failed) {
		if failed != nil && fault.CodeOf(failed) == fault.Internal {
			failed = machine.UnreadSources(failed)
		}
		return Result{}, failed
	}

	u := &updater{Config: c, env: e, host: h, block: block, Sources: sources}
	if err := u.lookAtGenerations(); err != nil {
		return Result{IsOn: true}, err
	}
	opened := u.open(ctx)
	if u.store != nil {
		defer u.store.close()
	}
	failed = cmp.Or(opened, failed)

	before := u.record.Digest
	if failed == nil {
		failed = u.openClient(w)
	}
	if failed == nil {
		failed = u.lookUntilUsable(ctx)
	}
	if errors.Is(failed, errPowerCut) {
		return Result{}, failed
	}
	u.record.Failed = ""
	if failed != nil {
		u.record.Failed = e.Redactor.String(failed.Error())
		failed = u.describe(failed)
	}
	u.noteSources(failed == nil)
	u.record.BootID = h.BootID
	if opened == nil {
		last, _ := h.LoadReport() // nil: no run of this boot has put a site in place
		err = u.store.writeRecord(u.record, last.SiteInPlace())
	}
	if !h.IsBelow() { // also if the disk does not take the record
		err = errors.Join(err, report.ReplaceDelivery(h.RunDir, h.BootID, *u.record))
	}

	return Result{Delivery: *u.record, IsOn: true, Changed: u.record.Digest != before}, errors.Join(failed, err)
}

// readBlock returns the delivery block of a site without a pulled layer: a pulled site must not change where the next
// one comes from. Of a site that is refused it is an error, unless the block itself was read.
func readBlock(e *machine.Env, w machine.Where) (schema.Delivery, error) {
	o := machine.SiteOptions(e.Version)
	o.Root = w.Root
	o.Verify = machine.Verifier(w.Root)
	site, diags := lang.Load(lang.OS(), o)
	if code := origin.Code(diags); site.Delivery == nil && code != "" && code != fault.NoSite {
		isError := func(d *hcl.Diagnostic) bool { return d.Severity == hcl.DiagError }
		return schema.Delivery{}, &fault.Fault{
			Code:    code,
			Summary: "The delivery block cannot be read",
			Err:     errors.New(origin.OneLine(diags[slices.IndexFunc(diags, isError)])),
		}
	}

	return schema.ReadDelivery(site.Delivery), nil
}

// noteSources stores the value of a credential or a parameter, for commands that do not get it: at a success, and
// before the first one.
func (u *updater) noteSources(isSuccess bool) {
	if len(u.From) == 0 { // not known
		return
	}
	u.record.IsKept = u.IsKept
	if isSuccess || u.record.Digest == "" {
		u.record.Given = nil
		if u.IsGiven {
			u.record.Given = u.From
		}
	}
}

// open takes the lock of the sites, and reads the record.
func (u *updater) open(ctx context.Context) (err error) {
	u.store, err = openStore(ctx, u.host.StateDir(), u.Step)
	if err != nil {
		err = fault.CannotWrite.Errorf("the folder of pulled sites: %s", err)
	}

	var damaged error
	u.record, damaged = machine.ReadDelivery(u.host.StateDir())
	if damaged != nil {
		u.record = machine.NewDelivery()
	}
	if damaged != nil && !errors.Is(damaged, fs.ErrNotExist) {
		u.env.Say(fmt.Sprintf("the record of the pulled site is made again: %s", damaged))
	}

	return err
}

// openClient makes the client of registries.
func (u *updater) openClient(w machine.Where) (err error) {
	if u.WaitClock == nil {
		u.WaitClock = machine.WaitClock
	}
	if u.Registry == nil {
		u.Registry, err = newClient(u.env, w, u.block)
	}

	return err
}

// isUsable reports whether a run can use the stored site: also with the keys and the prelet of this image.
func (u *updater) isUsable() bool {
	if machine.CheckPulled(u.host.StateDir(), u.record, u.block) != nil {
		return false
	}
	_, err := newVerifier(u, registry.Reference{}).load(machine.PulledFolder(u.host.StateDir(), u.record.Digest))

	return err == nil
}

// lookAtGenerations reports whether the node may have a generation, with which its kubelet starts without a site. It
// refuses a state folder of another user, and one of an image that a link leads out of it.
func (u *updater) lookAtGenerations() error {
	store, err := generation.OpenReadOnly(u.host.StoreOptions())
	if err != nil {
		return err
	}
	defer store.Close()
	current, err := store.Current()
	u.hasGeneration = err != nil || current != nil

	return nil
}

// lookUntilUsable looks once. While the kubelet would not start because there is no site, it tries again until
// maxUpdate is over.
func (u *updater) lookUntilUsable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxUpdate)
	defer cancel()
	isOnce := u.block.Alone || !u.InBoot && !machine.IsInUnit(machine.SiteUnit) || u.hasGeneration

	for pause := firstPause; ; pause *= 2 {
		err := u.look(ctx)
		if err == nil || isOnce || errors.Is(err, errPowerCut) || !isTransient(err) || u.isUsable() {
			return err
		}
		u.env.Say(fmt.Sprintf("there is no site yet, and the next try is in %s: %s", pause, err))
		if u.host.Clock.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// look asks the places in their order until the node accepts a site, or the first place has the stored site.
func (u *updater) look(ctx context.Context) error {
	var failures []error
	first := ""
	for i, text := range u.From {
		ref, err := registry.Parse(text)
		if i == 0 {
			first = ref.Digest
		}
		if err == nil {
			err = u.ask(ctx, ref, i == 0 || ref.Digest != "" && ref.Digest == first)
		}
		if err == nil {
			u.record.LookedAt = u.host.Clock.Now().UTC()
			return nil
		}
		if errors.Is(err, errPowerCut) {
			return err
		}
		failures = append(failures, err)
	}

	return joined(failures)
}

// ask asks one place. Where an earlier one has failed, only a site with a higher counter than the stored one is taken:
// a folder on the machine must not hide that the registry is not reached. isFirst is also true for a
// place with the digest that the first one names: the site is the same.
func (u *updater) ask(ctx context.Context, ref registry.Reference, isFirst bool) (err error) {
	v := newVerifier(u, ref)
	if v.signers == nil && ref.Digest == "" {
		return fault.SiteDelivery.Errorf("%s: the image has no keys (/usr/lib/prelet/site-signers), "+
			"so a site is trusted by its digest only: write %s", ref, ref.At("sha256:…"))
	}

	ctx, cancel := context.WithTimeout(ctx, maxPlace)
	defer cancel()
	digest := ref.Digest
	if digest == "" || digest != u.record.Digest { // else nothing else can be there
		digest, err = u.resolve(ctx, ref)
	}
	if err != nil {
		return err
	}
	isStored := digest == u.record.Digest && u.isUsable()
	if isStored && isFirst {
		u.record.Reference, u.record.Tag = ref.String(), ref.Tag
		return nil
	}
	if isStored {
		return fault.SiteDelivery.Errorf("%s: it has the site that is stored", ref)
	}

	files, err := u.pull(ctx, ref.At(digest))
	if err != nil {
		return err
	}
	next, err := v.verify(ctx, digest, files)
	if err != nil {
		u.record.Refused = &report.Refused{
			Digest: digest, Content: machine.SumFiles(files), Reason: u.env.Redactor.String(err.Error()),
		}
		return fault.SiteDelivery.Errorf("%s: the site %s is refused: %s", ref, digest, err)
	}
	if !isFirst && u.isUsable() && next.Counter <= u.record.Counter {
		return fault.SiteDelivery.Errorf("%s: the site there (counter %d) is not newer than the stored one (%d), "+
			"and the first place names another digest or none", ref, next.Counter, u.record.Counter)
	}
	next.Earlier = earlierThan(digest, u.record)
	u.record = next

	return nil
}

// earlierThan returns the sites before a new one, the last first: a refused site takes the place of none of them.
func earlierThan(digest string, last *report.Delivery) []string {
	isGone := func(d string) bool { return d == "" || d == digest }
	all := slices.DeleteFunc(append([]string{last.Digest}, last.Earlier...), isGone)

	return all[:min(len(all), maxKept)]
}

// pull stores the files of a digest, and returns them. Those of the last site that was refused are stored: a key, the
// clock or another layer may have changed since, and the registry need not be asked for them again.
func (u *updater) pull(ctx context.Context, ref registry.Reference) (map[string][]byte, error) {
	if r := u.record.Refused; r != nil && r.Digest == ref.Digest {
		files, err := machine.ReadPulled(machine.PulledFolder(u.host.StateDir(), r.Digest))
		if err == nil && machine.SumFiles(files) == r.Content {
			return files, nil
		}
	}

	got, err := u.Registry.Pull(ctx, ref)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, f := range got.Files {
		files[f.Name] = f.Text
	}

	return files, u.store.put(got)
}

// resolve returns the digest of a reference. A certificate that is not valid yet waits for the clock.
func (u *updater) resolve(ctx context.Context, ref registry.Reference) (string, error) {
	digest, err := u.Registry.Resolve(ctx, ref)
	if !isNotYetValid(err, u.host.Clock.Now()) {
		return digest, err
	}

	u.env.Say("waiting until the clock is set: " + err.Error())
	if u.WaitClock(ctx) != nil {
		return "", err
	}

	return u.Registry.Resolve(ctx, ref)
}

// describe returns the failure of an update, with the site that the node keeps.
func (u *updater) describe(failed error) error {
	f := &fault.Fault{Code: fault.SiteDelivery, Summary: "No site could be pulled", Err: failed}
	var known *fault.Fault
	if errors.As(failed, &known) {
		f.Code = known.Code
	}
	switch {
	case u.isUsable():
		at := u.record.PulledAt.Format(time.RFC3339)
		f.Next = fmt.Sprintf("the node keeps the site %s of %s", u.record.Digest, at)
	case u.block.Alone:
		f.Next = "the node uses the site of its image"
	}

	return f
}

// joined returns failures as one line. The code is that of the first.
func joined(all []error) error {
	if len(all) == 1 {
		return all[0]
	}
	var texts []string
	for _, err := range all {
		texts = append(texts, err.Error())
	}

	return fault.CodeOf(all[0]).Errorf("%s", strings.Join(texts, "; "))
}
