package generation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// TestOthersFilesInTheStateFolder opens a state folder that others could write to for a while: of what they have put
// into it a journal or held plans are damaged, whatever the modes are by now, generations and verdicts are as if they
// were not there, and what is none of ours is passed over. The folder is taken, and closed to them.
func TestOthersFilesInTheStateFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a file to another user")
	}

	for name, c := range map[string]struct {
		path    string // in the state folder; "": nothing
		link    string
		refused fault.Code // of Open, or of Recover; "": none
		bad     bool       // there is no good generation
		held    bool
	}{
		"nothing":           {},
		"a journal":         {path: "journal.json", refused: fault.NeedsPerson, bad: true},
		"held plans":        {path: "held.json", held: true},
		"the lock":          {path: "lock", refused: fault.CannotWrite},
		"something else":    {path: "site.bak"},
		"a generation":      {path: "generations/2"},
		"a staged one":      {path: "generations/2.staged"},
		"the good one":      {path: "generations/1", bad: true},
		"a verdict":         {path: "generations/1.status.json", bad: true},
		"the generations":   {path: "generations", refused: fault.CannotWrite},
		"a link to nowhere": {path: "journal.json", link: "/nowhere", refused: fault.NeedsPerson, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			s := b.open()
			b.apply(s, plan("p1", file("/etc/kubernetes/a", "1")))
			if err := s.Good(1, nil); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			dir := s.o.Dir
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			if c.path != "" {
				path := filepath.Join(dir, c.path)
				if c.link != "" {
					_ = os.Remove(path)
					if err := os.Symlink(c.link, path); err != nil {
						t.Fatal(err)
					}
				} else if _, err := os.Lstat(path); err != nil {
					if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.Lchown(path, 1000, 0); err != nil {
					t.Fatal(err)
				}
			}

			s, err := Open(t.Context(), s.o)
			if err == nil {
				defer s.Close()
			}
			if err == nil {
				_, err = s.Recover()
			}
			if fault.CodeOf(err) != c.refused || err != nil && !strings.Contains(err.Error(), c.path) {
				t.Fatalf("got %v, want %q and %s", err, c.refused, c.path)
			}
			if c.refused == fault.CannotWrite {
				return
			}
			if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
				t.Errorf("got %v, mode %v; want it closed to others", err, st.Mode())
			}
			if gen, ok := s.LastGood(); ok == c.bad {
				t.Errorf("got %d, %v as the last good one, want %v", gen, ok, !c.bad)
			}
			if why, held := s.Held("p2"); held != c.held {
				t.Errorf("a plan is held: got %v (%s), want %v", held, why, c.held)
			}
		})
	}
}
