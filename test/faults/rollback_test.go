package faults

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRollbackCutTwice kills the real binary in a rollback by hand, and lets the recovery fail in one of several ways.
// Then all files are of one generation, and after a release a run applies the site. A full sweep takes each call.
func TestRollbackCutTwice(t *testing.T) {
	const size = "size=32m"
	b := onTmpfs(t, size, "")
	b.expect(0, b.runs("1"))
	b.expect(0, b.runs("2"))
	kept := scratch(t)
	copyTree(t, b.root, kept)
	calls, e, err := killedTraced(b.trace, call{}, b.line("rollback")...)
	must(t, err)
	if e.exit != 0 {
		t.Fatalf("rollback: got exit %d, want 0: %s", e.exit, e.output)
	}
	b.is("1")

	mend := b.line("recover")
	inject := func(what string) {
		_, _, err := straced(b.trace, []string{"-e", "trace=" + swept, "-e", "inject=" + what}, mend)
		must(t, err)
	}
	faults := []struct {
		name string
		make func()
	}{
		{"another rollback", func() { b.do(b.line("rollback")) }},
		{"no space", func() { inject("write,fallocate,ftruncate,openat:error=ENOSPC:when=12+") }},
		{"I/O errors", func() { inject("fsync,renameat,linkat:error=EIO") }},
		{"a kill", func() { inject("renameat,unlinkat,fsync:signal=SIGKILL:when=2") }},
		{"a run", func() { b.do(b.runs("2")) }},
		{"a read-only disk", func() {
			must(t, unix.Mount("", b.root, "", unix.MS_REMOUNT|unix.MS_RDONLY, size))
			b.do(mend)
			must(t, unix.Mount("", b.root, "", unix.MS_REMOUNT, size))
		}},
	}

	chosen := chooseDensity(density{stride: 5, recovery: 1})
	cuts := 0
	for _, c := range points(calls, b.root, false) {
		if cuts++; cuts%chosen.stride != 0 {
			continue
		}
		fault := faults[cuts/chosen.stride%len(faults)]
		must(t, empty(b.root))
		copyTree(t, kept, b.root)
		_, _, err := killedTraced(b.trace, c, b.line("rollback")...)
		must(t, err)
		fault.make()

		what := c.name + " " + strings.Join(c.paths(), " ") + ", then " + fault.name
		b.expect(0, mend)
		if b.read("/etc/site.d/a.conf") == "a = 1\n" {
			b.is("1")
		} else {
			b.is("2")
		}
		b.do(b.line("rollback", "--release"))
		b.expect(0, b.runs("2"))
		b.is("2")
		if t.Failed() {
			t.Fatalf("killed at %s: want all files of one version, and then those of the site", what)
		}
	}
	if cuts < 20 {
		t.Errorf("got %d calls to be killed at, want at least 20", cuts)
	}
}
