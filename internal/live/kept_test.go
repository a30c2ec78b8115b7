package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// head is how much the binaries of these tests have in common, and more than any shortcut would read.
const head = 128 << 10

// binaries are kubelets below a root, scripts that note that they were started.
type binaries struct {
	t                 *testing.T
	root, file, cache string
	started           string
	time              time.Time
}

func newBinaries(t *testing.T) *binaries {
	root := t.TempDir()
	return &binaries{t: t, root: root, file: filepath.Join(root, "usr/bin/kubelet"), cache: filepath.Join(root, "kubelet.json"), started: filepath.Join(root, "started"), time: time.Unix(1, 0)}
}

func (b *binaries) must(errs ...error) {
	b.t.Helper()
	if err := errors.Join(errs...); err != nil {
		b.t.Fatal(err)
	}
}

// text is a kubelet of a version. All of them have one length and one beginning.
func (b *binaries) text(version string) []byte {
	help, err := os.ReadFile("../kubelet/testdata/help/v1.36.3.txt")
	b.must(err)
	text := "#!/bin/sh\n: " + strings.Repeat("x", head) + "\n" +
		fmt.Sprintf("echo >>%s\n[ $1 = --help ] || exec echo Kubernetes %8s\ncat <<'END'\n%s\nEND\n", b.started, version, help)
	return []byte(text)
}

// later waits until the file system's clock, which has ticks of some milliseconds, is past the last change of the binary.
func (b *binaries) later() {
	b.t.Helper()
	last, _ := described(b.file)
	for now := last; now.Changed <= last.Changed; {
		b.must(os.WriteFile(b.cache+".now", []byte("x"), 0o755))
		now, _ = described(b.cache + ".now")
	}
}

// put replaces the binary as a package does: another file under its name, with the time that all of them have.
func (b *binaries) put(version string) {
	b.t.Helper()
	b.later()
	b.must(os.MkdirAll(filepath.Dir(b.file), 0o755), os.WriteFile(b.file+".new", b.text(version), 0o755), os.Chtimes(b.file+".new", b.time, b.time), os.Rename(b.file+".new", b.file))
}

// run is what a boot does: it asks for version and flags, and keeps them. It says how often the binary was started and
// whether it was read whole, and fails where what is kept is not what it asked.
func (b *binaries) run() (version string, starts int, read bool) {
	b.t.Helper()
	_ = os.Remove(b.started)
	l := New(Options{Keep: true})
	l.found = func() *Binary { return nil }
	binary := FindKubelet(b.root, b.cache)
	if binary != nil {
		l.found = func() *Binary { return binary }
	}
	defer l.Close()
	version = l.version(b.t.Context())
	accepts, err := l.listed(b.t.Context())
	if err == nil && len(accepts.Deprecated) < 100 {
		b.t.Errorf("%d flags", len(accepts.Deprecated))
	}
	if version != "" {
		c, ok := binary.Keep(b.t.Context(), version, accepts)
		if !ok {
			b.t.Fatal("nothing is to be kept")
		}
		text, err := c.Marshal()
		b.must(err, os.WriteFile(b.cache, text, 0o600))
	}
	log, _ := os.ReadFile(b.started)
	if binary != nil {
		select {
		case <-binary.done:
			read = true
		default:
		}
	}
	return version, strings.Count(string(log), "\n"), read
}

func (b *binaries) want(what, version string, starts int, read bool) {
	b.t.Helper()
	v, n, r := b.run()
	if v != version || n != starts || r != read {
		b.t.Errorf("%s: version %q, started %d times, read whole: %t; want %q, %d, %t", what, v, n, r, version, starts, read)
	}
}

// What is kept is kept for a size, a time and a content. The content is read when the file system cannot say that it is the same.
func TestKept(t *testing.T) {
	b := newBinaries(t)
	b.want("none", "", 0, false)
	b.put("v1.36.3")
	b.want("the first boot", "v1.36.3", 2, true)
	b.want("the second boot", "v1.36.3", 0, false)

	b.put("v1.36.4")
	b.want("another of the same length, time and beginning", "v1.36.4", 2, true)
	b.want("the boot after it", "v1.36.4", 0, false)

	b.later()
	f, err := os.OpenFile(b.file, os.O_WRONLY, 0)
	b.must(err)
	_, err = f.Write(b.text("v1.36.5"))
	b.must(err, f.Close(), os.Chtimes(b.file, b.time, b.time))
	b.want("the same file, written over", "v1.36.5", 2, true)

	b.put("v1.36.5")
	b.want("a copy", "v1.36.5", 0, true)
	b.want("the boot after it", "v1.36.5", 0, false)
	b.later()
	b.must(os.Link(b.file, b.file+".link"))
	b.want("a link was made to it", "v1.36.5", 0, true)
	b.want("the boot after it", "v1.36.5", 0, false)

	b.time = time.Unix(2, 0)
	b.put("v1.36.5")
	b.want("another time", "v1.36.5", 2, true)
	b.must(os.WriteFile(b.cache, []byte("{"), 0o600))
	b.want("a cache that is damaged", "v1.36.5", 2, true)
	b.must(os.Chmod(b.file, 0o644))
	b.want("no program any more", "", 0, false)
}

// The file that was kept is not read, whatever is said to be in it: nobody wrote to it. Examined at leisure it is, and what
// differs is told.
func TestKeptIsNotRead(t *testing.T) {
	b := newBinaries(t)
	b.put("v1.36.3")
	b.run()
	var kept VersionCache
	text, err := os.ReadFile(b.cache)
	b.must(err, json.Unmarshal(text, &kept))
	kept.SHA256, kept.Version = strings.Repeat("0", 64), "v1.0.0"
	text, err = kept.Marshal()
	b.must(err, os.WriteFile(b.cache, text, 0o600))
	b.want("a damaged disk", "v1.0.0", 0, false)
	e := FindKubelet(b.root, b.cache).examine(t.Context())
	if !e.Other || e.Version != "v1.36.3" || e.Keep == nil {
		t.Errorf("examined: %+v", e)
	}
	b.must(os.WriteFile(b.cache, e.Keep, 0o600))
	b.want("the boot after it", "v1.36.3", 0, false)
	if e := FindKubelet(b.root, b.cache).examine(t.Context()); e.Other || e.Version != "v1.36.3" {
		t.Errorf("examined again: %+v", e)
	}
	b.put("v1.36.4")
	if e := FindKubelet(b.root, b.cache).examine(t.Context()); e.Other || e.Version != "v1.36.4" {
		t.Errorf("another one, which a boot would notice: %+v", e)
	}
}

// One that is replaced while it is asked is not kept: nobody knows which of the two answered.
func TestReplacedWhileAsked(t *testing.T) {
	b := newBinaries(t)
	b.put("v1.36.3")
	found := FindKubelet(b.root, b.cache)
	b.put("v1.36.3")
	if c, ok := found.Keep(t.Context(), "v1.36.3", nil); ok {
		t.Errorf("%+v", c)
	}
	found = FindKubelet(b.root, b.cache)
	found.Close() // before it is read
	if c, ok := found.Keep(t.Context(), "v1.36.3", nil); ok {
		t.Errorf("one that could not be read: %+v", c)
	}
}

// A change time proves something only where the kernel makes it.
func TestUntouched(t *testing.T) {
	const second = int64(time.Second)
	disk := VersionCache{Path: "/usr/bin/kubelet", Size: 84 << 20, ModTime: second, Inode: 7, Changed: 1795199104*second + 5}
	for name, c := range map[string]struct {
		change func(*VersionCache)
		want   bool
	}{
		"the same":                 {func(*VersionCache) {}, true},
		"another path":             {func(c *VersionCache) { c.Path = "/opt/bin/kubelet" }, false},
		"another size":             {func(c *VersionCache) { c.Size++ }, false},
		"another time":             {func(c *VersionCache) { c.ModTime++ }, false},
		"another file":             {func(c *VersionCache) { c.Inode++ }, false},
		"written to, or linked":    {func(c *VersionCache) { c.Changed++ }, false},
		"a machine without a time": {func(c *VersionCache) { c.Changed = 12*second + 5 }, false},
	} {
		now := disk
		c.change(&now)
		if got := disk.untouched(now); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	image := disk
	image.Changed = image.ModTime
	if image.untouched(image) {
		t.Error("an image's times are taken for the kernel's")
	}
	made := disk // by mke2fs -d: a change time of the maker's choice
	if made.Changed = 1795199104 * second; made.untouched(made) {
		t.Error("an image's maker's time is taken for the kernel's")
	}
	written := disk // by who set no time: it is when it was written, to the nanosecond
	written.ModTime = written.Changed
	if !written.untouched(written) {
		t.Error("a file with the time at which it was written")
	}
}

// A binary below another root, and that of a recorded machine, is never started: only what is kept tells, if it is of the same content.
func TestKubeletOfAnotherRoot(t *testing.T) {
	b := newBinaries(t)
	b.put("v1.36.3")
	b.run()
	_ = os.Remove(b.started)
	elsewhere := func(o Options) (string, error) {
		l := New(o)
		defer l.Close()
		l.found = func() *Binary { return FindKubelet(b.root, b.cache) }
		_, err := l.listed(t.Context())
		return l.version(t.Context()), err
	}
	for _, o := range []Options{{Root: b.root}, {Hardware: "x"}} {
		if v, err := elsewhere(o); v != "v1.36.3" || err != nil {
			t.Errorf("%+v: %q, %v", o, v, err)
		}
	}
	if e := ExamineKubelet(t.Context(), b.root, b.cache); e.Version != "v1.36.3" || e.Path != "/usr/bin/kubelet" || e.Keep != nil {
		t.Errorf("%+v", e)
	}
	b.put("v1.36.4")
	for _, o := range []Options{{Root: b.root}, {Hardware: "x"}} {
		if v, err := elsewhere(o); v != "" || err == nil || !strings.Contains(err.Error(), "not started here") {
			t.Errorf("%+v: %q, %v", o, v, err)
		}
	}
	if e := ExamineKubelet(t.Context(), b.root, b.cache); e.Version != "" || e.Path == "" {
		t.Errorf("%+v", e)
	}
	if _, err := os.Stat(b.started); err == nil {
		t.Error("it was started")
	}
	b.must(os.Remove(b.file))
	if v, err := elsewhere(Options{Root: b.root}); v != "" || err == nil || !strings.Contains(err.Error(), "no kubelet") {
		t.Errorf("without one: %q, %v", v, err)
	}
}
