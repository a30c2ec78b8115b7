package live

import (
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
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	set := hardware.RuntimeOf(l.o.Root)
	r := &world.RuntimeAns{Endpoint: text(set.Endpoint), Name: text(set.Name), Driver: text(set.CgroupDriver)}
	known := r.Endpoint != ""
	if !known {
		r.Endpoint = usualRuntime
	}
	if socket, ok := strings.CutPrefix(r.Endpoint, "unix://"); ok && l.o.Root == "" {
		ctx, cancel := context.WithTimeout(ctx, runtimePatience)
		defer cancel()
		told, _ := cri.Ask(ctx, socket)
		switch {
		case told.Name == "":
		case !known && told.Name == "containerd":
			r.Driver = "cgroupfs" // without a configuration
		case known && told.Name != r.Name:
			r.Driver = ""
		}
		if told.Name != "" {
			r.Name, r.Version, r.Told = told.Name, told.Version, told.Driver
		}
	}
	if r.Name == "" {
		return nil
	}
	return r
}
