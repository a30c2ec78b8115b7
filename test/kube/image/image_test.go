package image

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prelet/prelet/test/kube"
)

const (
	cacheVariable = "PRELET_KUBE_CACHE" // the folder that ../build.sh has filled
	imageVariable = "PRELET_IMAGE"      // the disk that build.sh has made
)

// The kubelet's configuration of the cluster. The guest has a systemd, and prelet writes the CA to kubeadm's place.
const kubeletConfig = `cgroupDriver: systemd
authentication: {x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
`

// needImage skips a test where there is no image.
func needImage(t *testing.T) {
	t.Helper()
	if os.Getenv(cacheVariable) == "" || os.Getenv(imageVariable) == "" {
		t.Skip("this boots a golden image: make e2e-image")
	}
}

// newCluster starts a control plane for a test.
func newCluster(t *testing.T) *kube.Cluster {
	t.Helper()
	needImage(t)
	cache := os.Getenv(cacheVariable)
	version, err := kube.Version("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	binary, err := filepath.Abs("../../../bin/prelet")
	if err != nil {
		t.Fatal(err)
	}
	programs, err := kube.Find(cache, version, binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := programs.Sweep(); err != nil {
		t.Fatal(err)
	}
	c, err := programs.Start(t.Context(), kube.ClusterOptions{KubeletConfig: kubeletConfig})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)

	return c
}

// credentials returns QEMU's flags for the credentials that each machine of this cluster needs, in SMBIOS strings.
func credentials(t *testing.T, c *kube.Cluster) []string {
	t.Helper()
	pin, err := c.Pin()
	if err != nil {
		t.Fatal(err)
	}

	return []string{
		"-smbios", fmt.Sprintf("type=11,value=io.systemd.credential:prelet.var.api_server=https://10.0.2.2:%d", c.Port),
		"-smbios", "type=11,value=io.systemd.credential:prelet.var.ca_cert_hash=" + pin,
	}
}

// smbiosToken returns QEMU's flags for the bootstrap token in an SMBIOS string. It is in a file, because each user of
// this machine can read the arguments of QEMU.
func (m *machine) smbiosToken(token string) []string {
	m.t.Helper()

	return []string{"-smbios", "type=11,path=" + m.secret("smbios-token", "io.systemd.credential:bootstrap-token="+token)}
}

// fwCfgToken returns QEMU's flags for the bootstrap token in a file of fw_cfg.
func (m *machine) fwCfgToken(token string) []string {
	m.t.Helper()

	return []string{"-fw_cfg", "name=opt/io.systemd.credentials/bootstrap-token,file=" + m.secret("token", token+"\n")}
}

// secret writes a file that only root can read, and returns its path.
func (m *machine) secret(name, text string) string {
	m.t.Helper()
	if err := os.WriteFile(m.path(name), []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}

	return m.path(name)
}

// node waits until the API server has a Ready Node.
func node(t *testing.T, c *kube.Cluster, m *machine, name string) *corev1.Node {
	t.Helper()
	var n *corev1.Node
	m.within(patience, "node "+name+" is Ready", func() string {
		var err error
		if n, err = c.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return fmt.Sprintf("%+v", n.Status.Conditions)
	})

	return n
}

// files lists prelet's files and the kubelet's, with sizes, inodes and times.
func (m *machine) files() []string {
	m.t.Helper()

	return strings.Split(m.run("find", "/etc/kubernetes", "/etc/default", "/etc/systemd/system", "/var/lib/prelet",
		"/var/lib/kubelet/config.yaml", "/var/lib/kubelet/pki", "-type", "f", "!", "-name", "lock",
		"-printf", `%p %s %i %T@\n`), "\n")
}

// TestImage boots the image while no API server answers, which then comes back, reboots it, and cuts its power.
func TestImage(t *testing.T) {
	c := newCluster(t)
	m := newMachine(t, "RACK7-NODE3")
	const name = "rack7-node3"
	args := slices.Concat(credentials(t, c), m.smbiosToken(c.Token),
		[]string{"-smbios", "type=11,value=io.systemd.credential:prelet.var.zone=az1-r07"})

	c.StopAPIServer()
	m.start(args...)
	m.within(patience, "prelet reports that the cluster is unreachable", func() string {
		if s := m.status(); s.Code != "cluster-unreachable" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	if s := m.status(); s.Gate.Open || s.Generation != 0 {
		t.Errorf("without an API server: got %+v; want a shut gate and no generation", s)
	}
	if got := m.property("kubelet", "MainPID"); got != "0" {
		t.Errorf("without an API server: got a kubelet with pid %s; want none", got)
	}
	t.Logf("without an API server:\n%s", m.try("sh", "-c", "prelet status; systemctl --no-pager status prelet kubelet"))

	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := node(t, c, m, name)
	first := m.healthy()
	t.Logf("joined:\n%s", m.try("prelet", "status"))
	for key, want := range map[string]string{
		"topology.kubernetes.io/zone": "az1-r07",
		"node.example.com/product":    "golden-machine",
	} {
		if got := n.Labels[key]; got != want {
			t.Errorf("label %s of the Node: got %q; want %q", key, got, want)
		}
	}
	if first.Generation != 1 || first.Verdict != "good" {
		t.Errorf("after the first boot: got %+v; want generation 1, which is good", first)
	}
	t.Logf("kubelet %s, %s, %s, %s", n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.OSImage,
		n.Status.NodeInfo.KernelVersion, n.Status.NodeInfo.ContainerRuntimeVersion)
	before := m.files()
	m.keep("first-boot")

	same := func(boot string) {
		t.Helper()
		s := m.healthy()
		node(t, c, m, name)
		if s.Generation != 1 {
			t.Errorf("after %s: got generation %d; want 1", boot, s.Generation)
		}
		if got := m.property("kubelet", "NRestarts"); got != "0" {
			t.Errorf("after %s: the kubelet was restarted %s times; want 0", boot, got)
		}
		for _, file := range before {
			if now := m.files(); !slices.Contains(now, file) {
				t.Errorf("after %s: got files\n%s\nwant also %s", boot, strings.Join(now, "\n"), file)
			}
		}
		again, err := c.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || again.UID != n.UID {
			t.Errorf("after %s: got Node %v, %v; want UID %s", boot, again.UID, err, n.UID)
		}
	}

	m.reboot()
	same("a reboot")
	t.Logf("after a reboot:\n%s", m.try("sh", "-c", `systemd-analyze
		systemd-analyze critical-chain --no-pager kubelet.service
		journalctl -b -u prelet -o short-monotonic --no-pager; prelet status --long`))
	m.keep("second-boot")

	m.cut()
	m.start(args...)
	m.cut() // again, while services start
	m.start(args...)
	same("two power cuts")
	if got := m.run("journalctl", "-b", "-k", "--no-pager"); !strings.Contains(got, "recovery complete") {
		t.Errorf("messages of the kernel: got\n%s\nwant \"recovery complete\", because the file system was in use", got)
	}
}

// TestChain prints what the kubelet waits for at a boot that changes nothing, and at one without prelet. The order of
// units is the same otherwise.
func TestChain(t *testing.T) {
	c := newCluster(t)
	m := newMachine(t, "CHAIN-1")
	m.start(slices.Concat(credentials(t, c), m.smbiosToken(c.Token))...)
	node(t, c, m, "chain-1")
	m.healthy()

	chain := func() string {
		t.Helper()
		m.reboot()
		m.within(patience, "the kubelet runs, and the boot has ended", func() string {
			if got := m.property("kubelet", "MainPID"); got == "0" {
				return "MainPID=0"
			}
			if got := m.try("systemctl", "is-system-running").out; got != "running\n" && got != "degraded\n" {
				return got
			}
			return ""
		})

		return m.run("sh", "-c", "systemd-analyze; systemd-analyze critical-chain --no-pager kubelet.service")
	}
	with := chain()
	m.run("dpkg", "--remove", "prelet")
	without := chain()
	t.Logf("with prelet:\n%s\nwithout:\n%s", with, without)
	if !strings.Contains(with, "prelet.service") || strings.Contains(without, "prelet.service") {
		t.Errorf("prelet.service in the chain: got the above; want it with prelet only")
	}
}
