package live

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/probe/cri"
	"github.com/prelet/prelet/internal/probe/hardware"
	"github.com/prelet/prelet/internal/world"
)

const (
	usualRuntime = "unix:///run/containerd/containerd.sock" // the kubelet's own default
	// runtimePatience limits the question to the runtime. One that runs answers within a millisecond.
	runtimePatience = 200 * time.Millisecond
)

// findRuntime returns the container runtime that this machine is configured for, nil if none is known. It is no error
// if the runtime does not run yet, or if this user may not connect to it. The facts of a recorded machine have its
// runtime.
func (l *Live) findRuntime(ctx context.Context) *world.RuntimeAns {
	if l.o.Hardware != "" {
		return nil
	}
	ask := cri.Ask
	if l.o.Root != "" {
		ask = nil
	}

	configured := hardware.RuntimeOf(ctx, l.o.Root)
	ctx, cancel := context.WithTimeout(ctx, runtimePatience)
	defer cancel()
	return mergeRuntime(ctx, configured, ask)
}

// mergeRuntime returns a runtime by its configuration and by its own answer, nil if none is known. ask connects to its
// socket; nil: not from here.
func mergeRuntime(
	ctx context.Context, configured world.Runtime, ask func(ctx context.Context, socket string) (cri.Runtime, error),
) *world.RuntimeAns {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}

	r := &world.RuntimeAns{
		Endpoint: cmp.Or(text(configured.Endpoint), usualRuntime),
		Name:     text(configured.Name),
		Driver:   text(configured.CgroupDriver),
	}
	if socket, ok := strings.CutPrefix(r.Endpoint, "unix://"); ok && ask != nil {
		answer, _ := ask(ctx, socket) // what it answered before an error counts
		switch {
		case answer.Name == "" || answer.Name == r.Name:
		case r.Name == "" && answer.Name == "containerd":
			r.Driver = "cgroupfs" // the default of a containerd without a configuration
		default:
			r.Driver = "" // the configuration is that of another runtime
		}
		r.Name, r.Version, r.Told = cmp.Or(answer.Name, r.Name), answer.Version, answer.Driver
	}

	if r.Name == "" {
		return nil
	}
	return r
}
