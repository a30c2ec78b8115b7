package generation

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
)

// asNewer writes a document of the store again as a later version, with a member that this one does not know. What
// follows the first line stays.
func (b *box) asNewer(name string) {
	b.t.Helper()
	path := filepath.Join(b.o.Dir, name)
	text := osfile.Read(b.t, path)
	line, rest, _ := strings.Cut(string(text), "\n")
	body := strings.Replace(line[:strings.LastIndex(line, sealBegin)], `{"version":2`, `{"version":3,"later":1`, 1)
	sealed := body + sealBegin + Checksum([]byte(body)) + sealEnd + rest
	osfile.Write(b.t, path, sealed, 0o600)
}

// TestReleasedDocuments: the journal and the list of held plans of each released version are read.
func TestReleasedDocuments(t *testing.T) {
	versions, err := filepath.Glob("../../../testdata/stability/*")
	if err != nil || len(versions) == 0 {
		t.Fatalf("got %d versions, %v; want some", len(versions), err)
	}
	for _, version := range versions {
		path := filepath.Join(version, journalName)
		j, err := parseJournal(read(t, path))
		if err != nil || j.Phase != PhaseVerify || j.Gen != 2 || j.Tries != 1 {
			t.Errorf("%s: got %+v, %v; want generation 2, which awaits its verdict after one try", path, j, err)
		}
		list := filepath.Join(version, heldName)
		h, err := parseHeld(read(t, list))
		if err != nil || h.Pin == nil || h.Pin.Gen != 1 || h.Pin.Why != "prelet rollback" {
			t.Errorf("%s: got %+v, %v; want a pin of generation 1", list, h, err)
		}
	}
}
