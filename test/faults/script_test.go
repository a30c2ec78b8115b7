package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/testing/scripttest"
)

// TestRows runs the scripts of testdata/rows.txtar: each is a row of the matrix of disk faults, with the real binary on
// a file system of its own.
func TestRows(t *testing.T) {
	for _, script := range scripttest.Load(t, "testdata/rows.txtar") {
		row(t, script.Name, func(t *testing.T) {
			r := &rowScript{t: t}
			scripttest.Run(t, script.Lines, r.do)
		})
	}
}

// rowScript is a script on a box, which its first command makes.
type rowScript struct {
	*box
	t    *testing.T
	line scripttest.Line
}

func (r *rowScript) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("%s: got %v, want no error", r.line, err)
	}
}

func (r *rowScript) number(text string, base int) int {
	r.t.Helper()
	n, err := strconv.ParseInt(text, base, 64)
	r.must(err)

	return int(n)
}

func (r *rowScript) do(l scripttest.Line) bool {
	r.t.Helper()
	r.line = l
	a := l.Words[1:]
	switch l.Words[0] {
	case "tmpfs": // OPTIONS
		r.box = onTmpfs(r.t, a[0], "")
	case "ext4":
		r.box, _ = onDisk(r.t, "")
	case "run": // VERSION [TEXT…]: it succeeds, with this output
		r.expect(0, r.runs(a[0]), a[1:]...)
	case "rollback":
		r.expect(0, r.box.line("rollback"))
	case "refused": // TEXT…: a run of version 2 is refused, and nothing has changed
		r.box.refused(a...)
	case "recover": // TEXT…: it succeeds, with this output
		r.expect(0, r.box.line("recover"), a...)
	case "heals":
		r.heals()
	case "is": // VERSION
		r.is(a[0])
	case "lost-file": // the site has a file in folders that do not exist
		r.site("file \"lost\" {\n path = \"/etc/none/below/lost.conf\"\n content = var.v\n}\n")
	case "big-file": // BYTES
		content := strings.Repeat("x", r.number(a[0], 10))
		r.site("file \"big\" {\n path = \"/etc/site.d/big.conf\"\n content = \"" + content + "\"\n}\n")
	case "limit": // OPTION of prlimit; without OPTION none
		if r.before = nil; len(a) > 0 {
			r.before = []string{"prlimit", a[0]}
		}
	case "put": // PATH MODE CONTENT
		content := strings.NewReplacer("@SUM@", strings.Repeat("0", 64), "@LINE@", "\n").Replace(a[2])
		r.put(a[0], content, os.FileMode(r.number(a[1], 8)))
	case "rm":
		r.must(os.RemoveAll(r.path(a[0])))
	case "link": // TO AT
		r.must(os.Symlink(a[0], r.path(a[1])))
	case "mv":
		r.must(os.Rename(r.path(a[0]), r.path(a[1])))
	case "chmod":
		r.must(os.Chmod(r.path(a[0]), os.FileMode(r.number(a[1], 8))))
	case "chown":
		r.must(os.Chown(r.path(a[0]), r.number(a[1], 10), 0))
	case "chattr":
		chattr(r.t, a[0], r.path(a[1]))
	case "fill":
		fill(r.t, r.path(a[0]))
	case "fill-inodes": // FOLDER
		r.must(os.Mkdir(r.path(a[0]), 0o755))
		for i := 0; ; i++ {
			err := os.WriteFile(r.path(a[0]+"/"+strconv.Itoa(i)), nil, 0o600)
			if errors.Is(err, unix.ENOSPC) {
				break
			}
			r.must(err)
		}
	case "remount": // ro, or OPTIONS
		if a[0] == "ro" {
			r.must(unix.Mount("", r.root, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		} else {
			r.must(unix.Mount("", r.root, "", unix.MS_REMOUNT, a[0]))
		}
	case "bind": // FROM AT: FROM is a path of the root, or site.hcl on another file system
		from := r.path(a[0])
		if a[0] == "site.hcl" {
			from = filepath.Join(r.dir, a[0])
		}
		r.must(unix.Mount(from, r.path(a[1]), "", unix.MS_BIND, ""))
	case "bind-read-only":
		r.must(unix.Mount(r.path(a[0]), r.path(a[0]), "", unix.MS_BIND, ""))
		r.must(unix.Mount("", r.path(a[0]), "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	case "unmount":
		r.must(unix.Unmount(r.path(a[0]), 0))
	case "file": // PATH CONTENT
		if got := r.read(a[0]); got != strings.ReplaceAll(a[1], "@LINE@", "\n") {
			r.t.Errorf("%s: got %q, want %q", l, got, a[1])
		}
	case "mode": // PATH MODE
		i, err := os.Stat(r.path(a[0]))
		r.must(err)
		if got := i.Mode().Perm(); int(got) != r.number(a[1], 8) {
			r.t.Errorf("%s: got %04o, want %s", l, got, a[1])
		}
	default:
		return false
	}

	return true
}
