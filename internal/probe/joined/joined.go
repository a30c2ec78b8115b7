// Package joined reads whether a node has joined its cluster, and as whom: kubelet.conf, what it names, and what the
// kubelet keeps of it. It reads files of the node only. What it returns of a key is whether it fits.
package joined

import (
	"crypto/tls"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/probe/cluster"
)

const (
	// Conf is the kubeconfig that a kubelet writes when it begins to join. It names the certificate before there is
	// one.
	Conf = "/etc/kubernetes/kubelet.conf"
	// BootstrapConf is what it joins with.
	BootstrapConf = "/etc/kubernetes/bootstrap-kubelet.conf"
	kubeletDir    = "/var/lib/kubelet"
	kubeletPKI    = kubeletDir + "/pki"
	kubeadmEnv    = kubeletDir + "/kubeadm-flags.env"
	nodeUser      = "system:node:"
)

// Node is the node below a root.
type Node struct {
	Root     nodefile.Root
	Now      func() time.Time // certificates are judged by it
	Recorded bool             // the hardware is another machine's, so this machine's name says nothing
}

// Identity is what kubelet.conf gives its bearer.
type Identity struct {
	There  bool         // the file is
	Flaw   string       // why nobody can join with it; "" for none
	Denied *fault.Fault // this user may not read all of it
	Loose  *fault.Fault // others may change some of it: whether the node has joined is still what it holds, as for the kubelet
	Node   string       // system:node:NAME; "" for a certificate of another kind
	dir    string       // of the certificate, where that is a file
	since  time.Time    // when it was written
}

// Joined says whether the node has joined, by its files alone, and what speaks for or against it.
func (h Identity) Joined() (bool, string) {
	if h.Flaw != "" {
		return false, h.Flaw
	}
	return true, Conf + " is there and not expired"
}

// Before says whether it was written before a moment that is known.
func (h Identity) Before(t time.Time) bool {
	return !h.since.IsZero() && !t.IsZero() && h.since.Before(t)
}

// Identity reads kubelet.conf and what it names. The rules are the kubelet's own, by which it bootstraps anew or does
// not (pkg/kubelet/certificate/bootstrap, isClientConfigStillValid).
func (n Node) Identity() Identity {
	h := Identity{There: true, since: n.modified(Conf)}
	text, f := h.read(n.Root, Conf)
	switch {
	case f != nil && f.Code == fault.Absent:
		return Identity{Flaw: "there is no " + Conf}
	case f != nil:
		h.Flaw, h.Denied = f.Why, deniedOnly(f)
		return h
	}
	c, err := cluster.ParseKubeconfig([]byte(text))
	if err != nil {
		h.Flaw = Conf + " " + err.Error()
		return h
	}
	read := func(file string) (string, *fault.Fault) { return h.read(n.Root, file) }
	certPEM, f := material(c.User.ClientCertificateData, c.User.ClientCertificate, read)
	if f != nil {
		h.Flaw, h.Denied = Conf+" names a certificate that cannot be read: "+f.Why, deniedOnly(f)
		return h
	}
	if file := c.User.ClientCertificate; len(c.User.ClientCertificateData) == 0 && file != "" {
		h.dir, h.since = path.Dir(absolute(file)), n.modified(n.InRoot(absolute(file)))
	}
	if len(certPEM) == 0 {
		if !c.HasIdentity() {
			h.Flaw = Conf + " holds no credentials"
		}
		return h
	}
	if h.Node, h.Flaw = n.Certificate(certPEM); h.Flaw != "" {
		return h
	}
	keyPEM, f := material(c.User.ClientKeyData, c.User.ClientKey, read)
	switch {
	case f != nil:
		h.Flaw, h.Denied = Conf+" names a key that cannot be read: "+f.Why, deniedOnly(f)
	case len(keyPEM) == 0:
		h.Flaw = Conf + " has a certificate and no key"
	default:
		if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil { // not told: it may quote the key
			h.Flaw = "the certificate and the key of " + Conf + " do not belong together"
		}
	}
	return h
}

// read reads a file of the identity, and keeps the first fault of one that others may change.
func (h *Identity) read(r nodefile.Root, file string) (string, *fault.Fault) {
	text, loose, f := r.JudgedText(file)
	if loose != nil && h.Loose == nil {
		h.Loose = nodefile.Untrusted(file, loose)
	}
	return text, f
}

func deniedOnly(f *fault.Fault) *fault.Fault {
	if f.Code != fault.Denied {
		return nil
	}
	return f
}

// Material is what kubelet.conf holds, or names a file for, beside itself unless the path is absolute. What it holds
// wins, as in client-go's clientcmd. A file that others may change is not read.
func (n Node) Material(data []byte, file string) ([]byte, *fault.Fault) {
	return material(data, file, n.Root.TrustedText)
}

func material(data []byte, file string, read func(string) (string, *fault.Fault)) ([]byte, *fault.Fault) {
	if len(data) > 0 || file == "" {
		return data, nil
	}
	text, fail := read(absolute(file))
	return []byte(text), fail
}

func absolute(file string) string {
	if path.IsAbs(file) {
		return file
	}
	return path.Join(path.Dir(Conf), file)
}

// InRoot follows a link of the kubelet, which is absolute, inside the root: kubelet-client-current.pem is one.
func (n Node) InRoot(file string) string {
	if n.Root == "" {
		return file
	}
	to, err := os.Readlink(n.Root.Path(file))
	switch {
	case err != nil:
		return file
	case !path.IsAbs(to):
		to = path.Join(path.Dir(file), to)
	}
	return to
}

func (n Node) modified(file string) time.Time {
	st, err := os.Stat(n.Root.Path(file))
	if err != nil {
		return time.Time{}
	}
	return st.ModTime()
}

// Certificate checks a client certificate and its chain, and returns the name of its node. A clock that is not set yet
// cannot make one of today invalid: only its end counts.
func (n Node) Certificate(certPEM []byte) (node, flaw string) {
	chain, err := cert.ParseCertsPEM(certPEM)
	if err != nil {
		return "", "the certificate of " + Conf + " holds no certificate that can be parsed"
	}
	node, ok := strings.CutPrefix(chain[0].Subject.CommonName, nodeUser)
	if !ok {
		node = ""
	}
	for _, c := range chain {
		if n.Now().After(c.NotAfter) {
			return node, fmt.Sprintf("the certificate of %s expired at %s", Conf, c.NotAfter.UTC().Format(time.RFC3339))
		}
	}
	return node, ""
}

// HostName is how the kubelet calls its node when prelet's own flags do not say: by kubeadm's flags, else by the host's
// name (k8s.io/component-helpers/node/util, GetHostname). "" where neither is known, or where the name is that of no
// machine.
func (n Node) HostName() string {
	if text, f := n.Root.Text(kubeadmEnv); f == nil {
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
	if n.Root == "" && !n.Recorded {
		name, _ = os.Hostname()
	} else if text, f := n.Root.Text("/etc/hostname"); f == nil {
		name = text
	}
	name = strings.ToLower(strings.TrimSpace(name))
	if name == "localhost" || strings.HasPrefix(name, "localhost.") || name == "(none)" {
		return ""
	}
	return name
}

// MachineSince is when this machine got its id, which is at its first boot.
func (n Node) MachineSince() time.Time {
	if n.machineID() == "" {
		return time.Time{}
	}
	return n.modified("/etc/machine-id")
}

func (n Node) machineID() string {
	text, f := n.Root.Text("/etc/machine-id")
	if f != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

// Files are what makes this machine the node that it is, or remembers what ran there: kubelet.conf, the kubelet's
// certificates and keys, and the state of its managers. Links (kubelet-client-current.pem) hold nothing themselves.
func (n Node) Files(h Identity) []string {
	out := []string{Conf}
	dirs := []string{kubeletPKI}
	if h.dir != "" && h.dir != kubeletPKI && path.Base(h.dir) == "pki" { // --root-dir= or --cert-dir= of its own
		dirs = append(dirs, h.dir)
	}
	for _, dir := range dirs {
		names, _ := os.ReadDir(n.Root.Path(dir))
		for _, e := range names {
			if e.Type().IsRegular() && isKubeletCertificate(e.Name()) {
				out = append(out, path.Join(dir, e.Name()))
			}
		}
	}
	// pkg/kubelet: cm/{cpumanager,memorymanager,dra,devicemanager}, allocation, kuberuntime, status
	for _, name := range []string{"cpu_manager_state", "memory_manager_state", "dra_manager_state", "allocated_pods_state", "actuated_pods_state",
		"pod_status_manager_state", "device-plugins/kubelet_internal_checkpoint"} {
		if st, err := os.Lstat(n.Root.Path(path.Join(kubeletDir, name))); err == nil && st.Mode().IsRegular() {
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
