package live

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/world"
)

// VersionCache is what apply keeps of the kubelet's --version, so that a boot need not start the binary.
type VersionCache struct {
	Path    string `json:"path"`
	Size    int64  `json:"size"`
	ModTime int64  `json:"mtime_ns"`
	Version string `json:"version"`
}

func (l *Live) kubelet(ctx context.Context) world.Answer {
	k := l.node()
	if l.denied.Fail != "" { // "not joined" would plan a bootstrap that nobody needs
		return l.denied
	}
	if v, ok := l.version(ctx); ok {
		k.Version = &v.Version
	}
	return world.Kubelet.Answer(k)
}

// Version is the kubelet's on this image, and whether there is one.
func (l *Live) version(ctx context.Context) (VersionCache, bool) {
	return KubeletVersion(ctx, l.o.Root, l.o.Hardware != "", l.cacheFile())
}

func (l *Live) cacheFile() string {
	if l.o.Store == nil {
		return ""
	}
	return path.Join(l.o.StateDir, "kubelet.json")
}

// KubeletVersion asks the kubelet's binary below a root, or the cache when the binary is the same. A recorded
// machine, or another root, has a binary that must not be run here: then only the cache tells.
func KubeletVersion(ctx context.Context, root string, recorded bool, cache string) (VersionCache, bool) {
	for _, dir := range []string{"/usr/bin", "/usr/local/bin", "/opt/bin"} {
		p := path.Join(root, dir, "kubelet")
		st, err := os.Stat(p)
		if err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
			continue
		}
		now := VersionCache{Path: p, Size: st.Size(), ModTime: st.ModTime().UnixNano()}
		if b, err := os.ReadFile(cache); err == nil {
			var c VersionCache
			if json.Unmarshal(b, &c) == nil && c.Path == now.Path && c.Size == now.Size && c.ModTime == now.ModTime && c.Version != "" {
				return c, true
			}
		}
		if recorded || root != "" {
			return now, false
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, p, "--version")
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
		cmd.WaitDelay = time.Second
		out, err := cmd.Output()
		v := strings.TrimSpace(strings.TrimPrefix(string(out), "Kubernetes "))
		if err != nil || !strings.HasPrefix(v, "v") || len(v) > 64 {
			return now, false
		}
		now.Version = v
		return now, true
	}
	return VersionCache{}, false
}
