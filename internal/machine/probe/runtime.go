package probe

import (
	"cmp"
	"context"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/prelet/prelet/internal/machine/probe/cri"
	"github.com/prelet/prelet/internal/machine/probe/hardware"
	"github.com/prelet/prelet/internal/model/tape"
)

const (
	defaultRuntime = "unix:///run/containerd/containerd.sock" // the kubelet's own default
	// runtimeTimeout limits the requests to the runtime. A running one responds within a millisecond.
	runtimeTimeout = 200 * time.Millisecond
)

// findRuntime returns the container runtime that this machine is configured for; nil if none is known. It is not an
// error if the runtime does not run yet, or if this user may not connect to it. The runtime of a recorded machine is in
// its facts.
func (l *Live) findRuntime(ctx context.Context) *tape.RuntimeAns {
	if l.o.Hardware != "" {
		return nil
	}

	ask := cri.Ask
	if l.o.Root != "" {
		ask = nil
	}
	configured := hardware.RuntimeOf(ctx, l.o.Root)

	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()

	return mergeRuntime(ctx, configured, ask)
}

// mergeRuntime returns a runtime by its configuration and its responses, nil if none is known. ask connects to its
// socket; nil if that is not possible from here.
func mergeRuntime(
	ctx context.Context,
	configured tape.Runtime,
	ask func(ctx context.Context, socket string) (cri.Runtime, error),
) *tape.RuntimeAns {
	r := &tape.RuntimeAns{
		Endpoint: cmp.Or(ptr.Deref(configured.Endpoint, ""), defaultRuntime),
		Name:     ptr.Deref(configured.Name, ""),
		Driver:   ptr.Deref(configured.CgroupDriver, ""),
	}

	if socket, isSocket := strings.CutPrefix(r.Endpoint, "unix://"); isSocket && ask != nil {
		reported, _ := ask(ctx, socket) // with an error, the fields before it are used

		switch {
		case reported.Name == "" || reported.Name == r.Name:
		case r.Name == "" && reported.Name == "containerd":
			r.Driver = "cgroupfs" // the default of a containerd without a configuration
		default:
			r.Driver = "" // the configuration is that of another runtime
		}

		r.Name = cmp.Or(reported.Name, r.Name)
		r.Version = reported.Version
		r.Reported = reported.Driver
		r.NoConfig = reported.NoConfig
	}

	if r.Name == "" {
		return nil
	}

	return r
}

// ConfiguredRuntime returns the endpoint of the container runtime that the files below a root configure; "" for none.
func ConfiguredRuntime(ctx context.Context, root string) string {
	return ptr.Deref(hardware.RuntimeOf(ctx, root).Endpoint, "")
}
