package generation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

// Modes are those that were declared, whatever the umask of who runs us.
func TestModesIgnoreTheUmask(t *testing.T) {
	b := newBox(t)
	defer unix.Umask(unix.Umask(0o077))
	s := b.open()
	b.apply(s, plan("p", with(folderTarget("/etc/kubernetes/d"), func(t *Target) { t.Mode = 0o775 }),
		with(file("/etc/kubernetes/d/x/f", "f"), func(t *Target) { t.Mode = 0o666 })))
	for p, want := range map[string]os.FileMode{"d": os.ModeDir | 0o775, "d/x": os.ModeDir | 0o755, "d/x/f": 0o666} {
		if i, err := os.Lstat(b.path("/etc/kubernetes/" + p)); err != nil || i.Mode() != want {
			t.Errorf("%s: %v %v, want %v", p, i.Mode(), err, want)
		}
	}
}

// An attribute that is larger than what is asked for first is kept as well.
func TestLargeAttribute(t *testing.T) {
	b := newBox(t)
	b.write("/etc/kubernetes/a", "old", 0o644)
	value := strings.Repeat("x", 3000)
	if err := unix.Setxattr(b.path("/etc/kubernetes/a"), "user.large", []byte(value), 0); err != nil {
		t.Skip("needs a TMPDIR whose file system has user attributes: ", err)
	}
	s := b.open()
	b.apply(s, plan("p", file("/etc/kubernetes/a", "new")))
	if st, _, err := s.Observe("/etc/kubernetes/a"); err != nil || string(st.Xattrs["user.large"]) != value {
		t.Errorf("attribute: got %d bytes, %v; want all", len(st.Xattrs["user.large"]), err)
	}
}

// A plan and its recording may be larger than one file: they have the contents of several, escaped.
func TestLargeBlob(t *testing.T) {
	b := newBox(t)
	s := b.open()
	p := plan("p1", file("/etc/a", "a"))
	large := strings.Repeat("<", MaxContent+MaxContent/2)
	p.Blobs["plan.json"] = []byte(large)
	tx, err := s.Begin(p)
	if err != nil {
		t.Fatal(err)
	}
	gen, err := tx.Commit()
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Publish(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Blob(gen, "plan.json"); err != nil || string(got) != large {
		t.Errorf("got %d bytes and %v; want %d", len(got), err, len(large))
	}

	p = plan("p2", file("/etc/a", "b"))
	p.Blobs["plan.json"] = make([]byte, maxBlob+1)
	if _, err := s.Begin(p); err == nil || exitOf(err) == fault.Internal {
		t.Errorf("more than a blob may have: got %v; want an error that is not prelet's own", err)
	}
}

// A link of an image must not lead the state folder to the machine that works on the image.
func TestStateFolderOutsideOfRoot(t *testing.T) {
	outside := t.TempDir()
	for _, link := range []string{"var", "var/lib", "var/lib/prelet"} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
		o := Options{Root: root, Dir: filepath.Join(root, "var/lib/prelet")}
		if s, err := Open(t.Context(), o); err == nil {
			_ = s.Close()
			t.Errorf("%s: got no error; want that the link is refused", link)
		}
		if s, err := OpenReadOnly(o); err == nil {
			_ = s.Close()
			t.Errorf("%s, to read: got no error; want that the link is refused", link)
		}
		if names, _ := os.ReadDir(outside); len(names) > 0 {
			t.Errorf("%s: got %v outside of the root; want nothing", link, names)
		}
	}
}
