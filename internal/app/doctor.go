package app

import (
	"cmp"
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/prelet/prelet/internal/apply"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/doctor"
	"github.com/prelet/prelet/internal/generation"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/program"
	"github.com/prelet/prelet/internal/nodefile"
	"github.com/prelet/prelet/internal/probe"
	"github.com/prelet/prelet/internal/systemd"
)

// doctorPatience bounds what is asked of the cluster: a preflight is read by somebody who waits.
const doctorPatience = 20 * time.Second

// Doctor looks whether the node below us is fit for a boot with the site of w. It writes nothing but what the kubelet's binary
// says, as root.
func (e *Env) Doctor(ctx context.Context, w Where) ([]doctor.Finding, error) {
	h := e.Host(ctx)
	defer h.Units.Close()
	w.Root = h.Root
	n, diags, err := e.Open(w, nil)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	in := doctor.Input{Root: os.Geteuid() == 0, Systemd: h.Systemd, Loaded: diags, Kubeadm: nodefile.Root(h.Root).TextIfReadable(kubelet.KubeadmDeb().KubeadmFlagsFile)}
	given := func(name string) error {
		return systemd.NewCredentials(e.Getenv).CheckGiven(h.Root, BootUnit, name)
	}
	asked := askKubelet(ctx, h)
	in.Binary = doctor.Binary{Path: asked.Path, Version: asked.Version}
	if !diags.HasErrors() {
		in.Loaded = append(in.Loaded, boot.CheckFor(n.Site, boot.Witnesses(), "")...)
		n.source = doctor.LimitSource(n.source, n.joined(), given)
		short, cancel := context.WithTimeout(ctx, doctorPatience)
		in.Plan = n.Plan(short, e.Progress)
		cancel()
		if v := in.Plan.Kubelet.Version; v != nil && in.Binary.Version == "" {
			in.Binary.Version = *v
		}
	}
	in.Unit, in.Gate = unitOf(ctx, h, in.Plan)
	in.Clock = systemd.CheckClock(ctx)
	in.Runtime = runtimeOf(ctx, in.Plan)
	if p := in.Plan; p != nil {
		for _, name := range p.Credentials() {
			in.Secrets = append(in.Secrets, doctor.Secret{Name: name, Err: given(name), Needed: name != p.Access.Token || !p.Kubelet.Joined})
		}
	}
	in.Places = placesOf(h, in.Plan)
	in.Kept = keptBy(n.Store, h)
	return doctor.Examine(in), nil
}

// askKubelet asks the kubelet's binary, and keeps what it said where that is this user's to keep.
func askKubelet(ctx context.Context, h *Host) program.Examined {
	cache := filepath.Join(h.StateDir(), "kubelet.json")
	asked := program.Examine(ctx, h.Root, cache)
	if st, err := os.Stat(h.StateDir()); err == nil && st.IsDir() && os.Geteuid() == 0 && asked.Keep != nil {
		_ = apply.WriteIfChanged(cache, asked.Keep) // else the next boot asks again
	}
	return asked
}

// runtimeOf is the container runtime: what the plan was told of it, or else whether anybody answers there.
func runtimeOf(ctx context.Context, p *boot.Plan) (r doctor.Runtime) {
	switch {
	case p == nil:
		return r
	case p.Kubelet.Runtime != nil:
		k := p.Kubelet.Runtime
		r.Endpoint, r.Driver = k.Endpoint, cmp.Or(k.Told, k.Driver)
		if k.Version != "" {
			return r
		}
	case p.Facts != nil && p.Facts.Runtime.Endpoint != nil:
		r.Endpoint = *p.Facts.Runtime.Endpoint
	default:
		return r
	}
	r.Err = probe.DialRuntime(ctx, r.Endpoint)
	return r
}

func unitOf(ctx context.Context, h *Host, p *boot.Plan) (doctor.Unit, doctor.Gate) {
	u := doctor.Unit{Name: "kubelet.service"}
	if p != nil && p.Restart.Unit != "" {
		u.Name = p.Restart.Unit
	}
	if h.Systemd {
		look, err := h.Units.Look(ctx, u.Name)
		u.Err, u.Load, u.File = err, look.Load, look.File
		for _, f := range look.EnvironmentFiles {
			u.Gated = u.Gated || f.Path == h.Gate().Path() && !f.Optional
		}
	}
	var g doctor.Gate
	g.Generation, g.Open, g.Err = h.Gate().State()
	g.Why = h.Gate().Reason()
	return u, g
}

// placesOf are the folders that a run writes to: those of the plan's files, or, where there is no plan, of a kubelet's.
func placesOf(h *Host, p *boot.Plan) (out []doctor.Place) {
	l := kubelet.KubeadmDeb()
	paths := []string{"/var/lib/prelet/x", l.ConfigFile, l.CAFile}
	if p != nil {
		for _, f := range p.Node.Files {
			paths = append(paths, f.Path)
		}
	}
	for _, file := range paths {
		d := nodefile.Root(h.Root).FindDisk(file)
		if slices.ContainsFunc(out, func(p doctor.Place) bool { return p.Path == d.Path }) {
			continue
		}
		out = append(out, doctor.Place{Disk: d, For: path.Dir(file)})
	}
	return out
}

// keptBy is what earlier runs have left; the store is nil where it could not be opened.
func keptBy(store *generation.Store, h *Host) doctor.Kept {
	if store == nil {
		if store, err := generation.OpenReadOnly(h.StoreOptions()); err != nil {
			return doctor.Kept{Err: err}
		} else {
			defer store.Close()
			return keptBy(store, h)
		}
	}
	var k doctor.Kept
	if cur, err := store.Current(); err != nil {
		k.Err = err
	} else if cur != nil {
		k.Current = cur.Gen
	}
	if j, err := store.Journal(); err != nil {
		k.Err = err
	} else {
		k.Journal = j
	}
	if held, err := store.HeldAll(); err != nil {
		k.Err = err
	} else {
		k.Held = held
	}
	if _, why, ok := store.Pinned(); ok {
		k.Pinned = why
	}
	if holder, ok := store.LockHolder(); ok {
		k.Lock = holder.String()
	}
	return k
}
