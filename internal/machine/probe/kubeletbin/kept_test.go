package kubeletbin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/nodefile/hangfs"
)

// binaries are kubelets below a root, scripts that note that they were started.
type binaries struct {
	t                 *testing.T
	root, file, cache string
	started           string
	time              time.Time
}

func newBinaries(t *testing.T) *binaries {
	root := t.TempDir()
	return &binaries{
		t:       t,
		root:    root,
		file:    filepath.Join(root, "usr/bin/kubelet"),
		cache:   filepath.Join(root, "kubelet.json"),
		started: filepath.Join(root, "started"),
		time:    time.Unix(1, 0),
	}
}

func (b *binaries) must(errs ...error) {
	b.t.Helper()
	if err := errors.Join(errs...); err != nil {
		b.t.Fatal(err)
	}
}

// text is a kubelet of a version. All of them have one length.
func (b *binaries) text(version string) []byte {
	help, err := os.ReadFile("../../../model/kubelet/testdata/help/v1.36.3.txt")
	b.must(err)
	text := "#!/bin/sh\n" + fmt.Sprintf(
		"echo >>%s\n[ $1 = --help ] || exec echo Kubernetes %8s\ncat <<'END'\n%s\nEND\n",
		b.started,
		version,
		help,
	)
	return []byte(text)
}

// later waits until the file system's clock, which has ticks of some milliseconds, is past the last change of the
// binary.
func (b *binaries) later() {
	b.t.Helper()
	last, _ := describe(b.file, "")
	for now := last; now.Changed <= last.Changed; {
		b.must(os.WriteFile(b.cache+".now", []byte("x"), 0o755))
		now, _ = describe(b.cache+".now", "")
	}
}

// put replaces the binary as a package does: another file under its name, with the time that all of them have.
func (b *binaries) put(version string) {
	b.t.Helper()
	b.later()
	b.must(os.MkdirAll(filepath.Dir(b.file), 0o755))
	writeProgram(b.t, b.file+".new", string(b.text(version)))
	b.must(
		os.Chtimes(b.file+".new", b.time, b.time),
		os.Rename(b.file+".new", b.file),
	)
}

// run does what a boot does: it asks for version and flags, and keeps them. It returns how often the binary was
// started.
func (b *binaries) run() (version string, starts int) {
	b.t.Helper()
	_ = os.Remove(b.started)

	binary := Find(b.root, b.cache, nil)
	if binary != nil {
		binary.isConfined = false // it is that of a boot, and writes that it was started
	}
	version, _ = binary.Version(b.t.Context(), true)
	accepts, err := binary.Accepts(b.t.Context(), true)
	if err == nil && len(accepts.Deprecated) < 100 {
		b.t.Errorf("got %d deprecated flags, want at least 100", len(accepts.Deprecated))
	}

	if version != "" {
		c, ok := binary.Keep(version, accepts)
		if !ok {
			b.t.Fatalf("Keep(%q): got nothing to keep, want the answers", version)
		}
		text, err := c.Marshal()
		b.must(err, os.WriteFile(b.cache, text, 0o600))
	}

	log, _ := os.ReadFile(b.started)
	return version, strings.Count(string(log), "\n")
}

func (b *binaries) want(what, version string, starts int) {
	b.t.Helper()
	v, n := b.run()
	if v != version || n != starts {
		b.t.Errorf("%s: got version %q and %d starts, want %q and %d", what, v, n, version, starts)
	}
}

// TestKept: the answers are valid as long as path, size, both times and inode are the same.
func TestKept(t *testing.T) {
	b := newBinaries(t)
	b.want("none", "", 0)
	b.put("v1.36.3")
	b.want("the first boot", "v1.36.3", 2)
	b.want("the second boot", "v1.36.3", 0)

	if os.Geteuid() == 0 {
		b.must(os.Chown(b.cache, 1000, 0))
		b.want("answers of another user", "v1.36.3", 2)
		b.must(os.Chown(b.cache, 0, 0))
	}

	b.put("v1.36.4")
	b.want("another of the same length and time", "v1.36.4", 2)
	b.want("the boot after it", "v1.36.4", 0)

	b.later()
	f, err := os.OpenFile(b.file, os.O_WRONLY, 0)
	b.must(err)
	_, err = f.Write(b.text("v1.36.5"))
	b.must(err, f.Close(), os.Chtimes(b.file, b.time, b.time))
	b.want("the same file, written over", "v1.36.5", 2)

	b.put("v1.36.5")
	b.want("a copy", "v1.36.5", 2)
	b.want("the boot after it", "v1.36.5", 0)
	b.later()
	b.must(os.Link(b.file, b.file+".link"))
	b.want("a link was made to it", "v1.36.5", 2)
	b.want("the boot after it", "v1.36.5", 0)

	b.time = time.Unix(2, 0)
	b.put("v1.36.5")
	b.want("another time", "v1.36.5", 2)
	b.must(os.WriteFile(b.cache, []byte("{"), 0o600))
	b.want("a cache that is damaged", "v1.36.5", 2)
	b.must(os.WriteFile(b.cache, []byte(`{"path":"/usr/bin/kubelet","head":"00","version":"v1.0.0"}`), 0o600))
	b.want("a cache of an older prelet", "v1.36.5", 2)
	b.must(os.Chmod(b.file, 0o644))
	b.want("no program any more", "", 0)
}

// TestExamine: seal and doctor ask the binary whatever is kept, and what seal keeps is what a boot takes.
func TestExamine(t *testing.T) {
	b := newBinaries(t)
	b.put("v1.36.3")
	b.run()

	var kept VersionCache
	text, err := os.ReadFile(b.cache)
	b.must(err, json.Unmarshal(text, &kept))
	kept.Version = "v1.0.0"
	text, err = kept.Marshal()
	b.must(err, os.WriteFile(b.cache, text, 0o600))
	b.want("a wrong answer that was kept", "v1.0.0", 0)

	e := Find(b.root, b.cache, nil).examine(t.Context())
	if e.Version != "v1.36.3" || e.Keep == nil {
		t.Errorf("examine: got version %q, keep %q; want v1.36.3 and answers to keep", e.Version, e.Keep)
	}

	b.must(os.WriteFile(b.cache, e.Keep, 0o600))
	b.want("the boot after it", "v1.36.3", 0)
}

// TestReplacedWhileAsked: a binary that is replaced while it is asked is not kept, since either of the two may have
// answered.
func TestReplacedWhileAsked(t *testing.T) {
	b := newBinaries(t)
	b.put("v1.36.3")
	found := Find(b.root, b.cache, nil)
	b.put("v1.36.3")

	if c, ok := found.Keep("v1.36.3", nil); ok {
		t.Errorf("Keep after the file was replaced: got %+v, want nothing to keep", c)
	}
}

// Of the binary of a recorded machine, which is never started, only what is kept of this file is used. That below
// another root is confined.
func TestKubeletOfAnotherRoot(t *testing.T) {
	b := newBinaries(t)
	b.put("v1.36.3")
	b.run()
	_ = os.Remove(b.started)
	elsewhere := func() (string, error) {
		binary := Find(b.root, b.cache, nil)
		_, err := binary.Accepts(t.Context(), false)
		version, _ := binary.Version(t.Context(), false)
		return version, err
	}
	if v, err := elsewhere(); v != "v1.36.3" || err != nil {
		t.Errorf("got %q, %v; want the version that is kept", v, err)
	}
	b.put("v1.36.4")
	if v, err := elsewhere(); v != "" || err == nil || !strings.Contains(err.Error(), "not started here") {
		t.Errorf("got %q, %v; want no version and an error", v, err)
	}

	e := Examine(t.Context(), b.root, b.cache, nil)
	if MayStart(b.root) && e.Version != "v1.36.4" || e.Path != "/usr/bin/kubelet" || e.Keep != nil {
		t.Errorf("got %+v, want the version that it prints", e)
	}
	if _, err := os.Stat(b.started); err == nil {
		t.Error("got a file that it wrote, want none")
	}
	b.must(os.Remove(b.file))
	if v, err := elsewhere(); v != "" || err == nil || !strings.Contains(err.Error(), "no kubelet") {
		t.Errorf("without one: %q, %v", v, err)
	}
}

// TestNoAnswer: the search for a program ends if its file system does not answer, and says so for a named one.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	hanging := filepath.Join(hangfs.Mount(t), "kubelet")
	var all sync.WaitGroup
	all.Go(func() {
		if got := Examine(t.Context(), "", "", []string{hanging}); got.Path == "" && got.Unread == nil {
			t.Errorf("with %s: got no kubelet without an error, want the error", hanging)
		}
	})
	all.Go(func() {
		if _, err := At(hanging); !errors.As(err, new(*nodefile.NoAnswerError)) {
			t.Errorf("At %s: got %v, want the error of a file system that does not answer", hanging, err)
		}
	})
	all.Wait()
}

// What a program prints is bounded, and one that hangs is given up.
func TestRun(t *testing.T) {
	p := filepath.Join(t.TempDir(), "kubelet")
	script := "#!/bin/sh\ncase $1 in\n--version) echo Kubernetes v1.2.3;;\n--flood) while echo " +
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; do :; done;;\n*) exit 3;;\nesac\n"
	writeProgram(t, p, script)
	program, err := At(p)
	must(t, err)
	if out, err := program.run(t.Context(), "--version"); err != nil || out != "Kubernetes v1.2.3\n" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := program.run(t.Context(), "--fail"); err == nil {
		t.Error("a program that fails")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // which it always takes
	defer cancel()
	if _, err := program.run(ctx, "--flood"); err == nil {
		t.Error("a program that does not end")
	}
	l := limited{most: 5}
	for range 3 {
		if n, err := l.Write([]byte("abc")); n != 3 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if l.b.String() != "abcab" {
		t.Errorf("%q", l.b.String())
	}
}

// TestFind checks which binary counts: the one that the unit starts, if it is the kubelet and exists. A link of an image
// leads to a file of that image.
func TestFind(t *testing.T) {
	root := t.TempDir()
	put := func(p string) {
		file := filepath.Join(root, p)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o755)))
	}
	put("/usr/local/bin/kubelet")
	put("/opt/k8s/1.36/kubelet")
	put("/opt/bin/wrapper")

	for name, c := range table.YAML[map[string]struct {
		Command []string
		Want    string
	}](t, `
not known: {want: /usr/local/bin/kubelet}
elsewhere: {command: [/opt/k8s/1.36/kubelet, --v=2], want: /opt/k8s/1.36/kubelet}
missing: {command: [/opt/k8s/1.37/kubelet], want: /usr/local/bin/kubelet}
a wrapper: {command: [/opt/bin/wrapper, kubelet], want: /usr/local/bin/kubelet}
searched in a PATH: {command: [kubelet], want: /usr/local/bin/kubelet}
`) {
		b := Find(root, "", c.Command)
		if b == nil || b.Path() != c.Want {
			t.Errorf("%s: got %+v; want %s", name, b, c.Want)
		}
	}

	must(t, os.Remove(filepath.Join(root, "usr/local/bin/kubelet")))
	must(t, os.Symlink("/opt/k8s/1.36/kubelet", filepath.Join(root, "usr/local/bin/kubelet")))
	if b := Find(root, "", nil); b == nil || b.Path() != "/usr/local/bin/kubelet" {
		t.Errorf("an absolute link: got %+v; want /usr/local/bin/kubelet", b)
	}

	// The file exists outside of the root only.
	outside := filepath.Join(t.TempDir(), "kubelet")
	err := errors.Join(
		os.WriteFile(outside, nil, 0o755),
		os.Remove(filepath.Join(root, "usr/local/bin/kubelet")),
		os.Symlink(outside, filepath.Join(root, "usr/local/bin/kubelet")),
	)
	must(t, err)
	if b := Find(root, "", nil); b != nil {
		t.Errorf("a link to a file outside of the root: got %+v; want none", b)
	}
}

// writeProgram writes a file that can be executed at once.
func writeProgram(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock() // a process that starts meanwhile has the file open: it could not be executed
	defer syscall.ForkLock.RUnlock()
	must(t, os.WriteFile(path, []byte(text), 0o755))
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
