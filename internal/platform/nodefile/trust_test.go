package nodefile

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
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

// setACL gives a path an access ACL: the owner's permissions, one entry, and a mask of all.
func setACL(t *testing.T, path string, tag uint16, id uint32) {
	t.Helper()
	acl := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{0x01, 7, ^uint32(0)}, {aclUser, 7, id}, {aclOwnerGroup, 5, ^uint32(0)}, {aclGroup, 7, id}, {aclMask, 7, ^uint32(0)}, {0x20, 5, ^uint32(0)}} {
		if e.id != ^uint32(0) && e.tag != tag {
			continue
		}
		acl = binary.LittleEndian.AppendUint16(acl, e.tag)
		acl = binary.LittleEndian.AppendUint16(acl, e.perm)
		acl = binary.LittleEndian.AppendUint32(acl, e.id)
	}
	if err := unix.Setxattr(path, aclName, acl, 0); errors.Is(err, unix.ENOTSUP) {
		t.Skip("needs a TMPDIR whose file system has ACLs")
	} else if err != nil {
		t.Fatal(err)
	}
}

// TestCheckTrusted changes one thing at a time about a file, its folder, and a folder above.
func TestCheckTrusted(t *testing.T) {
	needRoot(t)
	for name, c := range map[string]struct {
		change func(t *testing.T, above, folder, file string)
		want   string // of the error; "" for none
	}{
		"as root makes them":         {func(*testing.T, string, string, string) {}, ""},
		"group of root":              {func(t *testing.T, _, _, file string) { must(t, os.Chmod(file, 0o664)) }, ""},
		"file of a stranger":         {func(t *testing.T, _, _, file string) { must(t, os.Chown(file, stranger, 0)) }, "site.hcl belongs to uid 1000"},
		"folder of a stranger":       {func(t *testing.T, _, folder, _ string) { must(t, os.Chown(folder, stranger, 0)) }, "folder belongs to uid 1000"},
		"folder above of a stranger": {func(t *testing.T, above, _, _ string) { must(t, os.Chown(above, stranger, 0)) }, "above belongs to uid 1000"},
		"file of a foreign group": {func(t *testing.T, _, _, file string) {
			must(t, errors.Join(os.Chown(file, 0, stranger), os.Chmod(file, 0o664)))
		}, "site.hcl can be written by group 1000"},
		"folder of a foreign group": {func(t *testing.T, _, folder, _ string) {
			must(t, errors.Join(os.Chown(folder, 0, stranger), os.Chmod(folder, 0o775)))
		}, "folder can be written by group 1000"},
		"file for everybody":            {func(t *testing.T, _, _, file string) { must(t, os.Chmod(file, 0o646)) }, "site.hcl can be written by everybody"},
		"folder above for everybody":    {func(t *testing.T, above, _, _ string) { must(t, os.Chmod(above, 0o777)) }, "above can be written by everybody"},
		"folder above sticky":           {func(t *testing.T, above, _, _ string) { must(t, os.Chmod(above, 0o777|os.ModeSticky)) }, ""},
		"file with an ACL":              {func(t *testing.T, _, _, file string) { setACL(t, file, aclUser, stranger) }, "site.hcl has an ACL that lets uid 1000 write"},
		"folder with an ACL":            {func(t *testing.T, _, folder, _ string) { setACL(t, folder, aclUser, stranger) }, "folder has an ACL that lets uid 1000 write"},
		"folder above with a group ACL": {func(t *testing.T, above, _, _ string) { setACL(t, above, aclGroup, stranger) }, "above has an ACL that lets group 1000 write"},
		"ACL for root":                  {func(t *testing.T, _, folder, _ string) { setACL(t, folder, aclUser, 0) }, ""},
		"ACL that the mask takes away": {func(t *testing.T, _, folder, _ string) {
			setACL(t, folder, aclUser, stranger)
			must(t, os.Chmod(folder, 0o755))
		}, ""},
		"link of a stranger": {func(t *testing.T, above, folder, _ string) {
			must(t, errors.Join(os.Rename(folder, filepath.Join(above, "real")), os.Symlink(filepath.Join(above, "real"), folder), os.Lchown(folder, stranger, 0)))
		}, "folder belongs to uid 1000"},
		"link of root": {func(t *testing.T, above, folder, _ string) {
			must(t, errors.Join(os.Rename(folder, filepath.Join(above, "real")), os.Symlink("real", folder)))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			above := filepath.Join(t.TempDir(), "above")
			folder := filepath.Join(above, "folder")
			file := filepath.Join(folder, "site.hcl")
			must(t, errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(file, nil, 0o644)))
			c.change(t, above, folder, file)

			err := CheckTrusted(file)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestPublic wants a file to be public only if each user may read it and pass the folders above it, by ACLs too.
func TestPublic(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, folder, file string)
		want   bool
	}{
		"0644":                    {func(*testing.T, string, string) {}, true},
		"0444":                    {func(t *testing.T, _, file string) { must(t, os.Chmod(file, 0o444)) }, true},
		"0640":                    {func(t *testing.T, _, file string) { must(t, os.Chmod(file, 0o640)) }, false},
		"0604":                    {func(t *testing.T, _, file string) { must(t, os.Chmod(file, 0o604)) }, false},
		"folder 0711":             {func(t *testing.T, folder, _ string) { must(t, os.Chmod(folder, 0o711)) }, true},
		"folder 0750":             {func(t *testing.T, folder, _ string) { must(t, os.Chmod(folder, 0o750)) }, false},
		"folder 0705":             {func(t *testing.T, folder, _ string) { must(t, os.Chmod(folder, 0o705)) }, false},
		"ACL that adds a user":    {func(t *testing.T, _, file string) { setACL(t, file, aclUser, stranger) }, true},
		"ACL that refuses a user": {func(t *testing.T, _, file string) { setUserACL(t, file, stranger, 0) }, false},
		"ACL of the folder":       {func(t *testing.T, folder, _ string) { setUserACL(t, folder, stranger, 0) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			folder := filepath.Join(root, "folder")
			file := filepath.Join(folder, "x")
			must(t, errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(file, nil, 0o644), os.Chmod(root, 0o700)))
			c.change(t, folder, file)

			found, f := Root(root).FindText("/folder/x")
			if f != nil || found.IsPublic != c.want {
				t.Errorf("got %+v, %v; want public %t", found, f, c.want)
			}
			isOpen := strings.Contains(name, "older") == c.want || !strings.Contains(name, "older")
			if got := Root(root).IsReachable("/folder/missing/x"); got != isOpen {
				t.Errorf("reachable: got %t, want %t", got, isOpen)
			}
		})
	}
}

// setUserACL gives a path the ACL of mode 0755, and other permissions of one user.
func setUserACL(t *testing.T, path string, uid uint32, perm uint16) {
	t.Helper()
	acl := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{0x01, 7, ^uint32(0)}, {aclUser, perm, uid}, {aclOwnerGroup, 5, ^uint32(0)}, {aclMask, 5, ^uint32(0)}, {0x20, 5, ^uint32(0)}} {
		acl = binary.LittleEndian.AppendUint16(acl, e.tag)
		acl = binary.LittleEndian.AppendUint16(acl, e.perm)
		acl = binary.LittleEndian.AppendUint32(acl, e.id)
	}
	if err := unix.Setxattr(path, aclName, acl, 0); errors.Is(err, unix.ENOTSUP) {
		t.Skip("needs a TMPDIR whose file system has ACLs")
	} else if err != nil {
		t.Fatal(err)
	}
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
