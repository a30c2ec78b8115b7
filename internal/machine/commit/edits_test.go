package commit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/nodefile/hangfs"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/sample"
)

// Edits of managed files by others.
var (
	editedPairs = [][2]string{{"/etc/a", "/etc/b"}, {"/etc/a", otherKubeletFile}}
	edits       = []string{
		"none", "edited", "removed", "folder", "fifo", "link", "mode", "owner", "empty", "mounted", "read-only",
		"unreadable",
	}
	moments = []string{"before the run", "between run and verdict", "after the run"}
	sites   = []string{"one", "two", "wrong", "no-site", "unreachable", "held"}
)

// otherKubeletFile is a file that the kubelet reads, in addition to /etc/a. It is in a folder of its own.
const otherKubeletFile = "/etc/default/kubelet"

// editCase is what happens to a joined node with a good generation: edits at a moment of a boot, and another boot.
type editCase struct {
	files       [2]string // one of editedPairs
	edits       [2]string
	moment      string
	first, last string // the sites of the two boots
}

func listEditCases() (all []editCase) {
	for _, files := range editedPairs {
		for _, a := range edits {
			for _, b := range edits {
				for _, moment := range moments {
					for _, first := range sites {
						for _, last := range sites {
							all = append(all, editCase{files, [2]string{a, b}, moment, first, last})
						}
					}
				}
			}
		}
	}

	return slices.DeleteFunc(all, func(c editCase) bool { // a folder is damaged once
		return c.files == editedPairs[0] && c.edits == [2]string{"unreadable", "unreadable"}
	})
}

// listLasting returns the files of the kubelet whose edit cannot be undone by writing the file.
func (c editCase) listLasting() (files []string) {
	for i, file := range c.files {
		if file != "/etc/b" && slices.Contains([]string{"folder", "fifo", "link", "mounted"}, c.edits[i]) {
			files = append(files, file)
		}
	}

	return files
}

// changesKubelets reports whether an edit changes what the kubelet reads.
func (c editCase) changesKubelets() bool {
	isSame := func(edit string) bool { return slices.Contains([]string{"none", "mode", "owner", "read-only"}, edit) }

	return !isSame(c.edits[0]) || c.files[1] != "/etc/b" && !isSame(c.edits[1])
}

func (c editCase) String() string {
	return fmt.Sprintf("%v %v %s, sites %s and %s", c.files, c.edits, c.moment, c.first, c.last)
}

// TestEditedFiles plays boots of a joined node while somebody edits, removes or replaces managed files at some moment.
// The next boot starts the kubelet if the files that it reads can be made whole, and only on files of one generation.
// An edit of any file never makes a verdict bad, holds a plan or rolls back, because the kubelet of these boots is
// healthy. A file that the kubelet does not read never keeps the gate shut. A sample of the cases is tried, without
// root only those that need none.
func TestEditedFiles(t *testing.T) {
	all := listEditCases()
	chosen := sample.New(t)
	tried, skipped := 0, 0

	for i, c := range all {
		if !chosen.Has(sample.Quarter(sampledEdits), i) {
			continue
		}
		if os.Geteuid() != 0 && (needsRoot(c.edits[0]) || needsRoot(c.edits[1])) {
			skipped++
			continue
		}
		tried++
		isOK := t.Run(fmt.Sprintf("%d %s", i, c), func(t *testing.T) { // its mounts end with it
			b := newBenchIn(t, t.TempDir())
			b.playEdits(c)
			_ = b.Store.Close()
		})
		if !isOK {
			return
		}
	}

	t.Logf("%d of %d cases; %d skipped, because owners and mounts need root", tried, len(all), skipped)
}

func needsRoot(edit string) bool {
	return slices.Contains([]string{"owner", "mounted", "read-only", "unreadable"}, edit)
}

func (b *bench) edit(file, how string) {
	b.t.Helper()
	path := b.dir + file
	if how == "none" {
		return
	}
	if how != "mode" && !needsRoot(how) {
		must(b.t, os.RemoveAll(path))
	}
	switch how {
	case "owner":
		if err := os.Chown(path, 12345, 12345); err != nil && !os.IsNotExist(err) {
			b.t.Fatalf("got %v; want no error", err)
		}
	case "mounted":
		file := filepath.Join(b.dir, "of-others")
		osfile.Write(b.t, file, "by hand", 0o644)
		b.mount(file, path, 0)
	case "read-only":
		b.mount(path, path, unix.MS_RDONLY)
	case "edited":
		osfile.Write(b.t, path, "by hand", 0o644)
	case "empty":
		osfile.Write(b.t, path, "", 0o600)
	case "unreadable":
		hangfs.SpoilFile(b.t, path)
	case "folder":
		must(b.t, os.Mkdir(path, 0o755))
	case "fifo":
		must(b.t, unix.Mkfifo(path, 0o644))
	case "link":
		must(b.t, os.Symlink("/nowhere", path))
	case "mode":
		if err := os.Chmod(path, 0o600); err != nil && !os.IsNotExist(err) {
			b.t.Fatalf("got %v; want no error", err)
		}
	}
}

// mount mounts a file over another one, which is made if it is missing, until the end of the test.
func (b *bench) mount(file, over string, flags uintptr) {
	b.t.Helper()
	f, err := os.OpenFile(over, os.O_CREATE, 0o644)
	must(b.t, errors.Join(err, f.Close()))
	must(b.t, unix.Mount(file, over, "", unix.MS_BIND, ""))
	b.t.Cleanup(func() { must(b.t, unix.Unmount(over, unix.MNT_DETACH)) })
	if flags != 0 {
		must(b.t, unix.Mount("", over, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""))
	}
}

func (b *bench) playEdits(c editCase) {
	b.t.Helper()
	must(b.t, os.Mkdir(b.dir+filepath.Dir(otherKubeletFile), 0o755))
	b.do(b.t.Context(), ofTwoFiles("one"))

	apply := func() {
		for i, file := range c.files {
			b.edit(file, c.edits[i])
		}
	}
	b.reboot()
	if c.moment == moments[0] {
		apply()
	}
	if c.moment == moments[1] {
		b.onWatch = func() { b.onWatch = nil; apply() }
	}
	b.bootOn(c, c.first)
	b.onWatch = nil
	if c.moment == moments[2] {
		apply()
	}

	b.reboot()
	b.bootOn(c, c.last)
}

// ofTwoFiles is planOf with two files that the kubelet reads.
func ofTwoFiles(name string) *evaluate.Plan {
	p := planOf(name)
	if p.Complete {
		f := p.Node.Files[0]
		f.Path, f.Purpose = otherKubeletFile, "kubelet-flags"
		p.Node.Files = append(p.Node.Files, f)
	}

	return p
}

// reboot is the next boot, before prelet. The kubelet waits at the gate.
func (b *bench) reboot() {
	b.boot += "+"
	b.now = 1e10
	b.kubelet.Active, b.kubelet.Sub, b.kubelet.Started, b.kubelet.MainPID = "activating", "auto-restart", 1, 0
	b.kubelet.Result = "resources"
	must(b.t, os.RemoveAll(b.dir+"/run"))
	must(b.t, os.Mkdir(b.dir+"/run", 0o755))
}

// bootOn is a run of a boot, which waits for its verdict, with its checks.
func (b *bench) bootOn(c editCase, site string) {
	b.t.Helper()
	p := ofTwoFiles(site)
	if site == "held" {
		p = ofTwoFiles("two")
		b.open(true)
		must(b.t, b.Store.Hold(PlanID(p), "it failed"))
	}
	before := b.readKubelet()
	res, status := b.do(b.t.Context(), p)
	_, isOpen, err := b.Machine.Gate.State()
	must(b.t, err)

	isHeld := site == "held" || c.first == "held"
	lasting := c.listLasting()
	if !isOpen && len(lasting) == 0 {
		b.t.Errorf("site %s: got a shut gate (%s); want it open, because the kubelet's files can be written",
			site, b.Machine.Gate.Reason())
	}
	isNamed := func(file string) bool { return strings.Contains(status.Summary, file) }
	if !isOpen && len(lasting) > 0 && !slices.ContainsFunc(lasting, isNamed) {
		b.t.Errorf("site %s: got a shut gate and the summary %q; want one of %v in it", site, status.Summary, lasting)
	}
	if res.Outcome.Verdict == "bad" || res.Outcome.From != 0 || !isHeld && status.Held != nil {
		b.t.Errorf("site %s: got verdict %s, from %d, held %+v; want none of it for an edit of a file",
			site, res.Outcome.Verdict, res.Outcome.From, status.Held)
	}
	if slices.Contains([]fault.Code{fault.KubeletUnhealthy, fault.RolledBack, fault.RollbackFails}, res.Code) {
		b.t.Errorf("site %s: got code %s; want none about the kubelet", site, res.Code)
	}

	now := b.readKubelet()
	isChanged := c.moment == moments[1] && c.changesKubelets() // while the kubelet runs
	if isOpen && !isChanged && (now[0] != now[1] || !slices.Contains([]string{"one", "two"}, now[0])) {
		b.t.Errorf("site %s: the gate is open on files of the kubelet with %q (before: %q); "+
			"want the contents of one generation", site, now, before)
	}
}

// readKubelet returns the contents of the files that the kubelet reads.
func (b *bench) readKubelet() (contents [2]string) {
	for i, file := range editedPairs[1] {
		content, err := nodefile.ReadFile(filepath.Join(b.dir, file), nodefile.Max)
		contents[i] = string(content)
		if err != nil {
			contents[i] = err.Error()
		}
	}

	return contents
}

// newBenchIn is newBench in a folder, which is in memory if that is possible.
func newBenchIn(t *testing.T, dir string) *bench {
	if memory, err := os.MkdirTemp("/dev/shm", "commit"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(memory) })
		dir = memory
	}

	return startBench(t, dir)
}

// sampledEdits is of how many cases one is tried.
const sampledEdits = 55
