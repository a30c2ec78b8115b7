package probe

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// unitsFunc is a systemd with one unit.
type unitsFunc func(name string) (systemd.Unit, error)

func (f unitsFunc) Look(_ context.Context, name string) (systemd.Unit, error) { return f(name) }

// TestHostListeners checks that a socket on a port of the kubelet is reported with its process, unless it may be the
// kubelet's own.
func TestHostListeners(t *testing.T) {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer socket.Close()
	port := int64(socket.Addr().(*net.TCPAddr).Port)

	for _, c := range []struct {
		name string
		unit string
		port int64
		look systemd.Unit
		err  error
		want int // the id of the process; 0: no listener
	}{
		{name: "the kubelet is stopped", unit: "kubelet.service", port: port, want: os.Getpid()},
		{name: "it runs", unit: "kubelet.service", port: port, look: systemd.Unit{State: unitfile.State{MainPID: 4711}}},
		{name: "systemd does not answer", unit: "kubelet.service", port: port, err: errors.New("broken")},
		{name: "the unit is not known", port: port},
		{name: "another port", unit: "kubelet.service", port: port%65535 + 1},
	} {
		isAsked := false
		units := unitsFunc(func(string) (systemd.Unit, error) {
			isAsked = true
			return c.look, c.err
		})
		l := New(Sources{Units: units, Unit: c.unit})
		got, _, err := tape.Host.Ask(t.Context(), l, tape.HostReq{Ports: []int64{c.port}})
		l.Close()
		pid := 0
		if len(got.Listeners) == 1 {
			pid = got.Listeners[0].PID
		}
		if err != nil || len(got.Listeners) > 1 || pid != c.want {
			t.Errorf("%s: got %+v, %v; want a listener of process %d", c.name, got, err, c.want)
		}
		if c.port != port && isAsked {
			t.Errorf("%s: got a question to systemd, want none: nothing listens", c.name)
		}
	}

	other := newLive(t, Sources{Root: t.TempDir(), Unit: "kubelet.service"})
	if got, a, err := tape.Host.Ask(t.Context(), other, tape.HostReq{}); err == nil {
		t.Errorf("below a root: got %+v (%v), want a failure", got, a)
	}
}
