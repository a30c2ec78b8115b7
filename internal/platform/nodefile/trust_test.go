package nodefile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/testing/script"

	"github.com/prelet/prelet/internal/testing/osfile"
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

// TestCheckTrusted and TestPublic play the scripts of testdata, each on a folder $ROOT with folder/site.hcl in it.
func TestCheckTrusted(t *testing.T) {
	needRoot(t)
	playScripts(t, "testdata/trusted.txtar")
}

func TestPublic(t *testing.T) { playScripts(t, "testdata/public.txtar") }

func playScripts(t *testing.T, file string) {
	t.Helper()
	for _, s := range script.Load(t, file) {
		t.Run(s.Name, func(t *testing.T) {
			above := filepath.Join(t.TempDir(), "above")
			disk := script.Disk{T: t, Path: func(name string) string { return filepath.Join(above, name) }}
			site := disk.Path("folder/site.hcl")
			must(t, errors.Join(os.MkdirAll(filepath.Dir(site), 0o755), os.WriteFile(site, nil, 0o644)))
			must(t, os.Chmod(above, 0o700)) // only its owner may enter it
			script.New(t, script.Node{
				Name:     "trust",
				Commands: disk.Commands(),
				Facts:    script.Merge(disk.Facts(), facts(Root(above), site)),
				Replace:  strings.NewReplacer("$ROOT", above).Replace,
			}).Play(s.Lines)
		})
	}
}

func facts(root Root, site string) map[string]script.Fact {
	yes := func(is bool) string { return map[bool]string{true: "yes", false: "no"}[is] }

	return map[string]script.Fact{
		"trusted": {Get: func([]string) (string, error) {
			if err := CheckTrusted(site); err != nil {
				return err.Error(), nil
			}

			return "yes", nil
		}},
		"public": {Get: func([]string) (string, error) {
			found, f := root.FindText("/folder/site.hcl")
			if f != nil {
				return "", f
			}

			return yes(found.IsPublic), nil
		}},
		"reachable": {Get: func([]string) (string, error) { return yes(root.IsReachable("/folder/missing/x")), nil }},
	}
}

// TestLinksOfOthers reads through a link only where root made it, and stays below the root.
func TestLinksOfOthers(t *testing.T) {
	needRoot(t)
	root := t.TempDir()
	osfile.WriteTree(t, root, map[string]string{
		"etc/shadow":  "secret",
		"etc/copy":    "-> /etc/shadow",
		"etc/out":     "-> ../../../../etc/shadow",
		"etc/loop":    "-> loop",
		"home/link":   "-> ../etc/shadow",
		"home/folder": "-> ../etc",
	})
	must(t, os.Chown(filepath.Join(root, "home"), stranger, stranger))
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
