package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// sitesFolder has the pulled sites of a node.
const sitesFolder = "/var/lib/prelet/sites"

// pulledBox is a box whose site is pulled from a folder, without a registry or a signature.
type pulledBox struct {
	*box
	kept    string         // the root, with site 1, before an update to site 2
	digests map[string]int // 1 and 2
}

// newPulledBox returns a box that has pulled site 1, and whose image asks for site 2.
func newPulledBox(t *testing.T) *pulledBox {
	t.Helper()
	b := &pulledBox{box: onTmpfs(t, "size=16m", ""), kept: scratch(t), digests: map[string]int{}}
	for n := 1; n <= 2; n++ {
		dir := filepath.Join(b.dir, fmt.Sprint("site-", n))
		must(t, errors.Join(
			os.Mkdir(dir, 0o700),
			os.WriteFile(filepath.Join(dir, "a.hcl"), fmt.Appendf(nil, "locals { a = %d }\n", n), 0o600),
			os.WriteFile(filepath.Join(dir, "b.hcl"), fmt.Appendf(nil, "locals { b = %d }\n", n), 0o600)))
		shelf := fmt.Sprintf("oci-layout:%s/shelf:v%d", b.dir, n)
		pushed := b.do([]string{b.prelet, "push", dir, shelf, "-o", "json"})
		at := strings.LastIndex(pushed.output, "sha256:")
		if pushed.exit != 0 || at < 0 {
			t.Fatalf("push: got exit %d, %s, want a digest", pushed.exit, pushed.output)
		}
		digest := pushed.output[at : at+len("sha256:")+64]
		b.digests[digest] = n
		b.put("/usr/lib/prelet/site/delivery.hcl",
			fmt.Sprintf("delivery { from = [\"oci-layout:%s/shelf@%s\"] }\n", b.dir, digest), 0o644)
		if n == 1 {
			b.expect(0, b.update())
		}
	}
	copyTree(t, b.root, b.kept)

	return b
}

func (b *pulledBox) update() []string { return b.line("site", "update") }

// again restores the root as it was before the update to site 2.
func (b *pulledBox) again() {
	b.t.Helper()
	must(b.t, empty(b.root))
	copyTree(b.t, b.kept, b.root)
}

// has returns which site the record names, after checking that prelet reads both of its files.
func (b *pulledBox) has() int {
	b.t.Helper()
	var record struct{ Digest string }
	must(b.t, json.Unmarshal([]byte(b.read(sitesFolder+"/state.json")), &record))
	n := b.digests[record.Digest]
	for _, name := range []string{"a", "b"} {
		file := fmt.Sprintf("%s/%s/%s.hcl", sitesFolder, strings.Replace(record.Digest, ":", "-", 1), name)
		if got, want := b.read(file), fmt.Sprintf("locals { %s = %d }\n", name, n); got != want {
			b.t.Errorf("%s: got %q, want %q", file, got, want)
		}
	}
	if e := b.do(b.line("site")); e.exit != 0 {
		b.t.Errorf("the site: got exit %d, %s, want that it is read", e.exit, e.output)
	}

	return n
}

// heals checks that the next update stores site 2, and leaves nothing else.
func (b *pulledBox) heals(after string) {
	b.t.Helper()
	b.expect(0, b.update())
	if n := b.has(); n != 2 {
		b.t.Errorf("the update after %s: got site %d, want 2", after, n)
	}
	entries, err := os.ReadDir(b.path(sitesFolder))
	isLeft := func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }
	if err != nil || slices.ContainsFunc(entries, isLeft) {
		b.t.Errorf("the update after %s: got %v, %v, want no leftovers", after, entries, err)
	}
}

// TestSiteUpdate kills `prelet site update` at each call that changes the disk, and lets each fail: the node
// has the old site or the new one, whole, and the next update stores the new one.
func TestSiteUpdate(t *testing.T) {
	b := newPulledBox(t)
	calls, e, err := traced(b.trace, b.update()...)
	must(t, err)
	if n := b.has(); e.exit != 0 || n != 2 {
		t.Fatalf("without a fault: got exit %d, %s, site %d, want 2", e.exit, e.output, n)
	}

	killed, failed, tried, missed := map[int]int{}, map[int]int{}, 0, 0
	for _, c := range calls {
		if c.failed || !c.changes() || !c.below(b.root) {
			continue
		}
		b.again()
		tried++
		_, e, err := killedTraced(b.trace, c, b.update()...)
		must(t, err)
		if !e.killed {
			missed++ // the program has several threads, and their counts are not always the same
		}
		killed[b.has()]++
		b.heals("a kill at " + c.name + " of " + fmt.Sprint(c.paths()))

		for _, errno := range errnos[c.name][:1] {
			b.again()
			tried++
			_, hit, e, err := failingAt(b.trace, c, errno, b.update()...)
			must(t, err)
			n := b.has()
			failed[n]++
			isPassedOver := errno == "EINTR" || strings.HasSuffix(c.paths()[0], "/lock")
			switch {
			case hit == nil || !hit.changes(): // or a later look at the same file failed
				missed++
			case e.exit == 0 && n != 2, e.exit != 0 && e.exit != 40 && !isPassedOver:
				t.Errorf("%s of %s %s: got exit %d, %s, site %d, want 40, or site 2",
					errno, c.name, c.paths(), e.exit, e.output, n)
			}
			b.heals(errno + " of " + c.name)
		}
	}
	t.Logf("killed: %v, failed: %v (calls by the site that the node has then), missed: %d of %d",
		killed, failed, missed, tried)
	if killed[1] == 0 || failed[1] == 0 || missed*2 > tried { // the last call that changes something replaces the site
		t.Errorf("got %v killed, %v failed and %d of %d missed, want the old site, and few missed",
			killed, failed, missed, tried)
	}
}

// TestSiteUpdateOnHostileDisk updates on a disk that is full, and on one that is read-only.
func TestSiteUpdateOnHostileDisk(t *testing.T) {
	b := newPulledBox(t)
	b.put("/var/ballast", "", 0o600)
	for size := int64(16 << 20); size > 0; size /= 2 { // until nothing fits any more
		f, err := os.OpenFile(b.path("/var/ballast"), os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		for err == nil {
			_, err = f.Write(make([]byte, min(size, 1<<20)))
		}
		must(t, f.Close())
	}
	b.expect(40, b.update(), "no space left on device")
	if n := b.has(); n != 1 {
		t.Errorf("on a full disk: got site %d, want 1", n)
	}
	must(t, os.Remove(b.path("/var/ballast")))

	must(t, unix.Mount("", b.root, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	e := b.expect(40, b.update(), "read-only file system")
	if n := b.has(); n != 1 {
		t.Errorf("on a read-only disk: got site %d, want 1: %s", n, e.output)
	}
	must(t, unix.Mount("", b.root, "", unix.MS_REMOUNT, ""))
	b.heals("a disk that could not be written")
}

// TestNotBelowIsDurable follows a run with a signed site: what it accepts is on the disk before anything is applied.
// After a power cut an earlier file would let an older site run, and an empty one would refuse every site.
func TestNotBelowIsDurable(t *testing.T) {
	b := onTmpfs(t, "size=16m", "")
	key, signed := filepath.Join(b.dir, "key"), filepath.Join(b.dir, "signed")
	must(t, errors.Join(os.Mkdir(signed, 0o700), os.Rename(filepath.Join(b.dir, "site.hcl"), signed+"/site.hcl")))
	for _, line := range [][]string{
		{"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key},
		{b.prelet, "site", "sign", signed, "--key", key, "--name", "gpu", "--counter", "3", "--not-below", "2"},
	} {
		b.expect(0, line)
	}
	public, err := os.ReadFile(key + ".pub")
	must(t, err)
	b.put("/usr/lib/prelet/site-signers", string(public), 0o644)

	line := b.runs("1")
	line[slices.Index(line, "--config")+1] = signed
	calls, e, err := traced(b.trace, line...)
	must(t, err)
	file := b.path("/var/lib/prelet/site-not-below")
	named := slices.IndexFunc(calls, func(c call) bool { return !c.failed && slices.Index(c.paths(), file) == 1 })
	if e.exit != 0 || named < 0 {
		t.Fatalf("got exit %d, %s and no name for %s, want one", e.exit, e.output, file)
	}
	flushes := func(calls []call, path string) bool {
		return slices.ContainsFunc(calls, func(c call) bool { return c.name == "fsync" && c.paths()[0] == path })
	}
	applied := named + slices.IndexFunc(calls[named:], call.commits)
	if applied < named || !flushes(calls[:named], calls[named].paths()[0]) ||
		!flushes(calls[named:applied], filepath.Dir(file)) {
		t.Errorf("got %s among %v, want the content flushed before it, and the folder before COMMIT", calls[named], calls)
	}
}
