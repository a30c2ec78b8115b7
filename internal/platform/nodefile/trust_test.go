package nodefile

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/testing/scripttest"
)

const stranger = 1000

// needRoot skips where nothing can be given to somebody else.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a file to another user")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// setACL gives a path an access ACL: the permissions of one user or group, and else those of mode 0755.
func setACL(t *testing.T, path string, tag uint16, id uint32, permissions uint16) {
	t.Helper()
	const none = ^uint32(0)
	acl := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range []struct {
		tag, permissions uint16
		id               uint32
	}{{0x01, 7, none}, {aclUser, permissions, id}, {aclOwnerGroup, 5, none}, {aclGroup, permissions, id}, {aclMask, 7, none}, {0x20, 5, none}} {
		if e.id != none && e.tag != tag {
			continue
		}
		acl = binary.LittleEndian.AppendUint16(acl, e.tag)
		acl = binary.LittleEndian.AppendUint16(acl, e.permissions)
		acl = binary.LittleEndian.AppendUint32(acl, e.id)
	}
	err := unix.Setxattr(path, aclName, acl, 0)
	if errors.Is(err, unix.ENOTSUP) {
		t.Skip("needs a TMPDIR whose file system has ACLs")
	}
	must(t, err)
}

// TestCheckTrusted and TestPublic run the scripts of testdata, each on a folder "above" with folder/site.hcl in it.
func TestCheckTrusted(t *testing.T) {
	needRoot(t)
	playScripts(t, "testdata/trusted.txtar")
}

func TestPublic(t *testing.T) { playScripts(t, "testdata/public.txtar") }

func playScripts(t *testing.T, file string) {
	t.Helper()
	for _, s := range scripttest.Load(t, file) {
		t.Run(s.Name, func(t *testing.T) {
			above := filepath.Join(t.TempDir(), "above")
			in := func(path string) string { return filepath.Join(above, path) }
			must(t, errors.Join(os.MkdirAll(in("folder"), 0o755), os.WriteFile(in("folder/site.hcl"), nil, 0o644)))
			scripttest.Run(t, s.Lines, func(l scripttest.Line) bool { return do(t, l, above, in) })
		})
	}
}

func do(t *testing.T, l scripttest.Line, above string, in func(string) string) bool {
	t.Helper()
	a := l.Words[1:]
	number := func(text string, base int) int {
		n, err := strconv.ParseInt(text, base, 32)
		must(t, err)

		return int(n)
	}
	check := func(got bool) {
		t.Helper()
		if text := map[bool]string{true: "yes", false: "no"}[got]; text != a[0] {
			t.Errorf("%s: got %s, want %s", l, text, a[0])
		}
	}
	switch l.Words[0] {
	case "chmod": // PATH MODE
		must(t, unix.Chmod(in(a[0]), uint32(number(a[1], 8))))
	case "chown": // PATH UID GID
		must(t, os.Lchown(in(a[0]), number(a[1], 10), number(a[2], 10)))
	case "acl": // PATH user|group ID PERMISSIONS
		tag := map[string]uint16{"user": aclUser, "group": aclGroup}[a[1]]
		setACL(t, in(a[0]), tag, uint32(number(a[2], 10)), uint16(number(a[3], 8)))
	case "mv":
		must(t, os.Rename(in(a[0]), in(a[1])))
	case "link": // TO AT
		must(t, os.Symlink(strings.ReplaceAll(a[0], "@ABOVE@", above), in(a[1])))
	case "trusted":
		if err := CheckTrusted(in("folder/site.hcl")); err != nil {
			t.Errorf("%s: got %v, want no error", l, err)
		}
	case "untrusted": // TEXT
		if err := CheckTrusted(in("folder/site.hcl")); err == nil || !strings.Contains(err.Error(), a[0]) {
			t.Errorf("%s: got %v, want %q", l, err, a[0])
		}
	case "public": // yes|no, below a root that only its owner may enter
		must(t, os.Chmod(above, 0o700))
		found, f := Root(above).FindText("/folder/site.hcl")
		if f != nil {
			t.Errorf("%s: got %v, want its text", l, f)
		}
		check(found.IsPublic)
	case "reachable": // yes|no: what would be in a folder that does not exist
		check(Root(above).IsReachable("/folder/missing/x"))
	default:
		return false
	}

	return true
}

// TestLinksOfOthers reads through a link only where root made it, and stays below the root.
func TestLinksOfOthers(t *testing.T) {
	needRoot(t)
	root := t.TempDir()
	must(t, errors.Join(
		os.Mkdir(filepath.Join(root, "etc"), 0o755),
		os.WriteFile(filepath.Join(root, "etc/shadow"), []byte("secret"), 0o600),
		os.Symlink("/etc/shadow", filepath.Join(root, "etc/copy")),
		os.Symlink("../../../../etc/shadow", filepath.Join(root, "etc/out")),
		os.Symlink("loop", filepath.Join(root, "etc/loop")),
		os.Mkdir(filepath.Join(root, "home"), 0o755),
		os.Symlink("../etc/shadow", filepath.Join(root, "home/link")),
		os.Symlink("../etc", filepath.Join(root, "home/folder")),
		os.Chown(filepath.Join(root, "home"), stranger, stranger),
	))
	for path, want := range map[string]string{
		"/etc/copy":        "",
		"/etc/out":         "",
		"/etc/../etc/copy": "",
		"/etc/loop":        "/etc/loop: too many levels of symbolic links",
		"/home/link": "/home/link: it is a link that other users may have made, because /home belongs " +
			"to uid 1000",
		"/home/folder/shadow": "/home/folder/shadow: it is a link that other users may have made, because " +
			"/home belongs to uid 1000",
	} {
		text, f := Root(root).Text(path)
		switch {
		case want == "" && (f != nil || text != "secret"):
			t.Errorf("%s: got %q, %v; want its text", path, text, f)
		case want != "" && (f == nil || f.Why != want):
			t.Errorf("%s: got %q, %v; want %q", path, text, f, want)
		}
	}

	for path, want := range map[string]bool{"/etc/copy": true, "/home/folder/shadow": false} {
		look, err := Root(root).Look(path, FollowNone)
		if ok := err == nil; ok != want {
			t.Errorf("look at %s without links: got %v, want found %t", path, err, want)
		} else if ok {
			if look.Mode()&os.ModeSymlink == 0 {
				t.Errorf("%s: got mode %s, want a link", path, look.Mode())
			}
			look.Close()
		}
	}
}

// TestNothingIsOpenedBeforeItIsKnown looks at a device, whose opening may do something, and at a FIFO, whose opening
// waits.
func TestNothingIsOpenedBeforeItIsKnown(t *testing.T) {
	root := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600))
	if os.Geteuid() == 0 {
		// A device that no driver has: to open it is ENXIO, to look at it is not.
		if err := unix.Mknod(filepath.Join(root, "device"), unix.S_IFCHR|0o600, int(unix.Mkdev(254, 254))); err == nil {
			if _, f := Root(root).Text("/device"); f == nil || f.Why != "/device: it is a device, not a file" {
				t.Errorf("got %v, want that it is a device", f)
			}
		}
	}
	look, err := Root(root).Look("/fifo", FollowNone)
	must(t, err)
	defer look.Close()
	if _, err := look.Read(10); err == nil || !strings.Contains(err.Error(), "it is a FIFO, not a file") {
		t.Errorf("got %v, want that it is a FIFO", err)
	}
}
