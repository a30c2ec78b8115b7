// Package joined reads whether a node has joined its cluster, and under which name: kubelet.conf, the certificate and
// key that it names, and the kubelet's own files. Identity returns what prelet and the kubelet conclude from them.
// The package must not read anything but files of the node, and must not return a private key.
package joined

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/cluster"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

const (
	// Conf is the kubeconfig that a kubelet writes when it begins to join. It names the certificate before that exists.
	Conf = "/etc/kubernetes/kubelet.conf"
	// BootstrapConf is the kubeconfig that a kubelet joins with.
	BootstrapConf = "/etc/kubernetes/bootstrap-kubelet.conf"

	kubeletDir = "/var/lib/kubelet"
	kubeletPKI = kubeletDir + "/pki"
	kubeadmEnv = kubeletDir + "/kubeadm-flags.env"
	nodeUser   = "system:node:"
)

// Reader reads how the node below a root has joined its cluster.
type Reader struct {
	Root     nodefile.Root
	Now      func() time.Time // the time at which certificates must be valid
	Recorded bool             // the hardware is another machine's, so this machine's host name does not count
}

// Identity is the identity of a node according to kubelet.conf.
type Identity struct {
	Exists bool         // the file exists
	Flaw   string       // why a kubelet cannot use it; "" if it can
	Denied *fault.Fault // this user may not read all of it
	Loose  *fault.Fault // other users may change a part of it; it counts nevertheless, as for the kubelet
	Node   string       // NAME of system:node:NAME; "" for a certificate of another kind
	// Expired is the flaw of a certificate that was valid until some time; "" if it has none, or another one.
	Expired string
	CA      string    // the CAs in kubelet.conf, PEM; "" if it names a file
	Text    string    // of kubelet.conf; "" if it contains a credential, which must not leave the node
	dir     string    // folder of the certificate, if that is a file
	since   time.Time // when it was written
}

// Joined reports whether the node has joined, by its files alone, and why.
func (h Identity) Joined() (bool, string) {
	if h.Flaw != "" {
		return false, h.Flaw
	}

	return true, Conf + " is there and not expired"
}

// Before reports whether the identity was written before t. It is false if one of the two times is unknown.
func (h Identity) Before(t time.Time) bool {
	return !h.since.IsZero() && !t.IsZero() && h.since.Before(t)
}

// Identity reads kubelet.conf and the files that it names. The rules are those by which the kubelet decides whether to
// bootstrap again (pkg/kubelet/certificate/bootstrap, isClientConfigStillValid).
func (n Reader) Identity() Identity {
	h := Identity{Exists: true, since: n.modTime(Conf)}
	text, f := h.read(n.Root, Conf)
	if f != nil && f.Code == fault.Absent {
		return Identity{Flaw: "there is no " + Conf}
	}
	if f != nil {
		h.setFault("", f)
		return h
	}

	c, err := cluster.ParseKubeconfig([]byte(text))
	if err != nil {
		h.Flaw = Conf + " " + err.Error()
		return h
	}
	h.readPair(n, c)
	h.CA = string(c.Cluster.CertificateAuthorityData)
	if !c.HoldsCredentials {
		h.Text = text
	}

	return h
}

// readPair reads the certificate and the key of a kubeconfig.
func (h *Identity) readPair(n Reader, c cluster.Kubeconfig) {
	read := func(file string) (string, *fault.Fault) {
		return h.read(n.Root, file)
	}
	certPEM, f := readMaterial(c.User.ClientCertificateData, c.User.ClientCertificate, read)
	if f != nil {
		h.setFault(Conf+" names a certificate that cannot be read: ", f)
		return
	}

	if file := c.User.ClientCertificate; len(c.User.ClientCertificateData) == 0 && file != "" {
		h.dir = path.Dir(ResolvePath(file))
		h.since = n.modTime(ResolvePath(file))
	}
	switch isNamed := len(c.User.ClientCertificateData) == 0 && c.User.ClientCertificate != ""; {
	case len(certPEM) == 0 && isNamed:
		h.Flaw = "the certificate of " + Conf + " is empty"
		return
	case len(certPEM) == 0 && !c.HasIdentity():
		h.Flaw = Conf + " contains no credentials"
		return
	case len(certPEM) == 0:
		return
	}
	if h.Node, h.Flaw = n.Certificate(certPEM); h.Flaw != "" {
		h.Expired = n.describeExpired(certPEM)
		return
	}

	keyPEM, f := readMaterial(c.User.ClientKeyData, c.User.ClientKey, read)
	switch {
	case f != nil:
		h.setFault(Conf+" names a key that cannot be read: ", f)
	case len(keyPEM) == 0:
		h.Flaw = Conf + " has a certificate and no key"
	default:
		if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil { // the error may quote the key
			h.Flaw = "the certificate and the key of " + Conf + " do not belong together"
		}
	}
}

// read reads a file of the identity, and records the first file that other users may change.
func (h *Identity) read(r nodefile.Root, file string) (string, *fault.Fault) {
	text, loose, f := r.InspectText(file)
	if loose != nil && h.Loose == nil {
		h.Loose = nodefile.Untrusted(file, loose)
	}

	return text, f
}

// setFault records why a part of the identity cannot be read.
func (h *Identity) setFault(prefix string, f *fault.Fault) {
	h.Flaw = prefix + f.Why
	if f.Code == fault.Denied {
		h.Denied = f
	}
}

// Material returns the data of a kubeconfig, or the content of the file that it names, relative to kubelet.conf. Data
// has priority, as in client-go's clientcmd. A file that other users may change is not read.
func (n Reader) Material(data []byte, file string) ([]byte, *fault.Fault) {
	return readMaterial(data, file, n.Root.TrustedText)
}

func readMaterial(
	data []byte,
	file string,
	read func(string) (string, *fault.Fault),
) ([]byte, *fault.Fault) {
	if len(data) > 0 || file == "" {
		return data, nil
	}
	text, f := read(ResolvePath(file))

	return []byte(text), f
}

// ResolvePath returns the path of a file that kubelet.conf names.
func ResolvePath(file string) string {
	if path.IsAbs(file) {
		return file
	}

	return path.Join(path.Dir(Conf), file)
}

// modTime returns when a file was written, a zero time if it cannot be found. Links are followed below the root: the
// kubelet's kubelet-client-current.pem is an absolute one.
func (n Reader) modTime(file string) time.Time {
	look, err := n.Root.Look(file, nodefile.FollowAll)
	if err != nil {
		return time.Time{}
	}
	defer look.Close()

	return time.Unix(look.Stat.Mtim.Unix())
}

// Certificate checks a client certificate and its chain, and returns the name of its node. It ignores the beginning of
// their validity, because a clock that is not set yet would make a valid certificate invalid.
func (n Reader) Certificate(certPEM []byte) (node, flaw string) {
	chain, err := cert.ParseCertsPEM(certPEM)
	if err != nil {
		return "", "the certificate of " + Conf + " cannot be parsed"
	}

	node, ok := strings.CutPrefix(chain[0].Subject.CommonName, nodeUser)
	if !ok {
		node = ""
	}

	return node, n.describeExpired(certPEM)
}

// describeExpired returns that a certificate or one of its chain has expired; "" if none has.
func (n Reader) describeExpired(certPEM []byte) string {
	chain, _ := cert.ParseCertsPEM(certPEM) // a chain that cannot be parsed has another flaw
	for _, c := range chain {
		if n.Now().After(c.NotAfter) {
			return fmt.Sprintf("the certificate of %s expired at %s", Conf, c.NotAfter.UTC().Format(time.RFC3339))
		}
	}

	return ""
}

// HostName returns the name that the kubelet gives its node unless prelet sets a flag: that of kubeadm's flags, else
// the host name (k8s.io/component-helpers/node/util, GetHostname). It returns "" if neither is known, and for a name
// that does not identify a machine.
func (n Reader) HostName() string {
	if name := n.readOverride(); name != "" {
		return strings.ToLower(name)
	}

	root := string(n.Root)
	if n.Recorded {
		root = cmp.Or(root, "/")
	}

	return machineid.HostName(root)
}

// readOverride returns --hostname-override of kubeadm's flags, or "".
func (n Reader) readOverride() string {
	env, err := kubelet.ParseEnvFile(n.Root.TextIfReadable(kubeadmEnv))
	if err != nil {
		return ""
	}

	for _, name := range env.Names() {
		flags, ok := env.Get(name)
		if !ok {
			continue
		}
		if v, ok := flags.Lookup("hostname-override"); ok && v != "" {
			return v
		}
	}

	return ""
}

// MachineSince returns when this machine got its id, which is at its first boot; a zero time for one of this boot only.
func (n Reader) MachineSince() time.Time {
	if machineid.IsTransient(string(n.Root)) || strings.TrimSpace(n.Root.TextIfReadable("/etc/machine-id")) == "" {
		return time.Time{}
	}

	return n.modTime("/etc/machine-id")
}

// stateFiles returns the state of the kubelet's managers, below its folder. Source: pkg/kubelet:
// cm/{cpumanager,memorymanager,dra,devicemanager}, allocation, kuberuntime, status.
func stateFiles() []string {
	return []string{
		"cpu_manager_state",
		"memory_manager_state",
		"dra_manager_state",
		"allocated_pods_state",
		"actuated_pods_state",
		"pod_status_manager_state",
		"device-plugins/kubelet_internal_checkpoint",
	}
}

// Damaged is a certificate with which no kubelet starts, not even with a bootstrap kubeconfig: it loads its
// certificates before it requests a new one.
type Damaged struct {
	Path  string   // that the kubelet loads
	Why   string   // why it cannot
	Files []string // of the kubelet's folder without which it gets a new one; nil if a run cannot set all of it aside

	remove   []string
	isFolder bool // one of them is
}

// Command returns the command that removes it.
func (d Damaged) Command() string {
	words := []string{"rm"}
	if d.isFolder {
		words = append(words, "-r")
	}
	for _, file := range d.remove {
		words = append(words, nodefile.QuoteWord(file))
	}

	return strings.Join(words, " ")
}

// Names of the kubelet's certificates, which those of their files begin with.
const (
	Client  = "kubelet-client"
	Serving = "kubelet-server" // with serverTLSBootstrap
	OwnPair = "kubelet"        // signed by itself, without a tlsCertFile
)

// FindDamaged returns a certificate in the kubelet's folder if it is damaged, as after a power cut; nil if there is
// none, or it can be loaded, or it cannot be read. An expired one can be loaded. Source:
// k8s.io/client-go/util/certificate (fileStore.Current); cmd/kubelet/app/server.go (InitializeTLS).
func (n Reader) FindDamaged(h Identity, name string) *Damaged {
	for _, dir := range listFolders(h) {
		if d := n.inspectPair(path.Join(dir, name), name == OwnPair); d != nil {
			return d
		}
	}

	return nil
}

// inspectPair returns the certificate with a name if it is damaged. A link whose file is missing is for the kubelet as
// no certificate, and so is half a pair of files, unless it needs both.
func (n Reader) inspectPair(name string, needsBoth bool) *Damaged {
	if pair := n.readPart(name + "-current.pem"); pair.exists {
		return n.describeDamage(pair, pair)
	}

	cert, key := n.readPart(name+".crt"), n.readPart(name+".key")
	isHalf := cert.exists != key.exists
	if !cert.exists && !key.exists || isHalf && !needsBoth {
		return nil
	}

	return n.describeDamage(cert, key)
}

// part is a certificate, a key, or a file with both.
type part struct {
	nodefile.FoundText
	name   string
	exists bool
	fault  *fault.Fault // it could not be read
}

func (n Reader) readPart(name string) part {
	text, f := n.Root.FindText(name)
	if f != nil && f.Code == fault.Absent {
		return part{name: name}
	}

	return part{text, name, true, f}
}

// describeDamage returns the damage of a certificate with its key.
func (n Reader) describeDamage(cert, key part) *Damaged {
	d := Damaged{Path: cert.name}
	f := cmp.Or(cert.fault, key.fault)
	switch _, err := tls.X509KeyPair([]byte(cert.Text), []byte(key.Text)); { // the error may quote the key
	case f != nil && f.Code != fault.FileUnusable && !nodefile.IsFailed(f):
		return nil
	case f != nil:
		d.Why = f.Why
	case err == nil:
		return nil
	case cert.Text == "" && cert.exists:
		d.Why = cert.name + " is empty"
	default:
		d.Why = cert.name + " has no certificate with its key"
	}

	isWhole := true
	for _, p := range slices.Compact([]part{cert, key}) {
		if !p.exists {
			continue
		}
		file := n.findRemovable(p)
		isWhole = isWhole && file != ""
		d.Files = append(d.Files, file)
		d.remove = append(d.remove, p.name)
		if file != "" && file != p.name {
			d.remove = append(d.remove, file)
		}
		d.isFolder = d.isFolder || n.readMode(p.name).IsDir()
	}
	if !isWhole {
		d.Files = nil
	}

	return &d
}

// findRemovable returns the file or empty folder without which a part is gone; "" if a generation does not keep it, as
// a link out of the folder, or a folder with its content.
func (n Reader) findRemovable(p part) string {
	names, err := n.Root.Names(p.name, 1)
	isOwn := path.Dir(p.Path) == path.Dir(p.name) && isKubeletCertificate(path.Base(p.Path))
	switch {
	case n.readMode(p.name).IsDir() && err == nil && len(names) == 0:
		return p.name
	case isOwn && n.readMode(p.Path).IsRegular():
		return p.Path
	}

	return ""
}

// listFolders returns the folders of the kubelet's certificates.
func listFolders(h Identity) []string {
	dirs := []string{kubeletPKI}
	hasOtherDir := h.dir != "" && h.dir != kubeletPKI
	if hasOtherDir && path.Base(h.dir) == "pki" { // by --root-dir= or --cert-dir=
		dirs = append(dirs, h.dir)
	}

	return dirs
}

// Files returns the files that belong to the identity of this node or to its earlier pods: kubelet.conf, the kubelet's
// certificates and keys, and the state of its managers. It leaves out links (kubelet-client-current.pem).
func (n Reader) Files(h Identity) []string {
	files := []string{Conf}
	for _, dir := range listFolders(h) {
		names, _ := n.Root.Names(dir, maxNames) // none if it cannot be read
		for _, name := range names {
			file := path.Join(dir, name)
			if isKubeletCertificate(name) && n.readMode(file).IsRegular() {
				files = append(files, file)
			}
		}
	}
	for _, name := range stateFiles() {
		file := path.Join(kubeletDir, name)
		if n.readMode(file).IsRegular() {
			files = append(files, file)
		}
	}
	slices.Sort(files)

	return files
}

// maxNames is how many names of a folder are read.
const maxNames = 10_000

// readMode returns the mode of a path, or one of no kind. A link above it stays below the root.
func (n Reader) readMode(file string) fs.FileMode {
	look, err := n.Root.Look(file, nodefile.FollowAbove)
	if err != nil {
		return fs.ModeIrregular
	}
	defer look.Close()

	return look.Mode()
}

// isKubeletCertificate reports whether a name is that of a client or server certificate, rotated
// (kubelet-client-TIME.pem) or not.
func isKubeletCertificate(name string) bool {
	if name == "kubelet.crt" || name == "kubelet.key" {
		return true
	}

	isPair := strings.HasPrefix(name, "kubelet-client") || strings.HasPrefix(name, "kubelet-server")

	return isPair && slices.Contains([]string{".pem", ".crt", ".key"}, path.Ext(name))
}
