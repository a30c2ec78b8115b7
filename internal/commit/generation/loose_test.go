package generation

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

// loose is a store with a good generation 1: a folder of ours, and a file in it.
func loose(t *testing.T) (*Store, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a folder to another user")
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Options{Root: root, Dir: filepath.Join(root, "state"), BootID: strings.Repeat("0", 32)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	publishGood(t, s, looseFolder(0o755, 0), looseFile("a"))

	return s, root
}

func looseFolder(mode, uid int) Target {
	return Target{Path: "/etc/app", Kind: Dir, Mode: mode, UID: uid, GID: uid}
}

func looseFile(text string) Target {
	return Target{Path: "/etc/app/a", Kind: File, Content: []byte(text), Mode: 0o644, UID: 0, GID: 0}
}

func publishGood(t *testing.T, s *Store, targets ...Target) {
	t.Helper()
	tx, err := s.Begin(Proposal{PlanID: "p", Targets: targets})
	if err != nil {
		t.Fatal(err)
	}
	gen, err := tx.Commit()
	if err == nil {
		err = tx.Publish()
	}
	if err == nil {
		err = s.Good(gen, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestPlannedFolderLoose commits no folder in which others could replace a target, whether the target changes or not.
func TestPlannedFolderLoose(t *testing.T) {
	for name, folder := range map[string]Target{
		"owner": looseFolder(0o755, 1000), "everybody": looseFolder(0o777, 0), "sticky": looseFolder(0o1777, 0),
		"group": {Path: "/etc/app", Kind: Dir, Mode: 0o775, UID: 0, GID: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := loose(t)
			for _, file := range []Target{looseFile("a"), looseFile("b")} {
				_, err := s.Begin(Proposal{PlanID: "q", Targets: []Target{folder, file}})
				if fault.CodeOf(err) != fault.CannotWrite ||
					!strings.Contains(err.Error(), "it would hold /etc/app/a") {
					t.Errorf("got %v, want a refusal of the folder", err)
				}
			}
			if _, err := s.Begin(Proposal{PlanID: "q", Targets: []Target{folder}}); err != nil {
				t.Errorf("without a target below it: got %v, want no error", err)
			}
		})
	}
}

// TestFolderMadeTrusted writes into a folder that others may write when the same commit makes it ours, and into no
// other.
func TestFolderMadeTrusted(t *testing.T) {
	s, root := loose(t)
	give(t, root+"/etc/app", 1000, 0o777)
	if _, err := s.Begin(Proposal{PlanID: "q", Targets: []Target{looseFile("b")}}); err == nil ||
		!strings.Contains(err.Error(), "belongs to uid 1000") {
		t.Errorf("got %v, want a refusal of the folder", err)
	}
	publishGood(t, s, looseFolder(0o755, 0), looseFile("b"))
	if b, err := os.ReadFile(root + "/etc/app/a"); err != nil || string(b) != "b" {
		t.Errorf("the file holds %q (%v), want b", b, err)
	}
	wantMode(t, root+"/etc/app", 0o755)
	wantOwner(t, root+"/etc/app", 0)
}

// TestTargetGoesFromLooseFolder takes a target out of a folder that others may write.
func TestTargetGoesFromLooseFolder(t *testing.T) {
	s, root := loose(t)
	give(t, root+"/etc/app", 1000, 0o755)
	publishGood(t, s, Target{Path: "/etc/motd", Kind: File, Content: []byte("m"), Mode: 0o644, UID: 0, GID: 0})
	if _, err := os.Lstat(root + "/etc/app/a"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file: got %v, want it removed", err)
	}
}

// TestWayBackThroughLooseFolder goes back though a folder became loose since, and says so; over a link it does not go.
func TestWayBackThroughLooseFolder(t *testing.T) {
	s, root := loose(t)
	publishGood(t, s, looseFolder(0o755, 0), looseFile("b"))
	give(t, root+"/etc/app", 1000, 0o755)

	problems, err := s.CheckRollback(2, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(problems) != 0 { // generation 1 has the folder, and makes it root's first
		t.Errorf("got %q, want nothing: the way back makes the folder root's", problems)
	}
	if _, err := s.Rollback(2, 1, "test", false); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(root + "/etc/app/a"); string(b) != "a" {
		t.Errorf("the file holds %q, want a", b)
	}

	wantOwner(t, root+"/etc/app", 0)

	give(t, root+"/etc", 1000, 0o755)
	if problems, err = s.CheckRollback(3, 0); err != nil || len(problems) != 0 { // nothing is written, only removed
		t.Errorf("got %q, %v, want neither", problems, err)
	}
	if problems, err = s.CheckRollback(3, 2); err != nil || len(problems) != 1 ||
		!strings.Contains(problems[0], "chown root: /etc") {
		t.Errorf("got %q, %v, want a word on /etc", problems, err)
	}
	if err := os.Rename(root+"/etc/app", root+"/etc/moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("moved", root+"/etc/app"); err != nil {
		t.Fatal(err)
	}
	if _, err = s.CheckRollback(3, 2); err == nil {
		t.Error("the way back leads over a link")
	}
}

func give(t *testing.T, path string, uid int, mode os.FileMode) {
	t.Helper()
	if err := os.Chown(path, uid, uid); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func wantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	st, err := os.Lstat(path)
	if err != nil || st.Mode().Perm() != want {
		t.Errorf("%s has %v (%v), want %04o", path, st.Mode(), err, want)
	}
}

func wantOwner(t *testing.T, path string, want uint32) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil || st.Uid != want {
		t.Errorf("%s belongs to uid %d (%v), want %d", path, st.Uid, err, want)
	}
}
