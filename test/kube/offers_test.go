package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// offer is a site, and the machine that it is for.
type offer struct {
	name    string
	machine string // a recorded one; "": this one
	reserve string // the body of the stage reserve; "": without it
	patch   string // of the kubelet's configuration
	flags   string // of the kubelet
	stages  string // further ones
	kubeadm string // flags that kubeadm has written
}

// offers vary what a kubelet subtracts from a machine, the pods that it takes, and its labels and taints.
var offers = []offer{
	{name: "defaults"},
	{name: "gke", reserve: `policy = "gke"`},
	{name: "aks", reserve: `policy = "aks"`},
	{name: "gdc", reserve: `policy = "gdc"`},
	{name: "eks", reserve: "policy = \"eks\"\nmax_pods = 17"},
	{name: "static", reserve: `policy = "static"
static {
  cpu               = "250m"
  memory            = "321Mi"
  ephemeral_storage = "3Gi"
}`},
	{name: "reserved twice", patch: `
kubeReserved   = { cpu = "100m", memory = "300M", "ephemeral-storage" = "1G", pid = "1000" }
systemReserved = { cpu = "33m", memory = "111Mi", "ephemeral-storage" = "2Gi", pid = "900" }`},
	{name: "by flags", flags: `
kube-reserved   = "memory=222Mi,cpu=0.1"
system-reserved = "cpu=50m,memory=77Mi"
eviction-hard   = "memory.available<150Mi,nodefs.available<6%"
max-pods        = 21`},
	{name: "CPUs by number", patch: `reservedSystemCPUs = "0"`, flags: `kube-reserved = "cpu=300m,memory=100Mi"`},
	{name: "thresholds in percent", patch: `evictionHard = { "memory.available" = "3.3%", "nodefs.available" = "7%" }`},
	{name: "thresholds in bytes", patch: `evictionHard = { "memory.available" = "1G", "nodefs.available" = "3Gi" }`},
	{name: "thresholds of images only", patch: `evictionHard = { "imagefs.available" = "11%" }`},
	{name: "merged thresholds",
		patch: "evictionHard = { \"memory.available\" = \"0.5Gi\" }\nmergeDefaultEvictionSettings = true"},
	{name: "soft thresholds", patch: `
evictionSoft            = { "memory.available" = "2Gi" }
evictionSoftGracePeriod = { "memory.available" = "1m" }`},
	{name: "thresholds that do not count", flags: `experimental-allocatable-ignore-eviction = true`},
	{name: "pods of each core", patch: "podsPerCore = 7\nmaxPods = 250"},
	{name: "many pods", patch: "maxPods = 500\npodsPerCore = 1000"},
	{name: "labels and taints", stages: `
stage "label" "l" {
  labels = { "example.com/a" = "1", "example.com/empty" = "", "topology.kubernetes.io/zone" = "az-1" }
}
stage "taint" "t" {
  taints = ["example.com/t=v:NoSchedule", "example.com/t:PreferNoSchedule", "example.com/u:NoSchedule"]
}`},
	{name: "labels and taints of others", kubeadm: "--node-labels=example.com/kubeadm=1,example.com/b=2 " +
		"--register-with-taints=example.com/kubeadm=:PreferNoSchedule --max-pods=19"},

	{name: "huge pages", machine: "huge"},
	{name: "huge pages with all else", machine: "huge", reserve: `policy = "gke"`, patch: `
systemReserved = { memory = "1Gi", "ephemeral-storage" = "1Gi" }
evictionHard   = { "memory.available" = "2%" }`},
	{name: "huge pages and whole cores", machine: "huge", reserve: "policy = \"aks\"\ntopology { cores = 2 }"},
	{name: "many CPUs", machine: "dgx-h100", reserve: `policy = "gdc"`},
	{name: "CPUs of each node", machine: "dgx-h100",
		reserve: "policy = \"static\"\nstatic { memory = \"64Gi\" }\ntopology {\n cores = 4\n spread = \"numa\"\n}",
		patch:   `maxPods = 64`},
}

// machinesAlone are recorded machines with one offer each. "+huge" adds huge pages of two sizes. Those of arm64 are not
// among them: this kubelet ends on their processors.
var machinesAlone = []string{
	"bare-vm", "edge", "legacy-82599", "legacy-mt27710", "legacy-mt27710-down", "legacy-x710", "legacy-xxv710", "mi300x",
	"two-sockets", "dgx-h100+huge", "edge+huge", "legacy-82599+huge", "legacy-mt27710+huge",
	"legacy-mt27710-down+huge", "legacy-x710+huge", "legacy-xxv710+huge", "mi300x+huge",
}

// listOffers returns all offers: on machines alone with each policy in turn.
func listOffers() []offer {
	all := slices.Clone(offers)
	policies := []string{"gke", "aks", "gdc"}
	for i, machine := range machinesAlone {
		policy := policies[i%len(policies)]
		all = append(all, offer{name: machine, machine: machine, reserve: fmt.Sprintf("policy = %q", policy)})
	}

	return all
}

// site returns the stages of the offer for a node. Without control groups a kubelet of a recorded machine needs none of
// its CPUs.
func (o offer) site(node string) string {
	reserve := ""
	if o.reserve != "" {
		reserve = "stage \"reserve\" \"r\" {\n" + o.reserve + "\n}\n"
	}
	patch := o.patch
	if o.machine != "" {
		patch += "\ncgroupsPerQOS = false\nenforceNodeAllocatable = []"
	}

	return fmt.Sprintf(`
stage "detect-hw" "node" {}
%s%s
stage "write" "kubelet" {
  kubelet_config {
    patch = { %s
    }
  }
  kubelet_flags {
    path = "/etc/default/kubelet" # of the unit, also on a recorded machine with rpm
    flags = {
      hostname-override = %q
%s
    }
  }
}
stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
`, reserve, o.stages, patch, node, o.flags)
}

// TestOffers compares the Node and the pool that plan prints, for a rehearsal and for autoscalers, with the Node of a
// real kubelet: capacity and allocatable resources, labels and taints. Machines are this one and 19 recorded ones, some
// with huge pages. Devices are left out, as no plugin adds them.
func TestOffers(t *testing.T) {
	t.Parallel()
	all := t // of which the machines are
	c := start(t, ClusterOptions{})
	recorded, err := filepath.Abs("../../bin/machines")
	must(t, err)
	options := map[string]NodeOptions{
		"":         {Name: "this"},
		"huge":     {Name: "huge", Hardware: makeHugePages(t, recorded+"/two-sockets")},
		"dgx-h100": {Name: "dgx", Hardware: recorded + "/dgx-h100"},
	}
	machines := map[string]member{}

	for _, o := range listOffers() {
		t.Run(o.name, func(t *testing.T) {
			m, isMade := machines[o.machine]
			shared, isShared := options[o.machine]
			switch {
			case isMade:
			case isShared:
				m = newMember(all, c, shared)
				machines[o.machine] = m
			default: // it ends with this test
				name, isHuge := strings.CutSuffix(o.machine, "+huge")
				tree := filepath.Join(recorded, name)
				if isHuge {
					tree = makeHugePages(t, tree)
				}
				m = newMember(t, c, NodeOptions{Name: strings.ReplaceAll(o.machine, "+", "-"), Hardware: tree})
			}
			m.t = t
			m.site(o.site(m.Name))
			must(t, m.Write("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\""+o.kubeadm+"\"\n", 0o644))
			var planned corev1.Node
			must(t, yaml.Unmarshal([]byte(prelet(t, m.Node, 0, "plan", "-o", "nodes").Out), &planned))
			var document struct{ Pools []offeredPool }
			must(t, json.Unmarshal([]byte(prelet(t, m.Node, 0, "plan", "-o", "capacity").Out), &document))
			if len(document.Pools) != 1 {
				t.Fatalf("got %d pools, want 1", len(document.Pools))
			}

			// Labels and taints are taken when the node registers.
			_ = c.Client.CoreV1().Nodes().Delete(t.Context(), m.Name, metav1.DeleteOptions{})
			m.run(0)
			node, err := c.Ready(t.Context(), m.Name)
			must(t, err)
			checkOffer(t, planned, node)
			document.Pools[0].check(t, node)
			if t.Failed() {
				t.Logf("the site has\n%s", o.site(m.Name))
			}
		})
	}
}

// makeHugePages returns the tree of a recorded machine, with huge pages of two sizes.
func makeHugePages(t *testing.T, recorded string) string {
	t.Helper()
	tree := filepath.Join(t.TempDir(), "huge")
	if out, err := exec.Command("cp", "-a", recorded, tree).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s; make machines", err, out)
	}
	for size, count := range map[string]string{"1048576": "4\n", "2048": "300\n"} {
		dir := tree + "/sys/kernel/mm/hugepages/hugepages-" + size + "kB"
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.WriteFile(dir+"/nr_hugepages", []byte(count), 0o644))
	}

	return tree
}

// offeredPool is what a pool has of a Node.
type offeredPool struct {
	Capacity, Allocatable corev1.ResourceList
	Overhead              map[string]corev1.ResourceList
	Labels                map[string]string
	Taints                []corev1.Taint
}

// check compares the pool with the Node of a kubelet, which has a name in addition.
func (p offeredPool) check(t *testing.T, node *corev1.Node) {
	t.Helper()
	compareAmounts(t, "pool: capacity", p.Capacity, node.Status.Capacity)
	compareAmounts(t, "pool: allocatable", p.Allocatable, node.Status.Allocatable)
	for _, part := range p.Overhead {
		for name, amount := range part {
			left := p.Capacity[name]
			left.Sub(amount)
			p.Capacity[name] = left
		}
	}
	compareAmounts(t, "pool: capacity less overhead", p.Capacity, node.Status.Allocatable)

	labels := maps.Clone(node.Labels)
	delete(labels, corev1.LabelHostname)
	if !maps.Equal(p.Labels, labels) {
		t.Errorf("pool: got labels %v, want %v", p.Labels, labels)
	}
	compareTaints(t, "pool", p.Taints, node)
}

// checkOffer compares a planned Node with that of a kubelet.
func checkOffer(t *testing.T, planned corev1.Node, node *corev1.Node) {
	t.Helper()
	compareAmounts(t, "capacity", planned.Status.Capacity, node.Status.Capacity)
	compareAmounts(t, "allocatable", planned.Status.Allocatable, node.Status.Allocatable)
	if planned.Name != node.Name || !maps.Equal(planned.Labels, node.Labels) {
		t.Errorf("got %s with labels %v, want %s with %v", planned.Name, planned.Labels, node.Name, node.Labels)
	}
	compareTaints(t, "Node", planned.Spec.Taints, node)
	got, want := planned.Status.NodeInfo, node.Status.NodeInfo
	isSame := got.KubeletVersion == want.KubeletVersion && got.KernelVersion == want.KernelVersion
	if !isSame || got.OSImage != want.OSImage {
		t.Errorf("got the programs %+v, want %+v", got, want)
	}
}

// compareAmounts compares resources with those of a kubelet, except devices. One that is missing is 0.
func compareAmounts(t *testing.T, what string, got, want corev1.ResourceList) {
	t.Helper()
	for _, list := range []corev1.ResourceList{got, want} {
		for name := range list {
			g, w := got[name], want[name]
			isDevice := strings.Contains(string(name), "/")
			if !isDevice && g.Cmp(w) != 0 {
				t.Errorf("%s: got %s of %s, want %s", what, &g, name, &w)
			}
		}
	}
}

// compareTaints compares taints with those of a Node, without the cluster's own.
func compareTaints(t *testing.T, what string, planned []corev1.Taint, node *corev1.Node) {
	t.Helper()
	var got, want []string
	for _, taint := range planned {
		got = append(got, taint.ToString())
	}
	for _, taint := range node.Spec.Taints {
		if !strings.HasPrefix(taint.Key, "node.kubernetes.io/") {
			want = append(want, taint.ToString())
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: got taints %q, want %q", what, got, want)
	}
}
