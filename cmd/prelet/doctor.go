package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/apply"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/doctor"
	"github.com/prelet/prelet/internal/generation"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/program"
	"github.com/prelet/prelet/internal/live"
	"github.com/prelet/prelet/internal/present"
)

// doctorPatience bounds what is asked of the cluster: a preflight is read by somebody who waits.
const doctorPatience = 20 * time.Second

func (a *app) doctor() *cobra.Command {
	var w where
	c := &cobra.Command{Use: "doctor", GroupID: "node", Args: noArgument, Short: "Look whether this node is fit for a boot with its site",
		Long: "The kubelet, its unit and the gate, the runtime, cgroups and swap, the clock, credentials, the site and what the kubelet\n" +
			"would make of it, the cluster and its trust, room and permissions on the disk, whose identity is there, what earlier\n" +
			"runs have left, detectors. Each finding says what, why, and what to do. Nothing is changed, and no bootstrap token is\n" +
			"sent. It works without root, and says what it could not look at. As root it asks the kubelet's binary anew and keeps\n" +
			"the answers, so that no boot has to.\n\n" +
			"Exit status 0 when nothing stands in the way, 3 when something does.",
		Example: "  prelet doctor\n  prelet doctor -o json | jq '.findings[] | select(.state != \"ok\")'",
		RunE: func(c *cobra.Command, _ []string) error {
			asJSON, err := w.json()
			if err != nil {
				return err
			}
			if err := w.check(); err != nil {
				return err
			}
			ctx, stop := stoppable(c.Context())
			defer stop()
			found, err := a.examine(ctx, w)
			if err != nil {
				return err
			}
			if asJSON {
				err = a.print(func(o io.Writer) error {
					e := json.NewEncoder(o)
					e.SetEscapeHTML(false)
					return e.Encode(struct {
						FormatVersion int              `json:"format_version"`
						Fit           bool             `json:"fit"`
						Findings      []doctor.Finding `json:"findings"`
					}{1, doctor.Fit(found), found})
				})
			} else {
				err = a.print(func(o io.Writer) error { return present.Doctor(o, found, present.StyleOf(a.stdout, a.getenv)) })
			}
			if err == nil && !doctor.Fit(found) {
				err = exit(3)
			}
			return err
		}}
	w.siteFlags(c)
	c.Flags().StringArrayVar(&w.variables, "var", nil, "value of a variable, `NAME=VALUE` (repeatable)")
	return c
}

// examine finds out what the doctor judges.
func (a *app) examine(ctx context.Context, w where) ([]doctor.Finding, error) {
	h := a.host(ctx)
	defer h.units.Close()
	w.root = h.root
	n, diags, err := a.open(w, nil)
	if err != nil {
		return nil, err
	}
	defer n.close()
	in := doctor.Input{Root: os.Geteuid() == 0, Systemd: h.systemd, Loaded: diags, Kubeadm: live.NodeText(h.root, kubelet.KubeadmDeb().KubeadmFlagsFile)}
	given := func(name string) error {
		return live.CredentialGiven(live.SystemCredentials(a.getenv), h.root, bootUnit, name)
	}
	asked := a.askKubelet(ctx, h)
	in.Binary = doctor.Binary{Path: asked.Path, Version: asked.Version}
	if !diags.HasErrors() {
		in.Loaded = append(in.Loaded, boot.CheckFor(n.site, boot.Witnesses(), "")...)
		n.source = live.AtRest(n.source, n.joined(), given)
		short, cancel := context.WithTimeout(ctx, doctorPatience)
		in.Plan = n.plan(short, a.progress())
		cancel()
		if v := in.Plan.Kubelet.Version; v != nil && in.Binary.Version == "" {
			in.Binary.Version = *v
		}
	}
	in.Unit, in.Gate = a.unitOf(ctx, h, in.Plan)
	in.Clock = live.ClockSet(ctx)
	in.Runtime = runtimeOf(ctx, in.Plan)
	if p := in.Plan; p != nil {
		for _, name := range p.Credentials() {
			in.Secrets = append(in.Secrets, doctor.Secret{Name: name, Err: given(name), Needed: name != p.Access.Token || !p.Kubelet.Joined})
		}
	}
	in.Places = placesOf(h, in.Plan)
	in.Kept = keptBy(n.store, h)
	return doctor.Examine(in), nil
}

// askKubelet asks the kubelet's binary, and keeps what it said where that is this user's to keep.
func (a *app) askKubelet(ctx context.Context, h *host) program.Examined {
	cache := filepath.Join(h.stateDir(), "kubelet.json")
	e := program.Examine(ctx, h.root, cache)
	if st, err := os.Stat(h.stateDir()); err == nil && st.IsDir() && os.Geteuid() == 0 && e.Keep != nil {
		_ = apply.Remember(cache, e.Keep) // else the next boot asks again
	}
	return e
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
	r.Err = live.DialRuntime(ctx, r.Endpoint)
	return r
}

func (a *app) unitOf(ctx context.Context, h *host, p *boot.Plan) (doctor.Unit, doctor.Gate) {
	u := doctor.Unit{Name: "kubelet.service"}
	if p != nil && p.Restart.Unit != "" {
		u.Name = p.Restart.Unit
	}
	if h.systemd {
		look, err := h.units.Look(ctx, u.Name)
		u.Err, u.Load, u.File = err, look.Load, look.File
		for _, f := range look.EnvironmentFiles {
			u.Gated = u.Gated || f.Path == h.gate().Path() && !f.Optional
		}
	}
	var g doctor.Gate
	g.Generation, g.Open, g.Err = h.gate().State()
	g.Why = h.gate().Why()
	return u, g
}

// placesOf are the folders that a run writes to: those of the plan's files, or, where there is no plan, of a kubelet's.
func placesOf(h *host, p *boot.Plan) (out []doctor.Place) {
	l := kubelet.KubeadmDeb()
	paths := []string{"/var/lib/prelet/x", l.ConfigFile, l.CAFile}
	if p != nil {
		for _, f := range p.Node.Files {
			paths = append(paths, f.Path)
		}
	}
	for _, file := range paths {
		d := live.DiskOf(h.root, file)
		if slices.ContainsFunc(out, func(p doctor.Place) bool { return p.Path == d.Path }) {
			continue
		}
		out = append(out, doctor.Place{Path: d.Path, For: path.Dir(file), Err: d.Err, ReadOnly: d.ReadOnly, Writable: d.Writable, FreeBytes: d.FreeBytes, FreeFiles: d.FreeFiles, NoFiles: d.NoFiles})
	}
	return out
}

// keptBy is what earlier runs have left; the store is nil where it could not be opened.
func keptBy(store *generation.Store, h *host) doctor.Kept {
	if store == nil {
		if store, err := generation.OpenReadOnly(h.storeOptions()); err != nil {
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
