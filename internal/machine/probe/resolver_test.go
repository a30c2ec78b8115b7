package probe

import (
	"bytes"
	"context"
	"testing"

	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// fakeResolved is a systemd that has systemd-resolved, active or not.
type fakeResolved bool

func (f fakeResolved) Look(_ context.Context, name string) (systemd.Unit, error) {
	u := systemd.Unit{Definition: unitfile.Definition{Name: name, Load: "loaded"}, State: unitfile.State{Active: "inactive"}}
	if bool(f) && name == "systemd-resolved.service" {
		u.Active = "active"
	}

	return u, nil
}

// TestResolver decides the resolver as kubeadm does, once: a generation in place keeps what was decided for it.
func TestResolver(t *testing.T) {
	recorded := func(resolver string) *tape.Recording {
		e := tape.Entry{
			Question: tape.Kubelet.Question(tape.KubeletReq{}),
			Answer:   tape.Kubelet.Answer(tape.KubeletAns{Resolver: resolver}),
		}
		return &tape.Recording{Header: tape.Header{Format: tape.Format}, Entries: []tape.Entry{e}}
	}

	for _, c := range []struct {
		name   string
		active bool
		made   *tape.Recording // of the generation in place; nil: there is none
		want   string
	}{
		{"active", true, nil, resolverFile},
		{"not active", false, nil, ""},
		{"decided without it, and active now", true, recorded(""), ""},
		{"decided with a file that is there", false, recorded("/proc/version"), "/proc/version"},
		{"decided with a file that is gone", true, recorded("/nosuch/resolv.conf"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Sources{Units: fakeResolved(c.active)}
			if c.made != nil {
				o.Store = storeWith(t, c.made)
			}
			l := New(o)
			defer l.Close()
			if got := l.chooseResolver(t.Context()); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}

	l := newLive(t, Sources{Root: t.TempDir(), Units: fakeResolved(true)})
	if got := l.chooseResolver(t.Context()); got != "" {
		t.Errorf("below a root: got %q, want none", got)
	}
}

// storeWith is a store with one generation, which was made from a recording.
func storeWith(t *testing.T, r *tape.Recording) *generation.Store {
	t.Helper()
	var text bytes.Buffer
	must(t, r.Encode(&text))

	return openStore(t, t.TempDir(), generation.Proposal{
		PlanID: "p",
		Blobs:  map[string][]byte{tape.RecordingBlob: text.Bytes()},
		Targets: []generation.Target{
			{Path: "/a", Kind: generation.File, Content: []byte("a"), Mode: 0o644, UID: -1, GID: -1},
		},
	})
}
