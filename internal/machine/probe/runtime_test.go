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
)

func TestMergeRuntime(t *testing.T) {
	p := func(s string) *string { return &s }
	configured := tape.Runtime{Endpoint: p("unix:///run/x.sock"), Name: p("containerd"), CgroupDriver: p("systemd")}
	refused := errors.New("connection refused")
	containerd := func(version, reported, driver string) *tape.RuntimeAns {
		return &tape.RuntimeAns{
			Endpoint: "unix:///run/x.sock", Name: "containerd", Version: version, Reported: reported, Driver: driver,
		}
	}

	for _, c := range []struct {
		name       string
		configured tape.Runtime
		answer     cri.Runtime
		err        error
		want       *tape.RuntimeAns
	}{
		{"nothing is configured, and nothing answers", tape.Runtime{}, cri.Runtime{}, refused, nil},
		{"it does not run", configured, cri.Runtime{}, refused, containerd("", "", "systemd")},
		{
			"it does not report its driver", configured, cri.Runtime{Name: "containerd", Version: "1.6.20"}, nil,
			containerd("1.6.20", "", "systemd"),
		},
		{
			"it reports its driver", configured,
			cri.Runtime{Name: "containerd", Version: "v2.0.1", Driver: "cgroupfs"}, nil,
			containerd("v2.0.1", "cgroupfs", "systemd"),
		},
		{
			"it answers, and breaks off", configured, cri.Runtime{Name: "containerd", Version: "v2.0.1"}, refused,
			containerd("v2.0.1", "", "systemd"),
		},
		{
			"another runtime than the configured one", configured, cri.Runtime{Name: "cri-o", Version: "1.30.1"}, nil,
			&tape.RuntimeAns{Endpoint: "unix:///run/x.sock", Name: "cri-o", Version: "1.30.1"},
		},
		{
			"containerd without a configuration", tape.Runtime{}, cri.Runtime{Name: "containerd", Version: "1.7.2"}, nil,
			&tape.RuntimeAns{Endpoint: defaultRuntime, Name: "containerd", Version: "1.7.2", Driver: "cgroupfs"},
		},
		{
			"an endpoint that is not a socket", tape.Runtime{Endpoint: p("tcp://127.0.0.1:1"), Name: p("x")},
			cri.Runtime{Name: "never asked"}, nil,
			&tape.RuntimeAns{Endpoint: "tcp://127.0.0.1:1", Name: "x"},
		},
	} {
		ask := func(_ context.Context, socket string) (cri.Runtime, error) {
			if "unix://"+socket != defaultRuntime && socket != "/run/x.sock" {
				t.Errorf("%s: asked at %s, want the configured or the usual socket", c.name, socket)
			}
			return c.answer, c.err
		}
		if got := mergeRuntime(t.Context(), c.configured, ask); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
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
