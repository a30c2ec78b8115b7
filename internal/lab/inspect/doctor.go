package inspect

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/doctor"
	"github.com/prelet/prelet/internal/lab/doctor/image"
	"github.com/prelet/prelet/internal/lab/images"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/model/check"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// doctorTimeout bounds the requests to the cluster: a person waits for the result.
const doctorTimeout = 20 * time.Second

// Examined is whether a node is fit for a boot: the document of `doctor -o json`.
type Examined struct {
	FormatVersion int             `json:"format_version"`
	Fit           bool            `json:"fit"`
	Results       []check.Finding `json:"findings"`
}

// Doctor checks whether this node is fit for a boot with the site of w. As root it stores the output of the kubelet's
// binary; it writes nothing else. Below a root it checks an image that does not run, and writes nothing.
func Doctor(ctx context.Context, e *machine.Env, w lab.Request) (Examined, error) {
	if err := w.Check(); err != nil {
		return Examined{}, err
	}
	if w.Root != "" {
		i, err := images.OpenImage(ctx, e, w)
		return Examined{1, check.Fit(i.Results), i.Results}, err
	}

	if w.KubeletVersion != "" {
		const why = "--kubelet and --kubelet-version need --root: here the installed kubelet is asked"
		return Examined{}, fault.Usage.Errorf(why)
	}

	h := e.Host()
	defer h.Units.Close()
	w.Root = h.Root
	root := nodefile.Root(h.Root)
	n, err := lab.Open(e, w, nil)
	if err != nil {
		return Examined{}, err
	}
	defer n.Close()

	in := doctor.Observations{
		Root:    os.Geteuid() == 0,
		Systemd: h.Systemd,
		Loaded:  n.Found,
	}
	credentials := e.Credentials(w.Where)
	given := func(name string) error {
		_, err := credentials.Read(name)
		if errors.Is(err, systemd.ErrEncrypted) { // systemd decrypts it for the unit
			return nil
		}
		return err
	}
	cache := filepath.Join(h.StateDir(), kubeletbin.CacheFile)
	found := kubeletbin.Examine(ctx, h.Root, cache, n.Live.StartCommand(ctx))
	in.Kubelet = image.Kubelet{Path: found.Path, Version: found.Version, Unread: found.Unread}
	if !n.Found.HasErrors() {
		n.Options.IsPartial = !n.Joined()
		n.Source = doctor.LimitSource(n.Source, n.Joined(), given)
		short, cancel := context.WithTimeout(ctx, doctorTimeout)
		in.Plan = n.Plan(short, nil)
		cancel()
		v := in.Plan.Kubelet.Version
		if v != nil && in.Kubelet.Version == "" {
			in.Kubelet.Version = *v
		}
		o := evaluate.CheckOptions{Kubelet: in.Kubelet.Version}
		in.Loaded = append(in.Loaded, evaluate.Check(n.Site, evaluate.SampleMachines(), o)...)
	}
	if h.Systemd {
		in.Version = h.Units.Version(ctx)
	}
	in.Unit = checkUnit(ctx, h, in.Plan)
	in.Gate = h.Gate().Path()
	in.Kernels = doctor.ReadKernels(root, true)
	in.Secrets = checkCredentials(in.Plan, given)
	if n.Store != nil {
		in.Files = n.Store.Checks(listChanges(root, in.Plan))
	}
	in.Kept = readKept(n.Store, h)
	if err := machine.CheckStopped(ctx); err != nil {
		return Examined{}, err
	}

	results := doctor.Examine(in)
	return Examined{1, check.Fit(results), results}, nil
}

// checkUnit returns the kubelet's unit.
func checkUnit(ctx context.Context, h *machine.Host, p *evaluate.Plan) doctor.NeededUnit {
	var name string
	if p != nil {
		name = p.Restart.Unit
	}
	if name == "" {
		name = h.KubeletUnit()
	}
	var u doctor.NeededUnit
	if h.Systemd {
		u.Unit, u.Err = h.Units.Look(ctx, name)
	}
	u.Name = name
	return u
}

// listChanges returns the files that a run changes, as far as the plan knows them.
func listChanges(root nodefile.Root, p *evaluate.Plan) (out []generation.Entry) {
	if p == nil {
		return nil
	}

	kinds := map[desired.FileKind]generation.Kind{
		desired.Regular:   generation.File,
		desired.Directory: generation.Dir,
	}
	for _, c := range p.Changes {
		f := c.Planned()
		e := generation.Entry{
			Path:   f.Path,
			Action: generation.Action(c.Action),
		}
		e.New.Kind = kinds[f.Kind]
		e.New.Mode = f.Mode
		e.New.UID, e.New.GID, _ = root.FindOwner(f.Owner) // the plan reports an unknown owner
		switch {
		case c.Old.Dir:
			e.Old.Kind = generation.Dir
		case c.Old.Exists:
			e.Old.Kind = generation.File
		}
		out = append(out, e)
	}

	return out
}

// checkCredentials checks the credentials that a plan names. p may be nil.
func checkCredentials(p *evaluate.Plan, given func(string) error) (out []doctor.Secret) {
	if p == nil {
		return nil
	}
	for _, name := range p.Credentials() {
		out = append(out, doctor.Secret{
			Name:   name,
			Err:    given(name),
			Needed: name != p.Access.Token || !p.Kubelet.Joined,
		})
	}
	return out
}

// readKept returns the state that earlier runs have left. The store is nil where it could not be opened.
func readKept(store *generation.Store, h *machine.Host) doctor.Kept {
	if store == nil {
		opened, err := generation.OpenReadOnly(h.StoreOptions())
		if err != nil {
			return doctor.Kept{Err: err}
		}
		defer opened.Close()
		store = opened
	}
	k := doctor.Kept{
		Newer: activation.Newer(store),
		Aside: store.FindAside(),
	}
	cur, err := store.Current()
	if cur != nil {
		k.Current = cur.Gen
	}
	_, journalErr := store.Journal()
	k.Err = cmp.Or(journalErr, err)
	return k
}
