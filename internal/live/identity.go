package live

import (
	"crypto/tls"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/prelet/prelet/internal/cluster"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/machineid"
	"github.com/prelet/prelet/internal/world"
)

const (
	// kubeletConf is the kubeconfig that a kubelet writes when it begins to join. It names the certificate before there is one.
	kubeletConf = "/etc/kubernetes/kubelet.conf"
	kubeletDir  = "/var/lib/kubelet"
	kubeletPKI  = kubeletDir + "/pki"
	kubeadmEnv  = kubeletDir + "/kubeadm-flags.env"
	nodeUser    = "system:node:"
)

// node says whether this machine has joined: kubelet.conf is there, parses, its certificate fits its key and is not expired, and
// nothing says that it belongs to another machine. It is looked at once.
func (l *Live) node() world.KubeletAns {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.joined == nil {
		k := world.KubeletAns{}
		h := l.held()
		l.denied = h.denied
		k.Joined, k.JoinedWhy = h.flaw == "", h.flaw
		if k.Joined {
			k.JoinedWhy = kubeletConf + " is there and not expired"
		}
		if h.there {
			k.Identity = &world.IdentityAns{Node: h.node, Host: l.hostName(), Older: h.before(l.machineSince()), Files: l.identityFiles(h)}
			if k.Identity.Foreign, k.Identity.Ours = l.foreign(); k.Identity.Foreign != "" {
				k.Joined, k.JoinedWhy = false, "it belongs to another machine: "+k.Identity.Foreign
			}
		}
		l.joined = &k
	}
	return *l.joined
}

// hasJoined is node's question of the files alone.
func (l *Live) hasJoined() (bool, string) {
	h := l.held()
	if h.flaw != "" {
		return false, h.flaw
	}
	return true, kubeletConf + " is there and not expired"
}

// identity is what kubelet.conf gives its bearer.
type identity struct {
	there  bool         // the file is
	flaw   string       // why nobody can join with it; "" for none
	denied *fault.Fault // this user may not read all of it
	node   string       // system:node:NAME
	dir    string       // of the certificate, where that is a file
	since  time.Time    // when it was written
}

// before says whether it was written before a moment that is known.
func (h identity) before(t time.Time) bool {
	return !h.since.IsZero() && !t.IsZero() && h.since.Before(t)
}

// held reads kubelet.conf and what it names. The rules are the kubelet's own, by which it bootstraps anew or does not
// (pkg/kubelet/certificate/bootstrap, isClientConfigStillValid).
func (l *Live) held() identity {
	text, f := l.readFile(kubeletConf)
	switch {
	case f != nil && f.Code == fault.Absent:
		return identity{flaw: "there is no " + kubeletConf}
	case f != nil:
		return identity{there: true, flaw: f.Why, denied: deniedOnly(f)}
	}
	h := identity{there: true, since: l.modified(kubeletConf)}
	c, err := cluster.ParseKubeconfig([]byte(text))
	if err != nil {
		h.flaw = kubeletConf + " " + err.Error()
		return h
	}
	certPEM, f := l.material(c.User.ClientCertificateData, c.User.ClientCertificate)
	if f != nil {
		h.flaw, h.denied = kubeletConf+" names a certificate that cannot be read: "+f.Why, deniedOnly(f)
		return h
	}
	if file := c.User.ClientCertificate; len(c.User.ClientCertificateData) == 0 && file != "" {
		h.dir, h.since = path.Dir(absolute(file)), l.modified(l.inRoot(absolute(file)))
	}
	if len(certPEM) == 0 {
		if !c.HasIdentity() {
			h.flaw = kubeletConf + " holds no credentials"
		}
		return h
	}
	if h.node, h.flaw = l.certificate(certPEM); h.flaw != "" {
		return h
	}
	keyPEM, f := l.material(c.User.ClientKeyData, c.User.ClientKey)
	switch {
	case f != nil:
		h.flaw, h.denied = kubeletConf+" names a key that cannot be read: "+f.Why, deniedOnly(f)
	case len(keyPEM) == 0:
		h.flaw = kubeletConf + " has a certificate and no key"
	default:
		if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil { // not told: it may quote the key
			h.flaw = "the certificate and the key of " + kubeletConf + " do not belong together"
		}
	}
	return h
}

func deniedOnly(f *fault.Fault) *fault.Fault {
	if f.Code != fault.Denied {
		return nil
	}
	return f
}

// material is what kubelet.conf holds, or names a file for, beside itself unless the path is absolute. What it holds
// wins, as in client-go's clientcmd.
func (l *Live) material(data []byte, file string) ([]byte, *fault.Fault) {
	if len(data) > 0 || file == "" {
		return data, nil
	}
	text, fail := l.readFile(l.inRoot(absolute(file)))
	return []byte(text), fail
}

func absolute(file string) string {
	if path.IsAbs(file) {
		return file
	}
	return path.Join(path.Dir(kubeletConf), file)
}

// inRoot follows a link of the kubelet, which is absolute, inside the root: kubelet-client-current.pem is one.
func (l *Live) inRoot(file string) string {
	if l.o.Root == "" {
		return file
	}
	to, err := os.Readlink(l.path(file))
	switch {
	case err != nil:
		return file
	case !path.IsAbs(to):
		to = path.Join(path.Dir(file), to)
	}
	return to
}

func (l *Live) modified(file string) time.Time {
	st, err := os.Stat(l.path(file))
	if err != nil {
		return time.Time{}
	}
	return st.ModTime()
}

// certificate checks a client certificate and its chain, and returns the name of its node. A clock that is not set yet cannot
// make one of today invalid: only its end counts.
func (l *Live) certificate(certPEM []byte) (node, flaw string) {
	chain, err := cert.ParseCertsPEM(certPEM)
	if err != nil {
		return "", "the certificate of " + kubeletConf + " holds no certificate that can be parsed"
	}
	node, ok := strings.CutPrefix(chain[0].Subject.CommonName, nodeUser)
	if !ok {
		node = ""
	}
	for _, c := range chain {
		if l.o.Now().After(c.NotAfter) {
			return node, fmt.Sprintf("the certificate of %s expired at %s", kubeletConf, c.NotAfter.UTC().Format(time.RFC3339))
		}
	}
	return node, ""
}

// foreign says why the generation in place, and with it kubelet.conf, was made on another machine, or that it is ours because
// nothing says so. A machine id or a product uuid that is not known on one of the two sides says nothing.
func (l *Live) foreign() (why string, ours bool) {
	if l.o.Store == nil {
		return "", false
	}
	cur, err := l.o.Store.Current()
	if err != nil || cur == nil {
		return "", false
	}
	why = machineid.Foreign(l.o.Store, cur.Gen, machineid.Of(l.o.Root))
	return why, why == ""
}

// hostName is how the kubelet calls its node when prelet's own flags do not say: by kubeadm's flags, else by the host's name
// (k8s.io/component-helpers/node/util, GetHostname). "" where neither is known, or where the name is that of no machine.
func (l *Live) hostName() string {
	if text, f := l.readFile(kubeadmEnv); f == nil {
		if env, err := kubelet.ParseEnvFile(text); err == nil {
			for _, name := range env.Names() {
				if f, ok := env.Get(name); ok {
					if v, ok := f.Lookup("hostname-override"); ok && v != "" {
						return strings.ToLower(v)
					}
				}
			}
		}
	}
	name := ""
	if l.o.Root == "" && l.o.Hardware == "" {
		name, _ = os.Hostname()
	} else if text, f := l.readFile("/etc/hostname"); f == nil {
		name = text
	}
	name = strings.ToLower(strings.TrimSpace(name))
	if name == "localhost" || strings.HasPrefix(name, "localhost.") || name == "(none)" {
		return ""
	}
	return name
}

// machineSince is when this machine got its id, which is at its first boot.
func (l *Live) machineSince() time.Time {
	if l.machineID() == "" {
		return time.Time{}
	}
	return l.modified("/etc/machine-id")
}

func (l *Live) machineID() string {
	text, f := l.readFile("/etc/machine-id")
	if f != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

// identityFiles are what makes this machine the node that it is, or remembers what ran there: kubelet.conf, the kubelet's
// certificates and keys, and the state of its managers. Links (kubelet-client-current.pem) hold nothing themselves.
func (l *Live) identityFiles(h identity) []string {
	out := []string{kubeletConf}
	dirs := []string{kubeletPKI}
	if h.dir != "" && h.dir != kubeletPKI && path.Base(h.dir) == "pki" { // --root-dir= or --cert-dir= of its own
		dirs = append(dirs, h.dir)
	}
	for _, dir := range dirs {
		names, _ := os.ReadDir(l.path(dir))
		for _, e := range names {
			if e.Type().IsRegular() && isKubeletCertificate(e.Name()) {
				out = append(out, path.Join(dir, e.Name()))
			}
		}
	}
	// pkg/kubelet: cm/{cpumanager,memorymanager,dra,devicemanager}, allocation, kuberuntime, status
	for _, name := range []string{"cpu_manager_state", "memory_manager_state", "dra_manager_state", "allocated_pods_state", "actuated_pods_state",
		"pod_status_manager_state", "device-plugins/kubelet_internal_checkpoint"} {
		if st, err := os.Lstat(l.path(path.Join(kubeletDir, name))); err == nil && st.Mode().IsRegular() {
			out = append(out, path.Join(kubeletDir, name))
		}
	}
	slices.Sort(out)
	return out
}

// isKubeletCertificate: the client's and the server's, rotated (kubelet-client-TIME.pem) or not.
func isKubeletCertificate(name string) bool {
	if name == "kubelet.crt" || name == "kubelet.key" {
		return true
	}
	kind := strings.HasPrefix(name, "kubelet-client") || strings.HasPrefix(name, "kubelet-server")
	return kind && (strings.HasSuffix(name, ".pem") || strings.HasSuffix(name, ".crt") || strings.HasSuffix(name, ".key"))
}
