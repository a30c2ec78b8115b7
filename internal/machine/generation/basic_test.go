package generation

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// A plan and its recording may be larger than one file: they have the contents of several, escaped.
func TestLargeBlob(t *testing.T) {
	b := newBox(t)
	s := b.open()
	p := plan("p1", file("/etc/a", "a"))
	large := strings.Repeat("<", MaxContent+MaxContent/2)
	p.Blobs["plan.json"] = []byte(large)
	tx, err := s.Begin(p)
	must(t, err)
	gen, err := tx.Commit()
	must(t, err)
	must(t, tx.Publish())
	if got, err := s.Blob(gen, "plan.json"); err != nil || string(got) != large {
		t.Errorf("got %d bytes and %v; want %d", len(got), err, len(large))
	}

	p = plan("p2", file("/etc/a", "b"))
	p.Blobs["plan.json"] = make([]byte, maxBlob+1)
	if _, err := s.Begin(p); err == nil || fault.CodeOf(err) == fault.Internal {
		t.Errorf("more than a blob may have: got %v; want an error that is not prelet's own", err)
	}
}
