package generation

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// BenchmarkCommit is a commit of five changed files in three folders, on the real file system with real fsyncs, from
// Begin to PhaseVerify.
func BenchmarkCommit(b *testing.B) {
	s, done := benchStore(b)
	defer done()
	for i := 0; b.Loop(); i++ {
		_, err := apply(s, benchPlan(fmt.Sprint(i)))
		must(b, err)
	}
}

// BenchmarkNothing is the same when there is nothing to do: compare and no write.
func BenchmarkNothing(b *testing.B) {
	s, done := benchStore(b)
	defer done()
	p := benchPlan("x")
	_, err := apply(s, p)
	must(b, err)
	for b.Loop() {
		_, err := s.Recover()
		must(b, err)
		if _, err := s.Begin(p); !errors.Is(err, ErrNothing) {
			b.Fatal(err)
		}
	}
}

func benchStore(b *testing.B) (*Store, func()) {
	b.Helper()
	x := boxAt(nil, b.TempDir())
	s, err := Open(b.Context(), StoreConfig{Root: x.root, Dir: x.o.Dir, BootID: "b"})
	must(b, err)
	return s, func() { s.Close() }
}

func benchPlan(v string) Proposal {
	p := plan(v)
	p.Blobs["recording.json"] = make([]byte, 64<<10)
	for _, at := range []string{
		"/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/pki/ca.crt", "/etc/kubernetes/extra.conf",
		"/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeadm-flags.env",
	} {
		p.Targets = append(p.Targets, file(at, strings.Repeat("x", 1500)+v+at))
	}
	return p
}
