package live

import (
	"bytes"
	"context"
	"encoding/json"
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

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/world"
)

// VersionCache is what apply keeps of what the kubelet's binary said, so that a boot need not start it. A binary is the
// same when its path, size, time and head are: to read it whole would take longer than to ask it (84 MB: 0.3 s against 0.06 s).
// SHA256 is there where somebody had the time, for doctor to compare (docs/decisions/0011).
type VersionCache struct {
	Path    string            `json:"path"`
	Size    int64             `json:"size"`
	ModTime int64             `json:"mtime_ns"`
	Head    string            `json:"head_sha256"` // of its first headSize bytes
	Version string            `json:"version"`
	SHA256  string            `json:"sha256,omitempty"`
	Accepts *world.AcceptsAns `json:"accepts,omitempty"`
}

// headSize covers the tables of a program, which say how large each part of it is, and the linker's build id, a hash of the rest: two
// builds differ there, also where an image gives all its files one time, and their sizes happen to be the same.
const headSize = 64 << 10

// binaryTimeout bounds one question to the binary.
const binaryTimeout = 5 * time.Second

// kubeletDirs are where a kubelet is looked for, in this order.
func kubeletDirs() []string { return []string{"/usr/bin", "/usr/local/bin", "/opt/bin"} }

// findKubelet is the binary below a root.
func findKubelet(root string) (p string, st fs.FileInfo, ok bool) {
	for _, dir := range kubeletDirs() {
		p := filepath.Join(root, dir, "kubelet")
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return p, st, true
		}
	}
	return "", nil, false
}

// version is the kubelet's on this image, and whether there is one.
func (l *Live) version(ctx context.Context) (VersionCache, bool) {
	return KubeletVersion(ctx, l.o.Root, l.o.Hardware != "", l.cacheFile())
}

func (l *Live) cacheFile() string {
	if l.o.Store == nil {
		return ""
	}
	return path.Join(l.o.StateDir, "kubelet.json")
}

// cached is the binary below a root with what the cache has of it.
func cached(root, cache string) (c VersionCache, there bool) {
	now, _, there := binaryAt(root)
	if b, err := os.ReadFile(cache); err == nil {
		var c VersionCache
		if json.Unmarshal(b, &c) == nil && c.Path == now.Path && c.Size == now.Size && c.ModTime == now.ModTime && c.Head == now.Head && c.Version != "" {
			return c, there
		}
	}
	return now, there
}

// binaryAt is the binary below a root, and nothing of what it would say.
func binaryAt(root string) (VersionCache, fs.FileInfo, bool) {
	p, st, ok := findKubelet(root)
	if !ok {
		return VersionCache{}, nil, false
	}
	head, err := sumOf(p, headSize)
	if err != nil {
		head = "unread" // whom it is not let read may be let run it
	}
	return VersionCache{Path: p, Size: st.Size(), ModTime: st.ModTime().UnixNano(), Head: head}, st, true
}

// KubeletVersion asks the kubelet's binary below a root, or the cache when the binary is the same. A recorded
// machine, or another root, has a binary that must not be run here: then only the cache tells.
func KubeletVersion(ctx context.Context, root string, recorded bool, cache string) (VersionCache, bool) {
	c, there := cached(root, cache)
	if !there || c.Version != "" {
		return c, there
	}
	if recorded || root != "" {
		return c, false
	}
	out, err := runBinary(ctx, c.Path, "--version")
	v := strings.TrimSpace(strings.TrimPrefix(out, "Kubernetes "))
	if err != nil || !strings.HasPrefix(v, "v") || len(v) > 64 {
		return c, false
	}
	c.Version = v
	return c, true
}

// accepts is what the binary's --help lists.
func (l *Live) accepts(ctx context.Context) world.Answer {
	a, err := KubeletAccepts(ctx, l.o.Root, l.o.Hardware != "", l.cacheFile())
	if err != nil {
		return world.Answer{Fail: world.Absent, Detail: err.Error(), Hint: "prelet's own tables tell what its version takes"}
	}
	return world.Accepts.Answer(a)
}

// KubeletAccepts is KubeletVersion for the flags and feature gates that the binary lists.
func KubeletAccepts(ctx context.Context, root string, recorded bool, cache string) (world.AcceptsAns, error) {
	c, there := cached(root, cache)
	switch {
	case !there:
		return world.AcceptsAns{}, fmt.Errorf("there is no kubelet in %s", strings.Join(kubeletDirs(), ", "))
	case c.Accepts != nil:
		return *c.Accepts, nil
	case recorded || root != "":
		return world.AcceptsAns{}, fmt.Errorf("the kubelet of another root is not started here")
	}
	out, err := runBinary(ctx, c.Path, "--help")
	if err != nil {
		return world.AcceptsAns{}, fmt.Errorf("%s --help: %w", c.Path, err)
	}
	h, err := kubelet.ParseHelp(out)
	if err != nil {
		return world.AcceptsAns{}, fmt.Errorf("%s --help: %w", c.Path, err)
	}
	return world.AcceptsAns{Flags: h.Flags, Deprecated: h.Deprecated, Alpha: h.Alpha, Beta: h.Beta}, nil
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

// KubeletBinary is what the answers of the kubelet's binary are remembered under, without the answers. A binary that
// was replaced since before may be another one than was asked: then there is none, and the next run asks again. Of what is kept in
// cache, the hash of the whole stays, if that is of the same one.
func KubeletBinary(root, cache string, before time.Time) (VersionCache, bool) {
	now, st, ok := binaryAt(root)
	if !ok {
		return VersionCache{}, false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	// The change time: a package sets the modification time back to when it was built.
	if !ok || !time.Unix(sys.Ctim.Unix()).Before(before) {
		return VersionCache{}, false
	}
	if kept, _ := cached(root, cache); kept.Version != "" {
		now.SHA256 = kept.SHA256
	}
	return now, true
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
		return world.Answer{Fail: world.Absent, Detail: "what will be at " + p + " is not known below another root"}
	}
	_, err := os.Stat(p)
	if err != nil {
		if f := fileFailure(p, err); f.Fail != world.Absent {
			return f
		}
	}
	return world.Exists.Answer(world.ExistsAns{Exists: err == nil})
}
