package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// errnos are what may go wrong with a call.
var errnos = map[string][]string{
	"openat":    {"ENOSPC", "EMFILE", "EROFS"},
	"write":     {"ENOSPC", "EDQUOT", "EIO", "EINTR"},
	"fsync":     {"EIO", "ENOSPC", "EDQUOT"},
	"renameat":  {"EXDEV", "EBUSY", "EIO", "EINTR"},
	"linkat":    {"ENOSPC", "EPERM"},
	"mkdirat":   {"ENOSPC", "EROFS"},
	"unlinkat":  {"EIO", "EPERM"},
	"fchmod":    {"EPERM", "EINTR"},
	"fchmodat":  {"EROFS"},
	"fchown":    {"EPERM"},
	"fchownat":  {"EPERM"},
	"ftruncate": {"ENOSPC"},
	"fallocate": {"ENOSPC"},
	"fsetxattr": {"EDQUOT"},
	"renameat2": {"EIO"},
	"pwrite64":  {"ENOSPC"},
	"fdatasync": {"EIO"},
}

// says is the expected message about an errno: its name, and the next step.
var says = map[string][2]string{
	"ENOSPC": {
		"no space left on device",
		"free space",
	},
	"EDQUOT": {"disk quota exceeded", "quota"},
	"EIO":    {"input/output error", "dmesg"},
	"EROFS": {
		"read-only file system",
		"remount",
	},
	"EMFILE": {"too many open files", "raise the limit"},
	"EPERM":  {"operation not permitted", "lsattr"},
	"EXDEV":  {"invalid cross-device link", "unmount"},
	"EBUSY":  {"device or resource busy", "unmount"},
}

// TestEveryCallFails lets each call of a run that changes something fail, with each errno that fits: rows 29, 30, 31,
// 40, 44 in the middle of things. Before COMMIT it is 40 and nothing is touched; after it 42, and the next run
// finishes.
func TestEveryCallFails(t *testing.T) {
	const more = `
  directory "new" { path = "/etc/new.d" }
  file "inside" {
    path    = "/etc/new.d/inside.conf"
    content = var.v
    owner   = "7:8"
  }
`
	model := onTmpfs(t, "size=16m", more)
	row(t, "29 30 31 40 44 every call fails", func(t *testing.T) {
		model.t = t
		model.site("")
		model.expect(0, model.runs("1"))
		model.site(more)
		kept := scratch(t)
		copyTree(t, model.root, kept)
		// As slow as the runs that follow: which thread does what is a matter of time.
		calls, _, e, err := failingAt(model.trace, call{name: "openat", nth: 60000}, "EIO", model.runs("2")...)
		must(t, err)
		if e.exit != 0 {
			t.Fatal(e.output)
		}
		tried, missed := 0, 0
		exits := map[string]int{}
		for i, c := range calls {
			after := model.isCommitted(calls, i)
			if c.failed || !c.changes() || !c.below(model.root) {
				continue
			}
			for _, errno := range errnos[c.name] {
				tried++
				where := ""
				// The program has several threads, and their counts are not always the same.
				for try := 0; where == "" && try < 5; try++ {
					must(t, empty(model.root))
					copyTree(t, kept, model.root)
					where = model.fails(c, errno, after)
				}
				if exits[where]++; where == "" {
					t.Logf("missed: %s %s %s", errno, c, c.paths())
					missed++
				}
			}
		}
		t.Logf("%d tried, %d missed: %v", tried, missed, exits)
		if missed*10 > tried {
			t.Errorf("got no fault %d of %d times, want each one", missed, tried)
		}
	})
}

// commits says whether a call gives the journal its name, which is the COMMIT once everything staged is durable.
func (c call) commits() bool {
	return !c.failed && strings.HasPrefix(c.name, "rename") && strings.HasSuffix(c.paths()[1], stateDir+"/journal.json")
}

// isCommitted says whether the call at an index follows COMMIT: the fsyncs after the journal has its name are over.
func (b *box) isCommitted(calls []call, at int) bool {
	named := slices.IndexFunc(calls[:at], call.commits)
	isOver := func(c call) bool { return c.name != "fsync" && c.changes() && c.below(b.root) }

	return named >= 0 && slices.ContainsFunc(calls[named+1:at+1], isOver)
}

// fails lets one call fail and judges what comes of it: before or after COMMIT, and the exit status. "" when it did
// not come.
func (b *box) fails(c call, errno string, after bool) string {
	b.t.Helper()
	start := b.look()
	calls, hit, e, err := failingAt(b.trace, c, errno, b.runs("2")...)
	must(b.t, err)
	if hit == nil || !hit.changes() ||
		!slices.Equal(hit.paths(), c.paths()) { // a later look at the same file is another call
		return ""
	}
	complain := func(format string, args ...any) {
		b.t.Errorf("%s of %s %s: exit %d: %s\n%s",
			errno, hit.name, hit.paths(), e.exit, fmt.Sprintf(format, args...), e.output)
	}
	at := slices.IndexFunc(calls, func(x call) bool { return x.injected })
	committed := b.isCommitted(calls, at)
	if byName(c) { // nothing else was traced: the run without a fault decides
		committed = after
	}
	path := hit.paths()[len(hit.paths())-1]
	if hit.name == "fsync" {
		for _, x := range calls[at+1:] {
			if x.name == "fsync" && x.at(0) == path && strings.HasSuffix(path, ".tmp") {
				complain("%s is fsynced again", path)
			}
		}
	}
	benign := errno == "EINTR" || // done again
		strings.HasSuffix(path, "/lock") || // of reserved space
		hit.name == "linkat" && errno == "EPERM" // a file system without links
	switch {
	case e.exit == 0 && (benign || committed && hit.name == "unlinkat"):
		b.is("2")
		return "passed over"
	case committed && e.exit == 42:
	case !committed && e.exit == 40:
		b.unchanged(start)
	default:
		complain("committed: %v", committed)
	}
	said := strings.Join(strings.Fields(e.output), " ")
	if want := says[errno]; !strings.Contains(said, want[0]) || !strings.Contains(said, want[1]) {
		complain("it does not say %q", want)
	}
	if !strings.Contains(said, filepath.Base(b.root)) && !strings.Contains(said, "/etc") &&
		!strings.Contains(said, " /:") &&
		!strings.Contains(said, "/var/lib") {
		complain("it names no object")
	}
	b.expect(0, b.runs("2"))
	b.is("2")
	return fmt.Sprintf("exit %d", e.exit)
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput(); err != nil {
		t.Fatalf("cp: got %v %s; want no error", err, out)
	}
}

// empty empties a folder.
func empty(dir string) error {
	all, err := os.ReadDir(dir)
	for _, x := range all {
		if err == nil {
			err = os.RemoveAll(filepath.Join(dir, x.Name()))
		}
	}
	return err
}
