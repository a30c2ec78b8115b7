package generation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// TestOthersFilesInTheStateFolder opens a state folder that others could write to for a while: what they have put into it is
// refused, whatever the modes are by now. Where they have put nothing, the folder is taken, and closed to them.
func TestOthersFilesInTheStateFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of another user")
	}

	for name, c := range map[string]struct {
		path string // in the state folder; "": nothing
		link string
	}{
		"nothing":           {},
		"a journal":         {path: "journal.json"},
		"held plans":        {path: "held.json"},
		"the lock":          {path: "lock"},
		"the kubelet":       {path: "kubelet.json"},
		"a generation":      {path: "generations/2"},
		"a staged one":      {path: "generations/2.staged"},
		"a verdict":         {path: "generations/1.status.json"},
		"the generations":   {path: "generations"},
		"a link to nowhere": {path: "journal.json", link: "/nowhere"},
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
			if c.path == "" {
				st, statErr := os.Stat(dir)
				if err != nil || statErr != nil || st.Mode().Perm() != 0o700 {
					t.Errorf("got %v, mode %v; want it open, and closed to others", err, st.Mode())
				}

				return
			}
			if fault.CodeOf(err) != fault.CannotWrite || !strings.Contains(err.Error(), c.path) ||
				!strings.Contains(err.Error(), "belongs to uid 1000") {
				t.Errorf("got %v, want a refusal of %s for its owner", err, c.path)
			}
		})
	}
}
