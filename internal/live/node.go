package live

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/world"
)

// kubeletConf is the kubeconfig that a kubelet writes when its bootstrap succeeded: proof of having joined.
const kubeletConf = "/etc/kubernetes/kubelet.conf"

// VersionCache is what apply keeps of the kubelet's --version, so that a boot need not start the binary.
type VersionCache struct {
	Path    string `json:"path"`
	Size    int64  `json:"size"`
	ModTime int64  `json:"mtime_ns"`
	Version string `json:"version"`
}

func (l *Live) kubelet(ctx context.Context) world.Answer {
	if _, a := l.readFile(kubeletConf); a.Fail == world.Denied { // "not joined" would plan a bootstrap that nobody needs
		return a
	}
	k := l.node()
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

// node says whether this machine has joined: kubelet.conf is there, parses, its certificate is not expired, and it
// belongs to this machine.
func (l *Live) node() world.KubeletAns {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.joined == nil {
		k := world.KubeletAns{}
		k.Joined, k.JoinedWhy = l.hasJoined()
		l.joined = &k
	}
	return *l.joined
}

func (l *Live) hasJoined() (bool, string) {
	text, a := l.readFile(kubeletConf)
	switch {
	case a.Fail == world.Absent:
		return false, "there is no " + kubeletConf
	case a.Fail != "":
		return false, a.Detail
	}
	c, err := kubelet.ParseKubeconfig(text)
	if err != nil {
		return false, kubeletConf + " cannot be used: " + err.Error()
	}
	certPEM, a := l.material(c.ClientCertData, c.ClientCertFile)
	if a.Fail != "" {
		return false, kubeletConf + " names a certificate that cannot be read: " + a.Detail
	}
	if len(certPEM) > 0 {
		if why := l.expired(certPEM); why != "" {
			return false, why
		}
	} else if !c.HasIdentity() {
		return false, kubeletConf + " holds no credentials"
	}
	if mine := MachineHash(l.machineID()); l.o.Store != nil && mine != "" {
		if g := l.Past(); g != nil && g.Recording.Header.Machine != "" && g.Recording.Header.Machine != mine {
			return false, "it belongs to another machine: the machine id is not the one of generation " + fmt.Sprint(g.Generation)
		}
	}
	return true, kubeletConf + " is there and not expired"
}

// material is what kubelet.conf holds, or names a file for, beside itself unless the path is absolute. What it holds
// wins, as in client-go's clientcmd.
func (l *Live) material(data []byte, file string) ([]byte, world.Answer) {
	if len(data) > 0 || file == "" {
		return data, world.Answer{}
	}
	if !path.IsAbs(file) {
		file = path.Join(path.Dir(kubeletConf), file)
	}
	text, fail := l.readFile(file)
	return []byte(text), fail
}

// expired judges the client certificate. A clock that is not set yet cannot make one of today invalid: only its end
// counts.
func (l *Live) expired(certPEM []byte) string {
	for len(certPEM) > 0 {
		var b *pem.Block
		b, certPEM = pem.Decode(certPEM)
		if b == nil {
			break
		}
		if b.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return "the certificate of " + kubeletConf + " cannot be parsed"
		}
		if l.o.Now().After(c.NotAfter) {
			return fmt.Sprintf("the certificate of %s expired at %s", kubeletConf, c.NotAfter.UTC().Format(time.RFC3339))
		}
		return ""
	}
	return "the certificate of " + kubeletConf + " holds no certificate"
}

func (l *Live) machineID() string {
	text, a := l.readFile("/etc/machine-id")
	if a.Fail != "" {
		return ""
	}
	return strings.TrimSpace(text)
}
