package live

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/prelet/prelet/internal/cri"
	"github.com/prelet/prelet/internal/world"
)

func TestMergeRuntime(t *testing.T) {
	p := func(s string) *string { return &s }
	set := world.Runtime{Endpoint: p("unix:///run/x.sock"), Name: p("containerd"), CgroupDriver: p("systemd")}
	away := errors.New("connection refused")
	for _, c := range []struct {
		name string
		set  world.Runtime
		told cri.Runtime
		err  error
		want *world.RuntimeAns
	}{
		{"nothing is configured, and nobody answers", world.Runtime{}, cri.Runtime{}, away, nil},
		{"it does not run", set, cri.Runtime{}, away, &world.RuntimeAns{Endpoint: "unix:///run/x.sock", Name: "containerd", Driver: "systemd"}},
		{"it does not tell its driver", set, cri.Runtime{Name: "containerd", Version: "1.6.20"}, nil, &world.RuntimeAns{Endpoint: "unix:///run/x.sock", Name: "containerd", Version: "1.6.20", Driver: "systemd"}},
		{"it tells", set, cri.Runtime{Name: "containerd", Version: "v2.0.1", Driver: "cgroupfs"}, nil, &world.RuntimeAns{Endpoint: "unix:///run/x.sock", Name: "containerd", Version: "v2.0.1", Told: "cgroupfs", Driver: "systemd"}},
		{"it tells, and breaks off", set, cri.Runtime{Name: "containerd", Version: "v2.0.1"}, away, &world.RuntimeAns{Endpoint: "unix:///run/x.sock", Name: "containerd", Version: "v2.0.1", Driver: "systemd"}},
		{"another runtime than the configured one", set, cri.Runtime{Name: "cri-o", Version: "1.30.1"}, nil, &world.RuntimeAns{Endpoint: "unix:///run/x.sock", Name: "cri-o", Version: "1.30.1"}},
		{"containerd without a configuration", world.Runtime{}, cri.Runtime{Name: "containerd", Version: "1.7.2"}, nil, &world.RuntimeAns{Endpoint: usualRuntime, Name: "containerd", Version: "1.7.2", Driver: "cgroupfs"}},
		{"an endpoint that is no socket", world.Runtime{Endpoint: p("tcp://127.0.0.1:1"), Name: p("x")}, cri.Runtime{Name: "never asked"}, nil, &world.RuntimeAns{Endpoint: "tcp://127.0.0.1:1", Name: "x"}},
	} {
		got := mergeRuntime(t.Context(), c.set, func(_ context.Context, socket string) (cri.Runtime, error) {
			if "unix://"+socket != usualRuntime && "unix://"+socket != "unix:///run/x.sock" {
				t.Errorf("%s: asked at %s", c.name, socket)
			}
			return c.told, c.err
		})
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Below another root only files count: what runs here is not that machine's.
func TestRuntimeBelowARoot(t *testing.T) {
	root := t.TempDir()
	l := New(Options{Root: root})
	if r := l.findRuntime(t.Context()); r != nil {
		t.Errorf("%+v", r)
	}
	if err := os.MkdirAll(filepath.Join(root, "etc/containerd"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "etc/containerd/config.toml"), []byte("version = 2\n[grpc]\naddress = \"/run/x.sock\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := l.findRuntime(t.Context()); r == nil || *r != (world.RuntimeAns{Endpoint: "unix:///run/x.sock", Name: "containerd", Driver: "cgroupfs"}) {
		t.Errorf("%+v", r)
	}
	if r := New(Options{Hardware: root}).findRuntime(t.Context()); r != nil {
		t.Errorf("%+v", r)
	}
}
