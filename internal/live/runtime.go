package live

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/cri"
	"github.com/prelet/prelet/internal/hardware"
	"github.com/prelet/prelet/internal/world"
)

const (
	usualRuntime = "unix:///run/containerd/containerd.sock" // the kubelet's own default
	// A runtime that runs answers in a millisecond. One that does not is asked beside the cluster, and holds nobody up for long.
	runtimePatience = 200 * time.Millisecond
)

// runtime is the container runtime that this machine is configured for. That it does not run yet, or that this user may not ask
// it, is nothing to tell.
func (l *Live) runtime(ctx context.Context) *world.RuntimeAns {
	if l.o.Hardware != "" {
		return nil // its facts have what its tree has
	}
	ask := cri.Ask
	if l.o.Root != "" {
		ask = nil
	}
	configured := hardware.RuntimeOf(ctx, l.o.Root)
	ctx, cancel := context.WithTimeout(ctx, runtimePatience)
	defer cancel()
	return runtimeOf(ctx, configured, ask)
}

// runtimeOf is a runtime by its configuration and by what it says where it can be asked (nil: not here). Nil: none is known.
func runtimeOf(ctx context.Context, set world.Runtime, ask func(context.Context, string) (cri.Runtime, error)) *world.RuntimeAns {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	r := &world.RuntimeAns{Endpoint: cmp.Or(text(set.Endpoint), usualRuntime), Name: text(set.Name), Driver: text(set.CgroupDriver)}
	if socket, ok := strings.CutPrefix(r.Endpoint, "unix://"); ok && ask != nil {
		told, _ := ask(ctx, socket)
		switch {
		case told.Name == "" || told.Name == r.Name:
		case r.Name == "" && told.Name == "containerd":
			r.Driver = "cgroupfs" // without a configuration
		default:
			r.Driver = "" // of another runtime
		}
		r.Name, r.Version, r.Told = cmp.Or(told.Name, r.Name), told.Version, told.Driver
	}
	if r.Name == "" {
		return nil
	}
	return r
}
