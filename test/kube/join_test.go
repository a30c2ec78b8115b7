package kube

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// joining is one site on one machine.
type joining struct {
	name      string
	site      func(t *testing.T, c *Cluster) map[string]string
	node      NodeOptions
	addresses []string
	files     map[string]string // of the node, before prelet
	want      string            // name of the Node; "" is the host's
}

// TestJoin goes the whole way, with nothing in place of anything: token from a credential, cluster-info signed by the
// real signer, pins, the ConfigMap of kubeadm, plan, files, and the real kubelet started on exactly these.
func TestJoin(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	machines := func(name string) string {
		p, err := filepath.Abs(filepath.Join("../../bin/machines", name))
		must(t, err)
		return p
	}
	zone := func(site map[string]string) map[string]string {
		site["zone.prelet.vars"] = "zone = \"az1-r07\"\n"
		return site
	}
	must(t, c.SetConfigMap(t.Context(), "kube-system", "kubelet-config-1.11", legacyObjects))
	if _, err := c.Kubectl(
		t.Context(),
		"-n",
		"kube-system",
		"create",
		"role",
		"prelet",
		"--verb=get",
		"--resource=configmaps",
		"--resource-name=kubelet-config-1.11",
	); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(
		t.Context(),
		"-n",
		"kube-system",
		"create",
		"rolebinding",
		"prelet",
		"--role=prelet",
		"--group=system:bootstrappers",
		"--group=system:nodes",
	); err != nil {
		t.Fatal(err)
	}
	base, err := c.ConfigMap(t.Context(), "kube-system", "kubelet-config")
	must(t, err)

	legacy := NodeOptions{Hardware: machines("legacy-mt27710"), Address: "192.0.2.5/24"}
	for _, j := range []joining{
		{name: "kubeadm", addresses: []string{"10.0.0.11:6443"},
			site: func(t *testing.T, c *Cluster) map[string]string { return zone(siteOf(t, c, "kubeadm")) }},
		// What counts is config.yaml and not the ConfigMap that it was made of: here kubeadm has patched it.
		{name: "kubeadm-drop-in", addresses: []string{"10.0.0.11:6443"}, files: map[string]string{"/var/lib/kubelet/config.yaml": base["kubelet"] + "maxPods: 61\nevictionHard: {memory.available: 333Mi}\n"},
			site: func(t *testing.T, c *Cluster) map[string]string { return zone(siteOf(t, c, "kubeadm", dropIn)) }},
		{name: "drop-in", addresses: []string{"10.0.0.11:6443"}, files: map[string]string{"/var/lib/kubelet/config.yaml": base["kubelet"]},
			site: func(t *testing.T, c *Cluster) map[string]string { return siteOf(t, c, "testdata/dropin") }},
		{name: "gpu-training", addresses: []string{"10.0.0.11:6443"}, node: NodeOptions{Hardware: machines("dgx-h100")},
			files: map[string]string{"/etc/hosts": "127.0.0.1 localhost\n10.0.0.11 k8s.site3.example\n"},
			site:  func(t *testing.T, c *Cluster) map[string]string { return zone(siteOf(t, c, "gpu-training")) }},
		{name: "gpu-training-drop-in", addresses: []string{"10.0.0.11:6443"}, node: NodeOptions{Hardware: machines("dgx-h100")},
			files: map[string]string{"/etc/hosts": "127.0.0.1 localhost\n10.0.0.11 k8s.site3.example\n", "/var/lib/kubelet/config.yaml": base["kubelet"]},
			site: func(t *testing.T, c *Cluster) map[string]string {
				site := zone(siteOf(t, c, "gpu-training", dropIn))
				// A drop-in cannot take a field of the base away.
				site["site.hcl"] = strings.Replace(site["site.hcl"], "allowedUnsafeSysctls  = null", "", 1)
				return site
			}},
		{name: "legacy-vm", addresses: []string{"10.178.4.10:6443"}, node: legacy, want: "192.0.2.5", files: legacyFiles(""),
			site: func(t *testing.T, c *Cluster) map[string]string { return siteOf(t, c, "legacy-vm") }},
		{name: "legacy-vm-drop-in", addresses: []string{"10.178.4.10:6443"}, node: legacy, want: "192.0.2.5", files: legacyFiles(legacyObjects["vm-kubelet-config"]),
			// What the script took from the ConfigMap is on the node's disk then.
			site: func(t *testing.T, c *Cluster) map[string]string {
				return siteOf(t, c, "legacy-vm", strings.Replace(dropIn, "layout", "base = null\n      layout", 1))
			}},
	} {
		for _, runtime := range []string{FakeRuntime, Containerd} {
			t.Run(j.name+"/"+runtime, func(t *testing.T) {
				if runtime == Containerd && !c.HasContainerd() {
					t.Skip("build.sh found no apt to get containerd from")
				}
				o := j.node
				o.Name = j.name + "-" + runtime
				n := nodeWith(t, c, runtime, "cgroupfs", o, j.addresses...)
				for p, text := range j.files {
					must(t, n.Write(p, text, 0o644))
				}
				must(t, n.Credential("bootstrap-token", c.Token))
				must(t, n.Site(j.site(t, c)))
				joined(t, c, n, j)
				if j.want != "" { // the next one would join under the same name
					must(t, c.Client.CoreV1().Nodes().Delete(t.Context(), j.want, metav1.DeleteOptions{}))
				}
			})
		}
	}
}

// dropIn is a layer that leaves config.yaml alone.
const dropIn = `
override {
  stage "write" "kubelet" {
    kubelet_config {
      layout = "drop-in"
    }
  }
}
`

// legacyFiles are what the script of the example found on its machines; config is what config.yaml holds, "" where
// there is none.
func legacyFiles(config string) map[string]string {
	files := map[string]string{
		"/etc/kubernetes/init-config": `{"apiserver": "10.178.4.10:6443", "k8s_version": "1.11", "listenInterface": "eth0", "nodeLabels": "beta.kubernetes.io/instance-type=virtualMachine, node.netease.com/pool=online", "nodeTaints": "node.netease.com/phase=online:NoSchedule", "resources": {"cpuRemained": 1, "memoryReserved": "50%"}}`,
		"/etc/kubernetes/port.conf":   `{"id": "6a9a1c2e", "fixed_ips": [{"subnet_id": "9d2b40f1"}]}`,
	}
	if config != "" {
		files["/var/lib/kubelet/config.yaml"] = config
	}
	return files
}

// joined runs prelet, and looks at what became of it.
func joined(t *testing.T, c *Cluster, n *Node, j joining) {
	t.Helper()
	p := planOf(t, n)
	r := prelet(t, n, 0, "run")
	if !strings.Contains(r.Out, "healthy") {
		t.Errorf("got %s; want text with \"healthy\"", r)
	}
	name := n.Name
	if j.want != "" {
		name = j.want
	}
	node, err := c.Ready(t.Context(), name)
	must(t, err)
	if len(p.Node.Taints) == 0 {
		t.Error("the plan has no taints to compare")
	}
	asPlanned(t, p, node)
	asWritten(t, c, n)
	if _, err := n.Read("/etc/kubernetes/bootstrap-kubelet.conf"); err == nil {
		t.Error("the bootstrap kubeconfig is still there, and the node has joined")
	}
	if _, err := n.Read("/etc/kubernetes/kubelet.conf"); err != nil {
		t.Error(err)
	}
	before, err := n.disk()
	must(t, err)
	prelet(t, n, 0, "run")
	after, err := n.disk()
	must(t, err)
	if !maps.Equal(before, after) {
		t.Errorf("a second run wrote: got %q; want %v", difference(before, after), after)
	}
}

// legacyObjects are those of the examples, less what no kubelet has taken for years: flags of the docker shim, of
// klog, and a feature gate that is gone. The kubelet is to make no control groups: without the static policy it would
// bind them to all the processors of the recorded machine, and this one has fewer.
var legacyObjects = map[string]string{
	"vm-kubelet-config": `address: 0.0.0.0
apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  anonymous:
    enabled: false
  x509:
    clientCAFile: /etc/kubernetes/pki/ca.crt
authorization:
  mode: Webhook
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
clusterDNS:
- 10.178.4.21
clusterDomain: cluster.local
evictionHard:
  imagefs.available: 15%
  memory.available: 100Mi
  nodefs.available: 10%
  nodefs.inodesFree: 5%
kind: KubeletConfiguration
kubeReserved:
  cpu: 200m
  memory: 512Mi
maxPods: 110
resolvConf: /etc/kubernetes/resolv.conf
rotateCertificates: true
staticPodPath: /etc/kubernetes/manifests
systemReserved:
  cpu: 200m
  memory: 512Mi
`,
	"default-kubelet": `KUBELET_EXTRA_ARGS="--hostname-override 0.0.0.0 \
  --node-ip 0.0.0.0 --allowed-unsafe-sysctls=kernel.shm*,kernel.msg*,kernel.sem,fs.mqueue.*,net.* \
  --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf \
  --config=/var/lib/kubelet/config.yaml \
  --register-with-taints node.netease.com/phase=checking:NoSchedule \
  --node-labels node.netease.com/phase=checking -v=4"
`,
}
