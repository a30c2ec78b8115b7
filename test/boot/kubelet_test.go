package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/test/nspawn"
)

// What ../kube/build.sh has made: Kubernetes, and the fake of a container runtime.
const kubeVariable = "PRELET_KUBE_CACHE"

// control is a real control plane, started by ../kube/cmd/cluster, which prints its first fields.
type control struct {
	URL, Token, Folder, Version string
	Pin                         string `json:"ca_hash"`

	cache, port string
}

// newControl starts one for this test.
func newControl(t *testing.T) *control {
	t.Helper()
	nspawn.Watch(t)
	c := &control{cache: os.Getenv(kubeVariable)}
	if c.cache == "" {
		t.Skip("this runs Kubernetes: make e2e-kube builds it, then make e2e-boot finds it")
	}
	cmd := exec.Command("go", "run", "-trimpath", "./cmd/cluster", "-json", "-cache", c.cache, "-bind", "0.0.0.0")
	cmd.Dir, cmd.Env, cmd.Stderr = "../kube", append(os.Environ(), "CGO_ENABLED=0"), os.Stderr // as its build.sh compiles
	untilClosed, err := cmd.StdinPipe()
	said, err2 := cmd.StdoutPipe()
	must(t, errors.Join(err, err2, cmd.Start()))
	t.Cleanup(func() { _ = untilClosed.Close(); _ = cmd.Wait() })
	if err := json.NewDecoder(said).Decode(c); err != nil {
		t.Fatalf("the control plane: got %v and %+v, want what it prints", err, c)
	}
	c.port = c.URL[strings.LastIndex(c.URL, ":")+1:]

	return c
}

// program is one of Kubernetes.
func (c *control) program(name string) string { return filepath.Join(c.cache, c.Version, name) }

func (c *control) kubectl(args ...string) ([]byte, error) {
	args = append([]string{"--kubeconfig", c.Folder + "/super-admin.conf"}, args...)
	return exec.Command(c.program("kubectl"), args...).CombinedOutput()
}

// node is what the real API server has of the machine.
type realNode struct {
	Metadata struct {
		Labels map[string]string
		UID    string
	}
	Spec struct {
		Taints []struct{ Key, Value, Effect string }
	}
	Status struct {
		Conditions []struct{ Type, Status string }
	}
}

func (c *control) node(t *testing.T, name string) (n realNode, err error) {
	t.Helper()
	out, err := c.kubectl("get", "node", name, "-o", "json")
	if err != nil {
		return n, fmt.Errorf("%s", out)
	}
	return n, json.Unmarshal(out, &n)
}

const realSite = `
cluster {
  servers        = ["SERVER"]
  ca_cert_hashes = ["PIN"]
  token          = credential("bootstrap-token")
  retry          = "1s"
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "label" "node" { labels = { "example.com/pool" = "a" } }
stage "taint" "node" { taints = ["example.com/fresh=yes:NoSchedule"] }
stage "write" "kubelet" {
  # kubeadm, which made the cluster in a folder of the test, names its CA there; and a container has no controllers of control groups.
  kubelet_config {
    patch = {
      authentication         = { x509 = { clientCAFile = "/etc/kubernetes/pki/ca.crt" } }
      cgroupDriver           = "systemd"
      cgroupsPerQOS          = false
      enforceNodeAllocatable = []
    }
  }
}
` + realRestart

// realRestart judges a real kubelet in good time.
const realRestart = `stage "restart" "kubelet" {
  verify {
    settle  = "2s"
    timeout = "60s"
  }
}
`

// runtimeUnit is the fake runtime, and what a kubelet needs of a machine that a container does not have.
const runtimeUnit = `[Unit]
Before=kubelet.service prelet.service
[Service]
Type=exec
ExecStartPre=/bin/sh -c 'mkdir -p /run/containerd /var/lib/containerd /run/kernel; [ -e /dev/kmsg ] || ln -s /dev/null /dev/kmsg; \
for v in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do \
f=/run/kernel/$$(echo $${v%%=*} | tr / .); echo $${v#*=} >$$f; mount --bind $$f /proc/sys/$${v%%=*}; done'
ExecStart=/opt/fakecri /run/containerd/containerd.sock systemd /var/lib/containerd
[Install]
WantedBy=multi-user.target
`

// The two ends of the connection between the cluster and the machine. The first is the API server address that kubeadm
// was given.
const outside, inside = "198.51.100.1", "198.51.100.2"

// TestRealKubelet boots a real systemd with a real kubelet against a real cluster: first boot, an unchanged boot, a
// boot after the token has expired, and a change that the kubelet refuses, which is rolled back without an operator.
func TestRealKubelet(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	m := newMachine(t)
	m.wire(outside, inside)
	m.site = strings.NewReplacer("SERVER", "https://"+outside+":"+c.port, "PIN", c.Pin).Replace(realSite)
	m.put("/etc/prelet/site.hcl", m.site)
	m.put("/etc/credstore/bootstrap-token", c.Token+"\n")
	m.put("/etc/systemd/system/fakecri.service", runtimeUnit)
	m.put("/opt/fakecri", "")
	m.chroot("systemctl", "enable", "fakecri.service")
	real := []string{
		"--bind-ro=" + c.program("kubelet") + ":/usr/bin/kubelet",
		"--bind-ro=" + filepath.Join(c.cache, "helpers/fakecri") + ":/opt/fakecri",
	}

	m.Boot(real...)
	m.verdict("good")
	m.well(1)
	n, err := c.node(t, nodeName)
	must(t, err)
	tainted := false
	for _, taint := range n.Spec.Taints {
		tainted = tainted || taint.Key == "example.com/fresh" && taint.Value == "yes" && taint.Effect == "NoSchedule"
	}
	if n.Metadata.Labels["example.com/pool"] != "a" || !tainted {
		t.Errorf("the Node: got %+v; want Metadata.Labels[example.com/pool] \"a\" and tainted", n)
	}
	if restarts := m.property("kubelet", "NRestarts"); restarts != "0" {
		t.Errorf("the kubelet was restarted %s times; want \"0\"", restarts)
	}
	if m.Exists("/etc/kubernetes/bootstrap-kubelet.conf") {
		t.Error("bootstrap-kubelet.conf is still there")
	}
	if out := m.Try("prelet", "verify", "-o", "json").Out; !strings.Contains(out, `{"name":"config","state":"ok"}`) {
		t.Errorf("the configuration in the journal: got %s; want text with `{\"name\":\"config\",\"state\":\"ok\"}`", out)
	}

	// Unchanged, and the token is gone.
	m.Off()
	id, _, _ := strings.Cut(c.Token, ".")
	if out, err := c.kubectl("-n", "kube-system", "delete", "secret", "bootstrap-token-"+id); err != nil {
		t.Fatalf("got %v: %s; want no error", err, out)
	}
	before := m.read("/var/lib/kubelet/config.yaml")
	m.Boot(real...)
	m.well(1)
	if m.read("/var/lib/kubelet/config.yaml") != before {
		t.Error("an unchanged boot wrote config.yaml")
	}
	t.Logf(
		"systemd-analyze:\n%s",
		m.Try(
			"sh",
			"-c",
			"systemd-analyze; systemd-analyze blame --no-pager | head -8; systemd-analyze critical-chain "+
				"--no-pager kubelet.service",
		).Out,
	)

	// A change after which this kubelet exits, which could not be known before: its CA is damaged between prelet's
	// check of it and its start.
	m.Off()
	const other = "/etc/kubernetes/other-ca.crt"
	m.put(other, m.read("/etc/kubernetes/pki/ca.crt"))
	m.put(
		"/etc/systemd/system/kubelet.service.d/60-damage.conf",
		"[Service]\nExecStartPre=/bin/cp /etc/hostname "+other+"\n",
	)
	m.edit("/etc/kubernetes/pki/ca.crt", other)
	m.Boot(real...)
	m.Within(120*time.Second, "prelet-verify goes back", func() string {
		if s := m.status(); s.State != "failed" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	m.running("prelet-verify.service")
	if s := m.status(); s.Held == nil || s.Generation != 3 || s.Exit != 50 {
		t.Errorf("status: got %+v; want Held other than nil, Generation 3 and Exit 50", s)
	} else if !strings.Contains(s.Summary, other) {
		t.Errorf("the kubelet said why it ended, and the summary does not: got %s; want text with %q", s.Summary, other)
	}
	if m.read("/var/lib/kubelet/config.yaml") != before {
		t.Error("the configuration before it is not back")
	}
	if again, err := c.node(t, nodeName); err != nil || again.Metadata.UID != n.Metadata.UID {
		t.Errorf("the Node is another: got %v; want no error and Metadata.UID %v", err, n.Metadata.UID)
	}
}
