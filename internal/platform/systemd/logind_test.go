package systemd

import (
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// TestReadLogindDropIns checks which drop-ins decide, in logind's order: by name, /etc first; a masked one, another
// section, a file that is not a drop-in and garbage do not count.
func TestReadLogindDropIns(t *testing.T) {
	root := t.TempDir()
	put := func(path, text string) { writeFile(t, root, path, text) }
	put("/usr/lib/systemd/logind.conf.d/z.conf", "[Login]\nInhibitDelayMaxSec=5\nInhibitDelayMaxSec=30\n")
	put("/usr/lib/systemd/logind.conf.d/a.conf", "[Login]\nInhibitDelayMaxSec=7\n")
	put("/etc/systemd/logind.conf.d/a.conf", "# a comment\n[Login]\nInhibitDelayMaxSec=1min\n")
	put("/run/systemd/logind.conf.d/b.conf", "[Other]\nInhibitDelayMaxSec=8\n")
	put("/etc/systemd/logind.conf.d/c.conf.old", "[Login]\nInhibitDelayMaxSec=9\n")
	put("/etc/systemd/logind.conf.d/d.conf", "\x00\xff[Login\nInhibit")
	put("/usr/lib/systemd/logind.conf.d/m.conf", "[Login]\nInhibitDelayMaxSec=10\n")
	must(t, os.Symlink("/dev/null", filepath.Join(root, "/etc/systemd/logind.conf.d/m.conf")))
	put("/usr/lib/systemd/logind.conf.d/n.conf", "[Login]\nInhibitDelayMaxSec=11\n")
	must(t, os.MkdirAll(filepath.Join(root, "/etc/systemd/logind.conf.d/n.conf"), 0o755))

	want := []LogindDropIn{
		{"/etc/systemd/logind.conf.d/a.conf", "1min"},
		{"/usr/lib/systemd/logind.conf.d/z.conf", "30"},
	}
	if got := ReadLogindDropIns(nodefile.Root(root)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := ReadLogindDropIns(nodefile.Root(t.TempDir())); got != nil {
		t.Errorf("without a folder: got %v, want none", got)
	}
}

// TestNoLogind: without a bus, and on one that never answers, there is an error.
func TestNoLogind(t *testing.T) {
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
	if d, err := InhibitDelay(t.Context()); err == nil || d != 0 {
		t.Errorf("without a bus: got %s, %v; want an error", d, err)
	}

	p := newPeer(t)
	p.hangs = true
	silent := filepath.Join(t.TempDir(), "silent")
	listener, err := net.Listen("unix", silent) // dbus.socket before dbus.service: nothing accepts
	must(t, err)
	defer listener.Close()
	for _, path := range []string{p.path, silent} {
		t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+path)
		d, err := InhibitDelay(t.Context())
		if err == nil || d != 0 || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("on bus %s that hangs: got %s, %v; want that it does not answer", path, d, err)
		}
	}
}
