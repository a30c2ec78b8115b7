package probe

import (
	"context"
	"errors"
	"net"
	"os"
	"reflect"
	"testing"

	"github.com/prelet/prelet/internal/machine/probe/cri"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/table"
)

func TestMergeRuntime(t *testing.T) {
	configured := tape.Runtime{Endpoint: new("unix:///run/x.sock"), Name: new("containerd"), CgroupDriver: new("systemd")}
	for name, c := range table.YAML[map[string]struct {
		Configured            bool
		Name, Version, Driver string   // of the answer
		Breaks                bool     // off, or nothing answers
		Want                  []string // endpoint, name, version, reported driver, driver
	}](t, `
nothing is configured, and nothing answers: {breaks: true}
it does not run: {configured: true, breaks: true, want: ['{x}', containerd, '', '', systemd]}
it does not report its driver: {configured: true, name: containerd, version: 1.6.20,
  want: ['{x}', containerd, 1.6.20, '', systemd]}
it reports its driver: {configured: true, name: containerd, version: v2.0.1, driver: cgroupfs,
  want: ['{x}', containerd, v2.0.1, cgroupfs, systemd]}
it answers, and breaks off: {configured: true, name: containerd, version: v2.0.1, breaks: true,
  want: ['{x}', containerd, v2.0.1, '', systemd]}
another runtime than the configured one: {configured: true, name: cri-o, version: 1.30.1,
  want: ['{x}', cri-o, 1.30.1, '', '']}
containerd without a configuration: {name: containerd, version: 1.7.2,
  want: ['{usual}', containerd, 1.7.2, '', cgroupfs]}
an endpoint that is not a socket: {name: never asked, want: [tcp://127.0.0.1:1, x, '', '', '']}
`, "x", "unix:///run/x.sock", "usual", defaultRuntime) {
		ask := func(_ context.Context, socket string) (cri.Runtime, error) {
			if "unix://"+socket != defaultRuntime && socket != "/run/x.sock" {
				t.Errorf("%s: asked at %s, want the configured or the usual socket", name, socket)
			}
			if c.Breaks {
				return cri.Runtime{Name: c.Name, Version: c.Version}, errors.New("connection refused")
			}
			return cri.Runtime{Name: c.Name, Version: c.Version, Driver: c.Driver}, nil
		}
		r := tape.Runtime{}
		switch {
		case c.Configured:
			r = configured
		case name == "an endpoint that is not a socket":
			r = tape.Runtime{Endpoint: new("tcp://127.0.0.1:1"), Name: new("x")}
		}
		var want *tape.RuntimeAns
		if w := c.Want; w != nil {
			want = &tape.RuntimeAns{Endpoint: w[0], Name: w[1], Version: w[2], Reported: w[3], Driver: w[4]}
		}
		if got := mergeRuntime(t.Context(), r, ask); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

// TestRuntimeBelowARoot reads only files: what runs here is not the other machine's.
func TestRuntimeBelowARoot(t *testing.T) {
	root := t.TempDir()
	l := New(Sources{Root: root})
	if r := l.findRuntime(t.Context()); r != nil {
		t.Errorf("without a configuration: got %+v, want nil", r)
	}

	dir, err := os.MkdirTemp("", "") // the path of a socket has at most 107 bytes, so t.TempDir is too long
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := dir + "/s"
	listener, err := net.Listen("unix", socket)
	must(t, err)
	asked := make(chan struct{}, 1)
	go func() {
		if c, err := listener.Accept(); err == nil {
			asked <- struct{}{}
			_ = c.Close()
		}
	}()

	place(t, root, "/etc/containerd/config.toml", "version = 2\nimports = [\"conf.d/*.toml\"]\n[grpc]\naddress = \""+socket+"\"\n")
	want := &tape.RuntimeAns{
		Endpoint: "unix://" + socket,
		Name:     "containerd",
		Driver:   "cgroupfs",
	}
	if r := l.findRuntime(t.Context()); !reflect.DeepEqual(r, want) {
		t.Errorf("with a configuration: got %+v, want %+v", r, want)
	}
	if r := New(Sources{Root: root, Hardware: root}).findRuntime(t.Context()); r != nil {
		t.Errorf("a recorded machine: got %+v, want nil", r)
	}

	_ = listener.Close()
	if len(asked) > 0 {
		t.Error("the runtime of this machine was asked, want no connection")
	}
}
