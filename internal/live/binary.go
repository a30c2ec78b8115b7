package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/world"
)

// binaryTimeout bounds one question to the binary.
const binaryTimeout = 5 * time.Second

// KubeletBinary is the kubelet on this image, as it was when it was asked for first; nil: there is none.
func (l *Live) KubeletBinary() *Binary { return l.found() }

// elsewhere says whether the binary must not be run here: it is below another root, or a recorded machine is looked at. Then
// only what is kept tells.
func (l *Live) elsewhere() bool { return l.o.Hardware != "" || l.o.Root != "" }

func (l *Live) cacheFile() string {
	if l.o.Store == nil {
		return ""
	}
	return path.Join(l.o.StateDir, "kubelet.json")
}

// version is the kubelet's; "": there is none, or it does not tell.
func (l *Live) version(ctx context.Context) string {
	b := l.KubeletBinary()
	if b == nil {
		return ""
	}
	if b.kept != nil {
		return b.kept.Version
	}
	if l.elsewhere() {
		return ""
	}
	return b.version(ctx)
}

// accepts is what the binary's --help lists.
func (l *Live) accepts(ctx context.Context) world.Answer {
	a, err := l.listed(ctx)
	if err != nil {
		return world.Failure(fault.Absent, err.Error(), "prelet's own tables tell what its version takes")
	}
	return world.Accepts.Answer(*a)
}

func (l *Live) listed(ctx context.Context) (*world.AcceptsAns, error) {
	b := l.KubeletBinary()
	if b == nil {
		return nil, fmt.Errorf("there is no kubelet in %s", strings.Join(kubeletDirs(), ", "))
	}
	if b.kept != nil && b.kept.Accepts != nil {
		return b.kept.Accepts, nil
	}
	if l.elsewhere() {
		return nil, errors.New("the kubelet of another root is not started here")
	}
	return b.accepts(ctx)
}

// version asks the binary.
func (b *Binary) version(ctx context.Context) string {
	out, err := runBinary(ctx, b.file, "--version")
	v := strings.TrimSpace(strings.TrimPrefix(out, "Kubernetes "))
	if err != nil || !strings.HasPrefix(v, "v") || len(v) > 64 {
		return ""
	}
	return v
}

// accepts asks the binary.
func (b *Binary) accepts(ctx context.Context) (*world.AcceptsAns, error) {
	out, err := runBinary(ctx, b.file, "--help")
	if err != nil {
		return nil, fmt.Errorf("%s --help: %w", b.Path(), err)
	}
	h, err := kubelet.ParseHelp(out)
	if err != nil {
		return nil, fmt.Errorf("%s --help: %w", b.Path(), err)
	}
	return &world.AcceptsAns{Flags: h.Flags, Deprecated: h.Deprecated, Alpha: h.Alpha, Beta: h.Beta}, nil
}

// Examined is what a kubelet's binary was asked at leisure.
type Examined struct {
	Path    string // "": there is none
	Version string // "": it does not tell
	Keep    []byte // to be kept; nil for nothing
}

// ExamineKubelet asks the binary, whatever was kept of it. A binary below another root is not started: then only what is
// kept is returned.
func ExamineKubelet(ctx context.Context, root, cache string) Examined {
	b := FindKubelet(root, cache)
	switch {
	case b == nil:
		return Examined{}
	case root == "":
		return b.examine(ctx)
	case b.kept == nil:
		return Examined{Path: b.Path()}
	}

	return Examined{Path: b.Path(), Version: b.kept.Version}
}

func (b *Binary) examine(ctx context.Context) Examined {
	out := Examined{Path: b.Path(), Version: b.version(ctx)}
	accepts, _ := b.accepts(ctx) // without it the tables tell

	if c, ok := b.Keep(out.Version, accepts); ok && out.Version != "" {
		out.Keep, _ = c.Marshal() // else the next boot asks again
	}

	return out
}

// maxHelp bounds what is read of a help.
const maxHelp = 1 << 20

// runBinary starts a program that prints something and ends.
func runBinary(ctx context.Context, p, arg string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, binaryTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p, arg)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.WaitDelay = time.Second
	out := limited{most: maxHelp}
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return "", err
	}
	return out.b.String(), nil
}

// limited keeps the first bytes that are written to it, and takes the rest.
type limited struct {
	b    bytes.Buffer
	most int
}

func (l *limited) Write(p []byte) (int, error) {
	l.b.Write(p[:min(len(p), l.most-l.b.Len())])
	return len(p), nil
}

// cgroupVersion is that of the hierarchy at a folder; 0 where nobody can tell.
func cgroupVersion(dir string) int {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err == nil {
		return 2
	}
	if _, err := os.Stat(filepath.Join(dir, "memory")); err == nil {
		return 1
	}
	return 0
}

// hierarchies are the folders of cgroup v1, of a table of mounts, in which a kubelet looks for a group (pkg/kubelet/cm,
// cgroupV1impl.Validate).
func hierarchies(mounts string) (out []string) {
	b, _ := os.ReadFile(mounts)
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) > 3 && f[2] == "cgroup" && slices.ContainsFunc(strings.Split(f[3], ","), func(o string) bool {
			return slices.Contains([]string{"cpu", "cpuacct", "cpuset", "hugetlb", "memory", "name=systemd", "pids"}, o)
		}) {
			out = append(out, f[1])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// swapOn says whether swap is on: a line for each device below the headline of /proc/swaps. The kubelet does not count
// zram's as something else.
func swapOn(file string) *bool {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	on := bytes.Count(bytes.TrimSpace(b), []byte("\n")) > 0
	return &on
}

// diskBytes is the size of the filesystem that a folder is on, or will be; 0 where nobody can tell.
func diskBytes(dir string) int64 {
	var s syscall.Statfs_t
	for err := syscall.Statfs(dir, &s); err != nil; err = syscall.Statfs(dir, &s) {
		if !errors.Is(err, fs.ErrNotExist) || dir == "/" {
			return 0
		}
		dir = filepath.Dir(dir)
	}
	return int64(s.Blocks) * int64(s.Bsize)
}

// sysctls are the values that the kubelet minds with protectKernelDefaults, those that can be read.
func sysctls(dir string) map[string]int64 {
	out := map[string]int64{}
	for _, name := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if n, bad := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64); err == nil && bad == nil {
			out[name] = n
		}
	}
	return out
}

// exists answers for what the kubelet will look at on this machine. Below another root nobody can tell what will be there
// when it boots.
func (l *Live) exists(p string) world.Answer {
	if l.o.Root != "" || l.o.Hardware != "" {
		return world.Failure(fault.Absent, "what will be at "+p+" is not known below another root", "")
	}
	_, err := os.Stat(p)
	if err != nil {
		if f := fileFailure(p, err); f.Code != fault.Absent {
			return world.Answer{Fault: f}
		}
	}
	return world.Exists.Answer(world.ExistsAns{Exists: err == nil})
}
