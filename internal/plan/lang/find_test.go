package lang

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

func folder(names ...string) tree {
	t := tree{}
	for _, n := range names {
		t[n] = node{mode: fs.ModeDir | 0o755}
	}
	return t
}

func (t tree) with(name, text string) tree {
	t[name] = node{mode: 0o644, text: text}
	return t
}

func TestSearch(t *testing.T) {
	full := func() tree {
		return folder("/etc/prelet", "/run/prelet/site", "/usr/lib/prelet/site", "/etc/prelet/conf.d").
			with("/usr/lib/prelet/site/10-base.hcl", "lib").
			with("/usr/lib/prelet/site/20-gpu.hcl", "lib").
			with("/usr/lib/prelet/site/30-x.hcl.json", "{}").
			with("/run/prelet/site/20-gpu.hcl", "run").
			with("/run/prelet/site/40-run.hcl", "run").
			with("/etc/prelet/15-site.hcl", "etc").
			with("/etc/prelet/site.prelet.vars", "").
			with("/etc/prelet/site.preletdata.yaml", "").
			with("/etc/prelet/site.preletdata.toml", "").
			with("/etc/prelet/.x.preletdata.yaml", "").
			with("/etc/prelet/.hidden.hcl", "x").
			with("/etc/prelet/15-site.hcl~", "x").
			with("/etc/prelet/a.prelettest.hcl", "x").
			with("/etc/prelet/README", "x").
			with("/etc/prelet/conf.d/deep.hcl", "x").
			with("/etc/prelet/detectors.lock.json", "{}")
	}
	given := func(paths ...string) LoadOptions { return LoadOptions{Paths: paths} }
	for name, c := range map[string]struct {
		tree tree
		opts LoadOptions
		want string
	}{
		"all folders, in order": {full(), LoadOptions{}, "/usr/lib/prelet/site/10-base.hcl " +
			"/usr/lib/prelet/site/30-x.hcl.json /run/prelet/site/20-gpu.hcl /run/prelet/site/40-run.hcl " +
			"/etc/prelet/15-site.hcl /etc/prelet/site.prelet.vars /etc/prelet/site.preletdata.yaml"},
		"a mask hides, and is no file": {func() tree {
			f := full()
			f["/etc/prelet/20-gpu.hcl"] = node{mode: fs.ModeSymlink | 0o777, text: "/dev/null"}
			return f
		}(), LoadOptions{}, "/usr/lib/prelet/site/10-base.hcl /usr/lib/prelet/site/30-x.hcl.json " +
			"/run/prelet/site/40-run.hcl /etc/prelet/15-site.hcl /etc/prelet/site.prelet.vars /etc/prelet/site.preletdata.yaml"},
		"a later file ends a mask": {func() tree {
			f := full()
			f["/run/prelet/site/10-base.hcl"] = node{mode: fs.ModeSymlink | 0o777, text: "/dev/null"}
			return f.with("/etc/prelet/10-base.hcl", "")
		}(), LoadOptions{}, "/usr/lib/prelet/site/30-x.hcl.json /run/prelet/site/20-gpu.hcl " +
			"/run/prelet/site/40-run.hcl /etc/prelet/10-base.hcl /etc/prelet/15-site.hcl /etc/prelet/site.prelet.vars /etc/prelet/site.preletdata.yaml"},
		"a root":              {folder("/r/etc/prelet").with("/r/etc/prelet/a.hcl", ""), LoadOptions{Root: "/r"}, "/r/etc/prelet/a.hcl"},
		"a root from here":    {folder("r/etc/prelet").with("r/etc/prelet/a.hcl", ""), LoadOptions{Root: "./r"}, "r/etc/prelet/a.hcl"},
		"folders given":       {folder("x", "y").with("x/b.hcl", "").with("y/b.hcl", "").with("y/a.hcl", ""), given("x", "y/"), "y/a.hcl y/b.hcl"},
		"the other way round": {folder("x", "y").with("x/b.hcl", "").with("y/b.hcl", "").with("y/a.hcl", ""), given("y", "x"), "y/a.hcl x/b.hcl"},
		"files are layers":    {folder("x").with("x/b.hcl", "").with("y/b.hcl", ""), given("x/b.hcl", "y/b.hcl"), "y/b.hcl"},
		"a mask is a layer": {func() tree {
			f := folder("x").with("x/b.hcl", "").with("x/a.hcl", "")
			f["y/b.hcl"] = node{mode: fs.ModeSymlink, text: "/dev/null"}
			return f
		}(), given("x", "y/b.hcl"), "x/a.hcl"},
		"the search is unused": {full().with("z.hcl", ""), given("z.hcl"), "z.hcl"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 8 { // ReadDir lists in another order each time
				got, diags := find(c.tree, c.opts)
				if len(diags) > 0 {
					t.Fatalf("got %s, want no diagnostics", show(diags))
				}
				if d := cmp.Diff(c.want, strings.Join(listInEffect(got), " ")); d != "" {
					t.Fatalf("found files (-want +got):\n%s", d)
				}
			}
		})
	}
}

func TestFilesAreRefusedBeforeTheyAreRead(t *testing.T) {
	one := func(n node) tree {
		f := folder("/etc/prelet").with("/etc/prelet/good.hcl", "")
		f["/etc/prelet/a.hcl"] = n
		return f
	}
	many := folder("/etc/prelet")
	for i := range 70 {
		many.with("/etc/prelet/"+strings.Repeat("a", i+1)+".hcl", "")
	}
	open := folder()
	open["/etc/prelet"] = node{mode: fs.ModeDir | fs.ModeSticky | 0o777}
	linked := folder()
	linked["/etc/prelet"] = node{mode: fs.ModeSymlink | 0o777, text: "/srv"}
	locked := folder()
	locked["/etc/prelet"] = node{mode: fs.ModeDir | 0o700, err: fs.ErrPermission}
	failing := folder()
	failing["/etc/prelet"] = node{mode: fs.ModeDir | 0o700, err: syscall.ENOTCONN}
	for name, c := range map[string]struct {
		tree tree
		opts LoadOptions
		code fault.Code
		want string
	}{
		"FIFO":              {one(node{mode: fs.ModeNamedPipe | 0o644}), LoadOptions{}, fault.FileRefused, "/etc/prelet/a.hcl:1:1 This is not a regular file: It is a FIFO."},
		"socket":            {one(node{mode: fs.ModeSocket | 0o644}), LoadOptions{}, fault.FileRefused, "It is a socket."},
		"device":            {one(node{mode: fs.ModeDevice | fs.ModeCharDevice | 0o644}), LoadOptions{}, fault.FileRefused, "It is a device."},
		"folder":            {one(node{mode: fs.ModeDir | 0o755}), LoadOptions{}, fault.FileRefused, "It is a folder. Rename or remove it"},
		"link":              {one(node{mode: fs.ModeSymlink | 0o777, text: "good.hcl"}), LoadOptions{}, fault.FileRefused, "must not be a link: Its target"},
		"link to /dev/zero": {one(node{mode: fs.ModeSymlink | 0o777, text: "/dev/zero"}), LoadOptions{}, fault.FileRefused, "must not be a link"},
		"world-writable": {one(node{mode: 0o666}), LoadOptions{}, fault.FileRefused, "Others may change this " +
			"file: /etc/prelet/a.hcl can be written by everybody. A user who may change it controls this node. " +
			"Fix it: chmod o-w /etc/prelet/a.hcl"},
		"huge":               {one(node{mode: 0o644, size: MaxBytes + 1}), LoadOptions{}, fault.Limit, "This file is too large: It has 262145 bytes, a site's file may have 262144."},
		"many":               {many, LoadOptions{}, fault.Limit, "Too many files: This is number 65; a site may have 64."},
		"open folder":        {open, LoadOptions{}, fault.FileRefused, "/etc/prelet:1:1 Others may write into this folder"},
		"linked folder":      {linked, LoadOptions{}, fault.FileRefused, "This is not a folder: It is a link."},
		"locked folder":      {locked, LoadOptions{}, fault.FileRefused, nodefile.NextDenied("run as root, or give --config a copy")},
		"failing folder":     {failing, LoadOptions{}, fault.NoAnswer, "transport endpoint is not connected. Look at dmesg."},
		"gone":               {folder(), LoadOptions{Paths: []string{"x/y.hcl"}}, fault.FileRefused, "Cannot read x/y.hcl: lstat x/y.hcl: file does not exist. Check that it exists"},
		"test given":         {folder().with("a.prelettest.hcl", ""), LoadOptions{Paths: []string{"a.prelettest.hcl"}}, fault.FileRefused, "not the name of a site file: A site's file ends in .hcl, .preletvars.hcl, .tftpl or .preletdata.yaml"},
		"a link to a folder": {tree{"site": {mode: fs.ModeSymlink | 0o777, text: "/srv/site"}}, LoadOptions{Paths: []string{"site"}}, fault.FileRefused, "A site must not be a link: Its target could change"},
		"a mask is no file":  {tree{"a.hcl": {mode: fs.ModeSymlink, text: "/dev/null"}}, LoadOptions{Paths: []string{"a.hcl"}}, fault.NoSite, "file in a.hcl."},
		"no site": {folder("/etc/prelet"), LoadOptions{}, fault.NoSite, "No *.hcl " +
			"file in /usr/lib/prelet/site, /run/prelet/site, /etc/prelet."},
		"no site in a place": {folder("x"), LoadOptions{Paths: []string{"x"}}, fault.NoSite, "file in x. Write one " +
			"(prelet init --from-node makes a first one), or name it: --config PATH."},
	} {
		t.Run(name, func(t *testing.T) {
			s, diags := Load(unread{c.tree, t}, c.opts)
			if len(diags) != 1 || origin.CodeOf(diags[0]) != c.code || !strings.Contains(show(diags), c.want) {
				t.Errorf("got:  %s\nwant: %s … %s", show(diags), c.code, c.want)
			}
			if got, isTried := origin.Code(diags).Exit(), c.code == fault.NoAnswer; got != 10 && !isTried || isTried && got != 30 {
				t.Errorf("got exit %d, want 10, or 30 for what is tried again", got)
			}
			if s == nil || s.Sources == nil {
				t.Error("got no site, want one with sources to print")
			}
		})
	}
}

// unread fails the test when a file is opened.
type unread struct {
	tree
	t *testing.T
}

func (u unread) ReadFile(name string, _ int64) ([]byte, error) {
	u.t.Errorf("%s was read, want it to be refused before", name)
	return nil, errors.New("read")
}

func TestEncoding(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"latin1": {"locals {\n  a = \"caf\xe9\"\n}\n", "encoding a.hcl:2:11 This is not UTF-8: Save the " +
			"file as UTF-8"},
		"surrogate":   {"# \xed\xa0\x80", "encoding a.hcl:1:3 This is not UTF-8"},
		"overlong":    {"# \xc0\xaf", "encoding a.hcl:1:3 This is not UTF-8"},
		"NUL":         {"# é\x00", "encoding a.hcl:1:4 A NUL byte"},
		"mark":        {"\ufefflocals {}\n", "encoding a.hcl:1:1 This file begins with a byte order mark"},
		"placeholder": {"# \ue001", "encoding a.hcl:1:3 A character that is reserved: U+E000 and U+E001"},
		"in a string": {"locals {\n  a = \"\ue000cred:x\ue001\"\n}\n", "encoding a.hcl:2:8 A character that is " +
			"reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, file := range []string{"a.hcl", "a.prelet.vars"} {
				_, diags := parseText(t, "-- "+file+" --\n"+c.text)
				if got, want := show(diags), strings.Replace(
					c.want,
					"a.hcl",
					file,
					1,
				); len(diags) != 1 ||
					!strings.HasPrefix(got, want) {
					t.Errorf("got:  %s\nwant: %s", got, want)
				}
			}
		})
	}
	// What looks alike is allowed: other private characters, and U+FFFD where somebody wrote it.
	mustParse(t, "-- a.hcl --\nlocals {\n  a = \"\ue002 \ufffd\"\n}\n")
}
