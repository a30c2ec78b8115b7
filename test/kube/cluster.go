package kube

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Programs are where the programs are.
type Programs struct {
	Cache      string // the folder that build.sh fills; runs have their folders in it, too
	Kubernetes string // kube-apiserver, kubelet, kubeadm, … of one version
	Helpers    string // fakecri
	Prelet     string // the program under test
}

// Find looks for what build.sh made in the cache folder. version is as in "v1.37.1".
func Find(cache, version, prelet string) (Programs, error) {
	p := Programs{
		Cache:      cache,
		Kubernetes: filepath.Join(cache, version),
		Helpers:    filepath.Join(cache, "helpers"),
		Prelet:     prelet,
	}
	for _, f := range []string{filepath.Join(p.Kubernetes, "kube-apiserver"), filepath.Join(p.Helpers, "fakecri"), prelet} {
		if _, err := os.Stat(f); err != nil {
			return p, fmt.Errorf("%w; `make e2e-kube` builds it", err)
		}
	}
	return p, nil
}

func (p Programs) of(name string) string { return filepath.Join(p.Kubernetes, name) }

// ClusterOptions configure a cluster. The zero value is a cluster as `kubeadm init` leaves it, but for the cgroup
// driver: a node of these tests has no systemd that would make groups for its kubelet.
type ClusterOptions struct {
	// YAML of a KubeletConfiguration without kind, which kubeadm uploads; "" for the default here.
	KubeletConfig string
	APIServer     []string // further flags
	Controllers   string   // of the controller-manager; "" are those that a join needs
	Token         string   // "": a random one
	TTL           string   // of that token; "" is 24h0m0s
	Audit         bool     // log each request (Requests)
	Server        string   // another kube-apiserver than that of the installed version
	NoControllers bool     // no controller-manager: nothing is signed and approved
}

const (
	// clientCAFile: kubeadm would name the folder that it made the certificates in.
	defaultKubelet = "cgroupDriver: cgroupfs\nfailCgroupV1: false\nfailSwapOn: false\nauthentication: " +
		"{x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}\n"
	defaultControllers = "csrsigning,csrapproving,csrcleaner,bootstrapsigner,tokencleaner"
	// dummyAddress is the API server's address for kubeadm, which refuses a loopback address.
	dummyAddress = "198.51.100.1"
)

// Cluster is a control plane.
type Cluster struct {
	Programs
	Dir    string // its own folder
	Port   int    // of the API server, on 127.0.0.1
	Token  string // a bootstrap token, for signing and for authentication
	Client *kubernetes.Clientset
	Config *rest.Config // cluster-admin

	options ClusterOptions
	values  *strings.Replacer // of the names in its texts
	etcd    *process
	manager *process
	mu      sync.Mutex
	api     *process
}

// Start brings a control plane up and waits until a node can join it.
func (p Programs) Start(ctx context.Context, o ClusterOptions) (c *Cluster, err error) {
	o.KubeletConfig = cmp.Or(o.KubeletConfig, defaultKubelet)
	o.Controllers = cmp.Or(o.Controllers, defaultControllers)
	o.Token = cmp.Or(o.Token, "abcdef.0123456789abcdef")
	o.TTL = cmp.Or(o.TTL, "24h0m0s")
	dir, err := p.runDir("cluster")
	if err != nil {
		return nil, err
	}
	ports, err := p.freePorts(dir, 4)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c = &Cluster{
		Programs: p,
		Dir:      dir,
		Port:     ports[0],
		Token:    o.Token,
		options:  o,
		values: strings.NewReplacer(
			"$dir", dir,
			"$port", strconv.Itoa(ports[0]),
			"$etcd", strconv.Itoa(ports[1]),
			"$peers", strconv.Itoa(ports[2]),
			"$controllers", strconv.Itoa(ports[3]),
			"$token", o.Token,
			"$ttl", o.TTL,
		),
	}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	if c.etcd, err = c.begin(c.of("etcd"), etcdFlags); err != nil {
		return c, err
	}
	if err := c.credentials(ctx); err != nil {
		return c, err
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Path("super-admin.conf")); err != nil {
		return c, err
	}
	c.Config.QPS, c.Config.Burst = 500, 500
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return c, err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return c, err
	}
	if !o.NoControllers {
		c.manager, err = c.begin(
			c.of("kube-controller-manager"),
			controllerFlags,
			"--controllers="+o.Controllers,
		)
		if err != nil {
			return c, err
		}
	}
	// With super-admin.conf: the rights of admin.conf are made by a later phase, and without them kubeadm tries for a
	// minute.
	phases := [][]string{
		{"bootstrap-token", "--skip-token-print"},
		{"upload-config", "kubelet"},
		{"upload-config", "kubeadm"},
	}
	for _, phase := range phases {
		args := append([]string{"init", "phase"}, phase...)
		args = append(args, "--config", c.Path("kubeadm.yaml"), "--kubeconfig", c.Path("super-admin.conf"))

		if _, err := c.Kubeadm(ctx, args...); err != nil {
			return c, err
		}
	}
	if o.NoControllers {
		return c, nil
	}
	return c, c.Signed(ctx, c.Token)
}

// Path is of a file of the cluster: "pki/ca.crt", "super-admin.conf", "admin.conf", NAME.log.
func (c *Cluster) Path(name string) string { return filepath.Join(c.Dir, name) }

// The flags of the programs, one a line, for expand.
const (
	etcdFlags = `--name=t
--data-dir=$dir/etcd
--unsafe-no-fsync
--log-level=warn
--listen-client-urls=http://127.0.0.1:$etcd
--advertise-client-urls=http://127.0.0.1:$etcd
--listen-peer-urls=http://127.0.0.1:$peers
--initial-advertise-peer-urls=http://127.0.0.1:$peers
--initial-cluster=t=http://127.0.0.1:$peers`

	apiServerFlags = `--etcd-servers=http://127.0.0.1:$etcd
--bind-address=127.0.0.1
--secure-port=$port
--advertise-address=198.51.100.1
--endpoint-reconciler-type=none
--service-cluster-ip-range=10.96.0.0/16
--allow-privileged
--client-ca-file=$dir/pki/ca.crt
--tls-cert-file=$dir/pki/apiserver.crt
--tls-private-key-file=$dir/pki/apiserver.key
--kubelet-client-certificate=$dir/pki/apiserver-kubelet-client.crt
--kubelet-client-key=$dir/pki/apiserver-kubelet-client.key
--service-account-issuer=https://kubernetes.default.svc.cluster.local
--service-account-key-file=$dir/pki/sa.pub
--service-account-signing-key-file=$dir/pki/sa.key
--requestheader-client-ca-file=$dir/pki/front-proxy-ca.crt
--requestheader-allowed-names=front-proxy-client
--requestheader-extra-headers-prefix=X-Remote-Extra-
--requestheader-group-headers=X-Remote-Group
--requestheader-username-headers=X-Remote-User
--proxy-client-cert-file=$dir/pki/front-proxy-client.crt
--proxy-client-key-file=$dir/pki/front-proxy-client.key
--enable-bootstrap-token-auth
--authorization-mode=Node,RBAC
--enable-admission-plugins=NodeRestriction`

	controllerFlags = `--kubeconfig=$dir/controller-manager.conf
--bind-address=127.0.0.1
--secure-port=$controllers
--leader-elect=false
--use-service-account-credentials
--root-ca-file=$dir/pki/ca.crt
--service-account-private-key-file=$dir/pki/sa.key
--cluster-signing-cert-file=$dir/pki/ca.crt
--cluster-signing-key-file=$dir/pki/ca.key
--client-ca-file=$dir/pki/ca.crt`
)

// certifiedNames are further names of the server's certificate: those in the examples, and the address of this machine
// in a guest of QEMU.
const certifiedNames = "127.0.0.1, localhost, 10.0.2.2, 10.0.0.11, 10.0.0.12, 10.178.4.10, k8s.site3.example"

// kubeadmConfig is for values, and the kubelet's configuration follows.
const kubeadmConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens:
- token: $token
  ttl: $ttl
  usages: [signing, authentication]
  groups: [system:bootstrappers:kubeadm:default-node-token]
localAPIEndpoint: {advertiseAddress: 198.51.100.1, bindPort: $port}
nodeRegistration: {name: control-plane, criSocket: unix:///nonexistent.sock}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: $version
certificatesDir: $dir/pki
controlPlaneEndpoint: 127.0.0.1:$port
networking: {serviceSubnet: 10.96.0.0/16, podSubnet: 10.244.0.0/16, dnsDomain: cluster.local}
apiServer: {certSANs: [` + certifiedNames + `]}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
`

// credentials are made by kubeadm, as for any cluster.
func (c *Cluster) credentials(ctx context.Context) error {
	version, err := c.run(ctx, c.of("kubeadm"), "version", "-o", "short")
	if err != nil {
		return err
	}
	config := c.values.Replace(kubeadmConfig) + c.options.KubeletConfig
	config = strings.Replace(config, "$version", strings.TrimSpace(version), 1)
	if err := os.WriteFile(c.Path("kubeadm.yaml"), []byte(config), 0o600); err != nil {
		return err
	}
	phase := func(args ...string) func() error {
		return func() error {
			_, err := c.Kubeadm(ctx, append([]string{"init", "phase"}, args...)...)
			return err
		}
	}
	var first, second errgroup.Group
	for _, ca := range []string{"ca", "front-proxy-ca"} {
		first.Go(phase("certs", ca, "--config", c.Path("kubeadm.yaml")))
	}
	first.Go(phase("certs", "sa", "--cert-dir", c.Path("pki")))
	if err := first.Wait(); err != nil {
		return err
	}
	for _, cert := range []string{"apiserver", "apiserver-kubelet-client", "front-proxy-client"} {
		second.Go(phase("certs", cert, "--config", c.Path("kubeadm.yaml")))
	}
	for _, who := range []string{"admin", "super-admin", "controller-manager"} {
		second.Go(
			phase("kubeconfig", who, "--config", c.Path("kubeadm.yaml"), "--kubeconfig-dir", c.Dir),
		)
	}
	if err := second.Wait(); err != nil {
		return err
	}
	// The last one names the advertised address.
	for _, who := range []string{"admin.conf", "super-admin.conf", "controller-manager.conf"} {
		text, err := os.ReadFile(c.Path(who))
		if err != nil {
			return err
		}
		err = os.WriteFile(
			c.Path(who),
			[]byte(
				strings.ReplaceAll(string(text), "https://"+dummyAddress+":", "https://127.0.0.1:"),
			),
			0o600,
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// StartAPIServer starts the API server, also again after StopAPIServer, with further flags, and waits until it is
// ready.
func (c *Cluster) StartAPIServer(ctx context.Context, flags ...string) error {
	args := slices.Concat(c.options.APIServer, flags)
	if c.options.Audit {
		if err := os.WriteFile(c.Path("audit.yaml"), []byte(auditPolicy), 0o600); err != nil {
			return err
		}
		args = append(args, "--audit-policy-file", c.Path("audit.yaml"), "--audit-log-path", c.Path("audit.log"))
	}
	p, err := c.begin(cmp.Or(c.options.Server, c.of("kube-apiserver")), apiServerFlags, args...)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.api = p
	c.mu.Unlock()
	return waitFor(ctx, 90*time.Second, "the API server is ready", func() string {
		if p.ended() {
			return "it ended: " + p.tail()
		}
		text, err := c.Client.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if err != nil {
			return err.Error()
		}
		if string(text) != "ok" {
			return string(text)
		}
		return ""
	})
}

// StopAPIServer kills the API server; etcd keeps its data.
func (c *Cluster) StopAPIServer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.api.stop(syscall.SIGKILL, time.Second)
}

// begin starts a program with flags, one a line, in which the values of the cluster are, and further ones.
func (c *Cluster) begin(program, flags string, more ...string) (*process, error) {
	args := strings.Split(c.values.Replace(flags), "\n")

	return begin(c.Dir, 0, nil, program, append(args, more...)...)
}

// Stop kills the control plane and removes its folder.
func (c *Cluster) Stop() {
	c.mu.Lock()
	api := c.api
	c.mu.Unlock()
	var all sync.WaitGroup
	for _, p := range []*process{c.manager, api, c.etcd} {
		all.Go(func() {
			p.stop(syscall.SIGKILL, time.Second)
		})
	}
	all.Wait()
	_ = os.RemoveAll(c.Dir)
}

func (c *Cluster) run(ctx context.Context, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := command(ctx, append(os.Environ(), "HOME="+c.Dir), words...)
	if err != nil {
		return "", err
	}
	if r.Exit != 0 {
		return "", fmt.Errorf("%s: %s", strings.Join(words, " "), r)
	}
	return r.Out, nil
}

// Kubeadm runs the cluster's kubeadm and returns its output.
func (c *Cluster) Kubeadm(ctx context.Context, args ...string) (string, error) {
	return c.run(ctx, append([]string{c.of("kubeadm")}, args...)...)
}

// Signed waits until cluster-info has the signature of a token.
func (c *Cluster) Signed(ctx context.Context, token string) error {
	id, _, _ := strings.Cut(token, ".")
	return waitFor(ctx, 2*time.Minute, "cluster-info is signed for token "+id, func() string {
		info, err := c.ConfigMap(ctx, "kube-public", "cluster-info")
		if err != nil {
			return err.Error()
		}
		if info["jws-kubeconfig-"+id] == "" {
			return "no signature"
		}
		return ""
	})
}

// CA is the cluster's, in PEM.
func (c *Cluster) CA() (string, error) {
	b, err := os.ReadFile(c.Path("pki/ca.crt"))
	return string(b), err
}

// Pin is the cluster's CA as ca_cert_hashes has it.
func (c *Cluster) Pin() (string, error) {
	ca, err := c.CA()
	if err != nil {
		return "", err
	}
	return PinOf(ca)
}

// PinOf is the pin of the first certificate of a PEM text.
func PinOf(ca string) (string, error) {
	block, _ := pem.Decode([]byte(ca))
	if block == nil {
		return "", errors.New("no PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// runDir makes a folder for one run below the cache; its name says which process it belongs to (Sweep).
func (p Programs) runDir(kind string) (string, error) {
	runs := filepath.Join(p.Cache, "run")
	if err := os.MkdirAll(runs, 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(runs, fmt.Sprintf("%s-%d-", kind, os.Getpid()))
}

// freePorts reserves free ports for a cluster, as long as its folder exists, also against other runs with the same
// cache. They are below net.ipv4.ip_local_port_range, because the kernel could use others for connections before the
// program listens.
func (p Programs) freePorts(dir string, n int) (ports []int, err error) {
	runs := filepath.Dir(dir)
	lock, err := os.OpenFile(filepath.Join(runs, "ports.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, err
	}
	given := map[int]bool{}
	files, err := filepath.Glob(filepath.Join(runs, "cluster-*", "ports"))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, _ := os.ReadFile(f) // one whose cluster has just ended is gone
		for word := range strings.FieldsSeq(string(text)) {
			port, err := strconv.Atoi(word)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f, err)
			}
			given[port] = true
		}
	}
	const lowest, end = 20000, 32768
	mine := ""
	for port := lowest; port < end && len(ports) < n; port++ {
		if given[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue // somebody else has it
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		ports = append(ports, port)
		mine += fmt.Sprintln(port)
	}
	if len(ports) < n {
		return nil, fmt.Errorf(
			"of the ports from %d to %d fewer than %d are free",
			lowest,
			end-1,
			n,
		)
	}
	return ports, os.WriteFile(filepath.Join(dir, "ports"), []byte(mine), 0o600)
}
