package generation

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/osfile"
)

// box is a root folder with a state folder in it.
type box struct {
	t    *testing.T
	root string
	o    StoreConfig
}

func newBox(t *testing.T) *box {
	t.Helper()
	root := filepath.Join(memory(t), "root")
	must(t, os.MkdirAll(filepath.Join(root, "etc/kubernetes"), 0o755))
	return boxAt(t, root)
}

// memory is a temporary folder in memory where there is one: thousands of crashes need no disk, and fsync is a model
// here.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "generation-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func boxAt(t *testing.T, root string) *box {
	b := &box{t: t, root: root}
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	mono := int64(1000)
	b.o = StoreConfig{
		Root: root, Dir: filepath.Join(root, "var/lib/prelet"), BootID: "boot-1",
		Now:   func() time.Time { clock = clock.Add(time.Second); return clock },
		Mono:  func() int64 { mono++; return mono },
		fsync: func(int) error { return nil },
	}
	return b
}

func (b *box) open() *Store {
	b.t.Helper()
	s, err := Open(context.Background(), b.o)
	must(b.t, err)
	b.t.Cleanup(func() { s.Close() })
	return s
}

func (b *box) path(p string) string { return filepath.Join(b.root, p) }

func (b *box) write(p, content string, mode fs.FileMode) {
	b.t.Helper()
	must(b.t, os.MkdirAll(filepath.Dir(b.path(p)), 0o755))
	must(b.t, os.WriteFile(b.path(p), []byte(content), mode))
	must(b.t, os.Chmod(b.path(p), mode))
}

// read returns a file's bytes, or "absent".
func (b *box) read(p string) string {
	b.t.Helper()
	c, err := os.ReadFile(b.path(p))
	if errors.Is(err, fs.ErrNotExist) {
		return "absent"
	}
	must(b.t, err)
	return string(c)
}

func file(p, content string) Target {
	return Target{Path: p, Kind: File, Content: []byte(content), Mode: 0o644, UID: Keep, GID: Keep}
}

func with(t Target, f func(*Target)) Target { f(&t); return t }

func folderTarget(p string) Target {
	return Target{Path: p, Kind: Dir, Mode: 0o755, UID: Keep, GID: Keep}
}

func plan(id string, ts ...Target) Proposal {
	return Proposal{PlanID: id, Targets: ts, Blobs: map[string][]byte{"plan.json": []byte(`{"id":"` + id + `"}`)}}
}

// apply commits and publishes.
func apply(s *Store, p Proposal) (int, error) {
	t, err := s.Begin(p)
	if err != nil {
		return 0, err
	}
	n, err := t.Commit()
	if err != nil {
		return n, err
	}
	return n, t.Publish()
}

func (b *box) apply(s *Store, p Proposal) int {
	b.t.Helper()
	n, err := apply(s, p)
	must(b.t, err)
	return n
}

// node is one thing in the tree, as a test compares it.
type node struct {
	mode    fs.FileMode
	content string
}

// inode is what must not change when nothing happened.
type inode struct {
	node
	ino   uint64
	mtime time.Time
}

// look reads the whole tree but the state folder, and the folders that are made for it.
func (b *box) look() map[string]inode {
	b.t.Helper()
	all, err := osfile.Look(b.root, b.o.Dir, b.path("/var"))
	must(b.t, err)
	out := map[string]inode{}
	for p, i := range all {
		out[cmp.Or(p, "/")] = inode{node{i.Mode, i.Content}, i.Number, i.Modified}
	}
	return out
}

func nodes(m map[string]inode) map[string]node {
	out := map[string]node{}
	for p, n := range m {
		out[p] = n.node
	}
	return out
}

func same(a, b map[string]node) bool { return reflect.DeepEqual(a, b) }

// litter lists temporaries anywhere below the root, and what was made ready and not committed.
func (b *box) litter() []string {
	var out []string
	_ = filepath.WalkDir(b.root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == asideName {
			return filepath.SkipDir // for people
		}
		if err == nil &&
			(strings.HasSuffix(p, tmpSuffix) || strings.HasPrefix(d.Name(), ".prelet") || strings.HasSuffix(p, stagedSuffix)) {
			out = append(out, p)
		}
		return nil
	})
	return out
}

var errKilled = errors.New("killed")

// killAt ends the world at the k-th operation: that one and all later ones fail. It counts what came by.
type killAt struct {
	at, seen int
}

func (k *killAt) hook(string, string) error {
	k.seen++
	if k.at > 0 && k.seen >= k.at {
		return errKilled
	}
	return nil
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
