package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/registry"
)

// verifier decides whether a node accepts a site of a reference.
type verifier struct {
	*updater
	ref     registry.Reference
	signers func(text, signature []byte) error // nil: the image has no keys
}

func newVerifier(u *updater, ref registry.Reference) *verifier {
	return &verifier{u, ref, machine.Verifier(u.host.Root)}
}

// verify returns the record of a site that the node accepts: it was signed for this node, and prelet can read it with
// the other layers, so that it does not replace a site that works. Its files are stored.
func (v *verifier) verify(ctx context.Context, digest string, files map[string][]byte) (*report.Delivery, error) {
	next := machine.NewDelivery()
	next.Digest = digest
	next.Reference, next.Tag = v.ref.String(), v.ref.Tag
	next.Ring = v.block.Ring
	next.PulledAt = v.host.Clock.Now().UTC()
	next.Content = machine.SumFiles(files)

	unsigned := fmt.Errorf("it has no %s: sign its folder by prelet site sign, and push it again", lang.ListFile)
	if _, hasList := files[lang.ListFile]; !hasList && v.signers != nil {
		return nil, unsigned
	}

	folder := machine.PulledFolder(v.host.StateDir(), digest)
	site, err := v.load(folder)
	if err != nil || v.signers == nil {
		return next, err
	}

	at := slices.IndexFunc(site.Layers, func(l lang.Layer) bool { return l.Path == folder })
	if at < 0 || site.Layers[at].List == nil {
		return nil, unsigned
	}
	list := site.Layers[at].List
	next.Name, next.Counter = list.Name, list.Counter
	accepted, err := machine.ReadNotBelow(v.host.StateDir())
	if err != nil {
		return nil, err
	}

	return next, list.CheckWanted(lang.Wanted{
		Name:         v.block.Name,
		Ring:         v.block.Ring,
		Repositories: v.repositories(),
		IsFolder:     v.ref.Layout != "",
		NotBelow:     accepted[list.Name],
		Now:          v.clockIfSet(ctx),
	})
}

// load loads the site with a pulled layer.
func (v *verifier) load(folder string) (*lang.Site, error) {
	o := machine.SiteOptions(v.env.Version)
	o.Root = v.host.Root
	o.Pulled = folder
	o.Verify = v.signers
	site, diags := lang.Load(lang.OS(), o)
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			return nil, errors.New(strings.ReplaceAll(origin.OneLine(d), folder+"/", ""))
		}
	}

	return site, nil
}

// repositories returns those that this node asks: a mirror, or a folder, may have the site of another one.
func (v *verifier) repositories() (asked []string) {
	for _, text := range v.From {
		if ref, err := registry.Parse(text); err == nil && ref.Layout == "" {
			asked = append(asked, ref.Name())
		}
	}

	return asked
}

// clockIfSet returns the time, or zero while the clock is not set.
func (v *verifier) clockIfSet(ctx context.Context) time.Time {
	ctx, cancel := context.WithCancel(ctx)
	cancel() // it looks once
	if v.WaitClock(ctx) != nil {
		return time.Time{}
	}

	return v.host.Clock.Now()
}
