package kube

import (
	"cmp"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const configFile = "/var/lib/kubelet/config.yaml"

// joining is one site on one machine.
type joining struct {
	name    string
	example string
	layer   string    // over the example's site
	edit    [2]string // of site.hcl: old and new text
	node    NodeOptions
	server  string            // its address; "" is 10.0.0.11:6443
	files   map[string]string // of the node, before prelet
	want    string            // name of the Node; "" is the host's
}

// site is the example's with the layer, and the variable that some examples have.
func (j joining) site(t *testing.T, c *Cluster) map[string]string {
	t.Helper()
	files := siteOf(t, c, j.example, j.layer)
	files["site.hcl"] = strings.Replace(files["site.hcl"], j.edit[0], j.edit[1], 1)
	if strings.Contains(files["site.hcl"], "var.zone") {
		files["zone.prelet.vars"] = "zone = \"az1-r07\"\n"
	}

	return files
}

// join lets a node of this kind join, and looks at what became of it.
func (j joining) join(t *testing.T, c *Cluster, runtime string) *Node {
	t.Helper()
	n := nodeWith(t, c, runtime, "cgroupfs", j.node, cmp.Or(j.server, "10.0.0.11:6443"))
	for p, text := range j.files {
		must(t, n.Write(p, text, 0o644))
	}
	must(t, n.Credential("bootstrap-token", c.Token))
	must(t, n.Site(j.site(t, c)))
	joined(t, c, n, j)

	return n
}

// TestJoin goes the whole way, with nothing in place of anything: token from a credential, cluster-info signed by the
// real signer, pins, the ConfigMap of kubeadm, plan, files, and the real kubelet started on exactly these.
func TestJoin(t *testing.T) {
	t.Parallel()
	c := start(t, ClusterOptions{})
	must(t, c.SetConfigMap(t.Context(), "kube-system", "kubelet-config-1.11", legacyObjects))
	for _, words := range []string{
		"create role prelet --verb=get --resource=configmaps --resource-name=kubelet-config-1.11",
		"create rolebinding prelet --role=prelet --group=system:bootstrappers --group=system:nodes",
	} {
		_, err := c.Kubectl(t.Context(), append([]string{"-n", "kube-system"}, strings.Fields(words)...)...)
		must(t, err)
	}
	base, err := c.ConfigMap(t.Context(), "kube-system", "kubelet-config")
	must(t, err)
	machines, err := filepath.Abs("../../bin/machines")
	must(t, err)

	const hosts = "127.0.0.1 localhost\n10.0.0.11 k8s.site3.example\n"
	dgx := NodeOptions{Hardware: machines + "/dgx-h100"}
	legacy := joining{
		example: "legacy-vm", node: NodeOptions{Hardware: machines + "/legacy-mt27710", Address: "192.0.2.5/24"},
		server: "10.178.4.10:6443", want: "192.0.2.5",
	}
	legacyDropIn := legacy
	legacy.name, legacy.files = "legacy-vm", legacyFiles("")
	legacyDropIn.name, legacyDropIn.files = "legacy-vm-drop-in", legacyFiles(legacyObjects["vm-kubelet-config"])
	// What the script took from the ConfigMap is on the node's disk then.
	legacyDropIn.layer = strings.Replace(dropIn, "layout", "base = null\n      layout", 1)
	for _, j := range []joining{
		{name: "kubeadm", example: "kubeadm"},
		// What counts is config.yaml and not the ConfigMap that it was made of: here kubeadm has patched it.
		{name: "kubeadm-drop-in", example: "kubeadm", layer: dropIn, files: map[string]string{
			configFile: base["kubelet"] + "maxPods: 61\nevictionHard: {memory.available: 333Mi}\n",
		}},
		{name: "drop-in", example: "testdata/dropin", files: map[string]string{configFile: base["kubelet"]}},
		{name: "gpu-training", example: "gpu-training", node: dgx, files: map[string]string{"/etc/hosts": hosts}},
		{name: "gpu-training-drop-in", example: "gpu-training", layer: dropIn, node: dgx,
			edit:  [2]string{"allowedUnsafeSysctls  = null"}, // a drop-in cannot remove a field of the base
			files: map[string]string{"/etc/hosts": hosts, configFile: base["kubelet"]}},
		legacy,
		legacyDropIn,
	} {
		for _, runtime := range []string{FakeRuntime, Containerd} {
			t.Run(j.name+"/"+runtime, func(t *testing.T) {
				if runtime == Containerd && !c.HasContainerd() {
					t.Skip("build.sh found no apt to get containerd from")
				}
				j.node.Name = j.name + "-" + runtime
				j.join(t, c, runtime)
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
		files[configFile] = config
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
	node, err := c.Ready(t.Context(), cmp.Or(j.want, n.Name))
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
	if d := gocmp.Diff(before, after); d != "" {
		t.Errorf("a second run wrote (-before +after):\n%s", d)
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
