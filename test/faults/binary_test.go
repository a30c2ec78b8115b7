package faults

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/machine/probe/hardware/hwtree"
)

// preletOnce builds the real binary once for all tests.
var preletOnce = sync.OnceValues(func() (string, error) {
	at := filepath.Join(os.Getenv(inNamespace), "prelet")
	c := exec.Command("go", "build", "-tags", "grpcnotrace", "-o", at, "./cmd/prelet")
	c.Dir, c.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return at, nil
})

// site has what a worker has, and files of its own: %s is replaced by more of them.
const site = `
variable "v" { default = "1" }
cluster {
  servers        = ["https://10.0.0.11:6443"]
  ca_cert_hashes = ["sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270"]
  token          = credential("bootstrap-token")
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "label" "node" { labels = { "example.com/pool" = "pool-${var.v}" } }
stage "write" "kubelet" {
  file "a" {
    path    = "/etc/site.d/a.conf"
    content = "a = ${var.v}\n"
  }
  file "secret" {
    path    = "/etc/site.d/secret.conf"
    content = "secret = ${credential("secret")} ${var.v}\n"
  }
%s
}
`

const secretText = "canary-of-the-real-binary"

// box is a machine below a folder, for the real binary.
type box struct {
	t      *testing.T
	prelet string
	dir    string // site, credentials; not on the disk that breaks
	root   string
	trace  string
	before []string // a command that runs prelet, such as prlimit
}

// newBox has a root at a folder that is there. more are further blocks of its stage "write".
func newBox(t *testing.T, root, more string) *box {
	t.Helper()
	prelet, err := preletOnce()
	must(t, err)
	b := &box{t: t, prelet: prelet, dir: scratch(t), root: root}
	b.trace = filepath.Join(b.dir, "trace")
	b.site(more)
	must(t, hwtree.BuildFile("../../testdata/hardware/spec/bare-vm.json", filepath.Join(b.dir, "machine")))
	must(t, errors.Join(
		os.MkdirAll(filepath.Join(b.dir, "credentials"), 0o700),
		os.MkdirAll(b.path("/var/lib"), 0o755),
		os.WriteFile(filepath.Join(b.dir, "credentials/bootstrap-token"), []byte("abcdef.0123456789abcdef"), 0o400),
		os.WriteFile(filepath.Join(b.dir, "credentials/secret"), []byte(secretText), 0o400)))
	b.put("/etc/site.d/a.conf", "as before prelet\n", 0o644)
	b.put("/etc/site.d/foreign.conf", "none of ours\n", 0o640)
	return b
}

func (b *box) site(more string) {
	b.t.Helper()
	must(b.t, os.WriteFile(filepath.Join(b.dir, "site.hcl"), fmt.Appendf(nil, site, more), 0o600))
}

// onTmpfs is a box whose root is a tmpfs with these options.
func onTmpfs(t *testing.T, options, more string) *box {
	t.Helper()
	at := scratch(t)
	must(t, unix.Mount("tmpfs", at, "tmpfs", 0, options))
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	return newBox(t, at, more)
}

// onDisk is a box whose root is on ext4 in a loop file.
func onDisk(t *testing.T, more string) (*box, *disk) {
	t.Helper()
	d := newDisk(t, filesystems[0], scratch(t))
	d.format(t, d.image)
	must(t, errors.Join(d.mount(), os.Mkdir(d.root(), 0o755)))
	return newBox(t, d.root(), more), d
}

func (b *box) path(p string) string { return filepath.Join(b.root, p) }

func (b *box) put(p, content string, mode os.FileMode) {
	b.t.Helper()
	must(
		b.t,
		errors.Join(
			os.MkdirAll(filepath.Dir(b.path(p)), 0o755),
			os.WriteFile(b.path(p), []byte(content), mode),
			os.Chmod(b.path(p), mode),
		),
	)
}

func (b *box) read(p string) string {
	b.t.Helper()
	c, err := os.ReadFile(b.path(p))
	if errors.Is(err, os.ErrNotExist) {
		return "absent"
	}
	must(b.t, err)
	return string(c)
}

func (b *box) look() tree {
	b.t.Helper()
	out, err := look(b.root)
	must(b.t, err)
	return out
}

// runs is the command line of a run of version v.
func (b *box) runs(v string) []string {
	return b.line("run", "--config", filepath.Join(b.dir, "site.hcl"), "--objects", "../../examples/objects",
		"--hardware", filepath.Join(b.dir, "machine"), "--var", "v="+v)
}

func (b *box) line(command string, args ...string) []string {
	out := append([]string{"env", "CREDENTIALS_DIRECTORY=" + filepath.Join(b.dir, "credentials")}, b.before...)
	return append(append(out, b.prelet, command, "--root", b.root), args...)
}

func (b *box) do(line []string) ended {
	b.t.Helper()
	e, err := execute(line[0], line[1:]...)
	must(b.t, err)
	if strings.Contains(e.output, secretText) {
		b.t.Errorf("got %v prints the secret; want no %q in it", line, secretText)
	}
	return e
}

// expect does a command and wants an exit status, and words in what it says.
func (b *box) expect(exit int, line []string, words ...string) ended {
	b.t.Helper()
	e := b.do(line)
	if e.exit != exit {
		b.t.Errorf("exit %d, want %d: %s", e.exit, exit, e.output)
	}
	said := strings.Join(strings.Fields(e.output), " ")
	for _, w := range words {
		if !strings.Contains(said, w) {
			b.t.Errorf("it does not say %q: got %s; want text with %q", w, e.output, w)
		}
	}
	return e
}

// unchanged: each file but prelet's own is the same inode, times and bytes (I8), and no temporary is left (I6).
func (b *box) unchanged(start tree) {
	b.t.Helper()
	b.only(start)
	if l := b.look().litter(); l != nil {
		b.t.Errorf("left behind: got %v; want nil", l)
	}
}

// only is unchanged, but for what prelet's own folder holds.
func (b *box) only(start tree) {
	b.t.Helper()
	now := b.look()
	for p, n := range start {
		if !ours(p) && !n.mode.IsDir() && now[p] != n {
			b.t.Errorf("%s was changed: got %+v, want %+v", p, now[p], n)
		}
	}
	for p, n := range now {
		if _, was := start[p]; !ours(p) && !was {
			b.t.Errorf("%s is new: got %+v, want no file", p, n.node)
		}
	}
}

// heals: once the fault is gone, a run of version 2 does it all.
func (b *box) heals() {
	b.t.Helper()
	b.expect(0, b.runs("2"))
	b.is("2")
}

// is checks that every target is of version v.
func (b *box) is(v string) {
	b.t.Helper()
	if got := b.version(); got != v {
		b.t.Errorf("got version %s, want %s", got, v)
	}
}

// version returns the version of the managed files, and what is not of it or was left.
func (b *box) version() string {
	b.t.Helper()
	a := b.read("/etc/site.d/a.conf")
	v := strings.TrimSuffix(strings.TrimPrefix(a, "a = "), "\n")
	var differ []string
	if a != "a = "+v+"\n" {
		differ = append(differ, fmt.Sprintf("a.conf is %q", a))
	}
	if s := b.read("/etc/site.d/secret.conf"); s != "secret = "+secretText+" "+v+"\n" {
		differ = append(differ, "secret.conf is another")
	}
	if f := b.read("/etc/default/kubelet"); !strings.Contains(f, "pool-"+v) {
		differ = append(differ, fmt.Sprintf("the kubelet's flags are %q", f))
	}
	now := b.look()
	if l := now.litter(); l != nil {
		differ = append(differ, fmt.Sprintf("left behind: %v", l))
	}
	if now["/etc/site.d/foreign.conf"].content != "none of ours\n" {
		differ = append(differ, "a foreign file was touched")
	}

	return strings.Join(append([]string{v}, differ...), ", but ")
}
