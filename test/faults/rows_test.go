package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// row is one line of the matrix of disk faults: it is counted when its test ends well.
func row(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		f(t)
		if !t.Failed() {
			summary.add(func(s *tally) { s.rows++ })
		}
	})
}

// TestRefused: what preflight sees. Exit 40, nothing touched, and once it is fixed the run does it.
func TestRefused(t *testing.T) {
	row(t, "29 no space", func(t *testing.T) {
		b := onTmpfs(t, "size=4m", "")
		b.expect(0, b.runs("1"))
		fill(t, b.path("/filler"))
		b.refused("no space left on device", "free space or inodes")
		must(t, os.Remove(b.path("/filler")))
		b.heals()
	})
	row(t, "29 no inodes", func(t *testing.T) {
		b := onTmpfs(t, "size=4m,nr_inodes=100", "")
		b.expect(0, b.runs("1"))
		made := []string{}
		for i := 0; ; i++ {
			p := b.path("/etc/filler" + strings.Repeat("x", i))
			if err := os.WriteFile(p, nil, 0o600); err != nil {
				break
			}
			made = append(made, p)
		}
		b.refused("no space left on device", "free space or inodes")
		for _, p := range made {
			must(t, os.Remove(p))
		}
		b.heals()
	})
	row(t, "30 the whole disk read-only", func(t *testing.T) {
		b := onTmpfs(t, "size=4m", "")
		b.expect(0, b.runs("1"))
		must(t, unix.Mount("", b.root, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		b.refused("read-only", "remount")
		must(t, unix.Mount("", b.root, "", unix.MS_REMOUNT, "size=4m"))
		b.heals()
	})
	row(t, "30 one folder read-only", func(t *testing.T) {
		b := onTmpfs(t, "size=4m", "")
		b.expect(0, b.runs("1"))
		at := b.path("/etc/site.d")
		must(t, unix.Mount(at, at, "", unix.MS_BIND, ""))
		must(t, unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		b.refused("/etc/site.d", "read-only", "ReadWritePaths=")
		must(t, unix.Unmount(at, 0))
		b.heals()
	})
	row(t, "33 a link in a target's place", func(t *testing.T) {
		b := onTmpfs(t, "size=4m", "")
		b.put("/etc/real.conf", "real\n", 0o644)
		must(t, os.Remove(b.path("/etc/site.d/a.conf")))
		must(t, os.Symlink("../real.conf", b.path("/etc/site.d/a.conf")))
		b.refused("/etc/site.d/a.conf", "link", "name another path")
		if b.read("/etc/real.conf") != "real\n" {
			t.Error("written through the link")
		}
		must(t, os.Remove(b.path("/etc/site.d/a.conf")))
		b.heals()
	})
	row(t, "33 a link above a target", func(t *testing.T) {
		b := onTmpfs(t, "size=4m", "")
		must(t, os.Rename(b.path("/etc/site.d"), b.path("/etc/real.d")))
		must(t, os.Symlink("real.d", b.path("/etc/site.d")))
		b.refused("/etc/site.d", "link", "name the real path")
		must(t, os.Remove(b.path("/etc/site.d")))
		must(t, os.Rename(b.path("/etc/real.d"), b.path("/etc/site.d")))
		b.heals()
	})
	row(t, "34 parent writable by others", func(t *testing.T) {
		b := onTmpfs(t, "size=4m", "")
		b.expect(0, b.runs("1"))
		must(t, os.Chmod(b.path("/etc/site.d"), 0o777))
		b.refused("/etc/site.d", "0777", "chmod o-w")
		must(t, os.Chmod(b.path("/etc/site.d"), 0o755))
		must(t, os.Chown(b.path("/etc/site.d"), 1234, 0))
		b.refused("/etc/site.d", "uid 1234", "chown")
		must(t, os.Chown(b.path("/etc/site.d"), 0, 0))
		b.heals()
	})
	row(t, "36 immutable", func(t *testing.T) {
		b, _ := onDisk(t, "")
		b.expect(0, b.runs("1"))
		for _, c := range []struct{ flag, at, say string }{
			{"i", "/etc/site.d/a.conf", "chattr -i"}, {"i", "/etc/site.d", "chattr -i"},
			{"a", "/etc/site.d/a.conf", "chattr -a"}, {"i", "/var/lib/prelet", "chattr -i"},
		} {
			chattr(t, "+"+c.flag, b.path(c.at))
			b.refused(c.at, c.say)
			chattr(t, "-"+c.flag, b.path(c.at))
		}
		b.heals()
	})
	row(t, "44 a mount on a target", func(t *testing.T) {
		b := onTmpfs(t, "size=4m", "")
		b.expect(0, b.runs("1"))
		// The same file system, and another.
		for _, from := range []string{b.path("/etc/site.d/foreign.conf"), filepath.Join(b.dir, "site.hcl")} {
			at := b.path("/etc/site.d/a.conf")
			must(t, unix.Mount(from, at, "", unix.MS_BIND, ""))
			b.refused("/etc/site.d/a.conf", "mount point", "unmount it")
			must(t, unix.Unmount(at, 0))
		}
		b.heals()
	})
}

// fill takes all the space that there is.
func fill(t *testing.T, p string) {
	t.Helper()
	f, err := os.Create(p)
	must(t, err)
	defer f.Close()
	for n := 1 << 16; n > 0; {
		if _, err := f.Write(make([]byte, n)); err != nil {
			n /= 2
		}
	}
}

func chattr(t *testing.T, flag, p string) {
	t.Helper()
	if out, err := exec.Command("chattr", flag, p).CombinedOutput(); err != nil {
		t.Fatalf("chattr: got %v %s; want no error", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("chattr", "-ia", p).Run() })
}

// TestMended: what a run puts right by itself.
func TestMended(t *testing.T) {
	row(t, "32 parent missing", func(t *testing.T) {
		b := onTmpfs(t, "size=4m", "")
		b.expect(0, b.runs("1"))
		b.site("file \"lost\" {\n path = \"/etc/none/below/lost.conf\"\n content = var.v\n}\n")
		b.expect(0, b.runs("2"))
		if got := b.read("/etc/none/below/lost.conf"); got != "2" {
			t.Errorf("got %q, want the missing parents made", got)
		}
	})
	row(t, "35 a secret that others may read", func(t *testing.T) {
		b := onTmpfs(t, "size=4m", "")
		b.expect(0, b.runs("2"))
		must(t, os.Chmod(b.path("/etc/site.d/secret.conf"), 0o644))
		b.expect(0, b.runs("2"), "Others could read /etc/site.d/secret.conf", "0644", "0600")
		st, err := os.Stat(b.path("/etc/site.d/secret.conf"))
		must(t, err)
		if st.Mode().Perm() != 0o600 {
			t.Errorf("mode %o; want 0o600", st.Mode().Perm())
		}
		b.is("2")
	})
	row(t, "37 temporaries of a killed run", func(t *testing.T) {
		b := onTmpfs(t, "size=4m", "")
		b.expect(0, b.runs("1"))
		start := b.look()
		at := b.callOf(
			t,
			"2",
			func(c call) bool { return c.name == "fsync" && strings.HasSuffix(c.at(0), "/journal.json.tmp") },
		)
		b.restore(t, start)
		e, err := killedAt(at, b.runs("2")...)
		must(t, err)
		b.put("/var/lib/prelet/.kubelet.json.4711", "of another that was killed\n", 0o600)
		if !e.killed || b.look().litter() == nil {
			t.Fatalf("not killed while it staged: got %+v %v; want killed and litter other than nil",
				e, b.look().litter())
		}
		b.expect(0, b.line("recover"))
		b.unchanged(start)
		if b.read("/var/lib/prelet/.kubelet.json.4711") != "absent" {
			t.Error("a temporary of prelet's own folder stays")
		}
		b.heals()
	})
	row(t, "43 a full disk does not keep anybody from going back", func(t *testing.T) {
		b := onTmpfs(t, "size=4m", "")
		b.expect(0, b.runs("1"))
		b.expect(0, b.runs("2"))
		fill(t, b.path("/filler"))
		b.expect(0, b.line("rollback"))
		b.is("1")
	})
}

// TestJournal: a journal that cannot be believed needs a person, and nothing is touched.
func TestJournal(t *testing.T) {
	for name, content := range map[string]string{
		"corrupt":               "{\"version\":1,\"phase\":\"publ",
		"empty":                 "",
		"of a newer version":    `{"version":7,"phase":"something new"}`,
		"of no such generation": `{"version":1,"phase":"publish","gen":9,"manifest":"` + strings.Repeat("0", 64) + `","commit_time":"2026-01-01T00:00:00Z"}`,
	} {
		row(t, "42 "+name, func(t *testing.T) {
			b := onTmpfs(t, "size=4m", "")
			b.expect(0, b.runs("1"))
			b.put("/var/lib/prelet/journal.json", content, 0o600)
			start := b.look()
			for _, line := range [][]string{b.runs("2"), b.line("recover"), b.line("rollback")} {
				b.expect(41, line, "journal.json", "Manual recovery needed")
				b.unchanged(start)
			}
			must(t, os.Remove(b.path("/var/lib/prelet/journal.json")))
			b.heals()
		})
	}
}
