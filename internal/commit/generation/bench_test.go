package generation

import (
	"errors"
	"fmt"
	"testing"
)

// BenchmarkCommit is a commit of five changed files in three folders, on the real file system with real fsyncs, from
// Begin to PhaseVerify.
func BenchmarkCommit(b *testing.B) {
	s, done := benchStore(b)
	defer done()
	for i := 0; b.Loop(); i++ {
		if _, err := apply(s, benchPlan(fmt.Sprint(i))); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNothing is the same when there is nothing to do: compare and no write.
func BenchmarkNothing(b *testing.B) {
	s, done := benchStore(b)
	defer done()
	p := benchPlan("x")
	if _, err := apply(s, p); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Recover(); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Begin(p); !errors.Is(err, ErrNothing) {
			b.Fatal(err)
		}
	}
}

func benchStore(b *testing.B) (*Store, func()) {
	b.Helper()
	x := boxAt(nil, b.TempDir())
	o := Options{Root: x.root, Dir: x.o.Dir, BootID: "b"}
	s, err := Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	return s, func() { s.Close() }
}

func benchPlan(v string) Proposal {
	var ts []Target
	for i, p := range []string{"/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/pki/ca.crt", "/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeadm-flags.env", "/etc/kubernetes/extra.conf"} {
		ts = append(
			ts,
			Target{
				Path:    p,
				Kind:    File,
				Content: fmt.Appendf(make([]byte, 1500), "%s %d", v, i),
				Mode:    0o600,
				UID:     Keep,
				GID:     Keep,
			},
		)
	}
	return Proposal{
		PlanID:  v,
		Targets: ts,
		Blobs:   map[string][]byte{"plan.json": make([]byte, 8<<10), "recording.json": make([]byte, 64<<10)},
	}
}
