package importer_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/testing/sample"
)

const (
	pin   = "sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270" // of the CA next to the examples
	caPEM = "../../../../examples/objects/ca.crt"
	token = "abcdef.0123456789canary"
)

// situation is a node, its init-config and its cluster.
type situation struct {
	init map[string]any
	machine
	configMap
}

// ordinary is what the cases change: a virtual machine with the production text of the flags.
func ordinary() situation {
	return situation{
		init: map[string]any{"apiserver": "10.178.4.10:6443", "listenInterface": "eth0"},
		machine: machine{
			cpus:       8,
			memoryKiB:  32900000,
			interfaces: map[string]string{"eth0": "192.0.2.5", "eth1": "198.51.100.5"},
			cards:      []card{virtio},
		},
		configMap: configMap{vmKubeletConfig: baseConfig, defaultKubelet: production},
	}
}

const baseConfig = `address: 0.0.0.0
apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  anonymous:
    enabled: false
cgroupDriver: systemd
clusterDNS: [10.178.4.21]
clusterDomain: cluster.local
evictionHard:
  memory.available: 100Mi
kind: KubeletConfiguration
kubeReserved:
  cpu: 200m
  memory: 512Mi
maxPods: 110
systemReserved:
  cpu: 200m
  memory: 512Mi
`

const production = `# The kubelet's flags; see the runbook.
KUBELET_EXTRA_ARGS="--allow-privileged=true --hostname-override 10.0.0.1 --node-ip 10.0.0.1 \
  --allowed-unsafe-sysctls=kernel.shm*,kernel.msg*,kernel.sem,fs.mqueue.*,net.* \
  --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf \
  --cni-bin-dir=/opt/cni/bin --cni-conf-dir=/etc/cni/net.d --config=/var/lib/kubelet/config.yaml --network-plugin=cni \
  --log-dir=/data/log/kubelet --logtostderr=false --pod-infra-container-image=harbor.example/pause-amd64:3.1 \
  --register-with-taints node.netease.com/phase=checking:NoSchedule,node-role.kubernetes.io/master=:NoSchedule \
  --node-labels node-role.kubernetes.io/master=,node.netease.com/phase=checking \
  --feature-gates=SupportPodPidsLimit=true -v=4"
`

const port = `{"id": "6a9a1c2e", "fixed_ips": [{"subnet_id": "9d2b40f1", "ip_address": "192.0.2.5"}, {"subnet_id": "other"}]}`

// The names are lspci's.
var (
	virtio   = card{"1af4:1041", "Virtio network device", 0}
	mlnx     = card{"15b3:1015", "MT27710 Family [ConnectX-4 Lx]", 0}
	mlnxVF   = card{"15b3:1016", "MT27710 Family [ConnectX-4 Lx Virtual Function]", 25}
	connectX = card{"15b3:1017", "MT27800 Family [ConnectX-5]", 100}
	xxv710   = card{"8086:158b", "Ethernet Controller XXV710 for 25GbE SFP28", 25}
	x710     = card{"8086:1572", "Ethernet Controller X710 for 10GbE SFP+", 10}
	x710T    = card{"8086:15ff", "Ethernet Controller X710 for 10GBASE-T", 10}
	xl710    = card{"8086:1583", "Ethernet Controller XL710 for 40GbE QSFP+", 40}
	i82599   = card{"8086:10fb", "82599ES 10-Gigabit SFI/SFP+ Network Connection", 10}
)

func at(c card, gbps int) card { c.gbps = gbps; return c }

func set(key string, v any) change { return func(s *situation) { s.init[key] = v } }

func resources(cpus, memory any) change {
	return func(s *situation) {
		r := map[string]any{}
		if cpus != nil {
			r["cpuRemained"] = cpus
		}
		if memory != nil {
			r["memoryReserved"] = memory
		}
		s.init["resources"] = r
	}
}

func hardware(cpus int, gib float64) change {
	return func(s *situation) { s.cpus, s.memoryKiB = cpus, int64(gib*1024*1024) }
}

func gpus(names ...string) change { return func(s *situation) { s.gpus = names } }

func dpdk(cards ...card) change {
	return func(s *situation) { s.cards, s.dpdk = append([]card{virtio}, cards...), true }
}

func portConf(text string) change { return func(s *situation) { s.portConf = text } }

func flags(text string) change { return func(s *situation) { s.defaultKubelet = text } }

func config(from, to string) change {
	return func(s *situation) { s.vmKubeletConfig = strings.Replace(s.vmKubeletConfig, from, to, 1) }
}

func without(key string) change { return func(s *situation) { delete(s.init, key) } }

// A change is what is otherwise than on an ordinary machine.
type (
	change  func(*situation)
	changes []change
)

// TestSameAsTheScript imports an init-config, plans the site on a machine, and compares what the plan would write with
// what the script wrote there.
func TestSameAsTheScript(t *testing.T) {
	chosen := sample.New(t)
	vm := "beta.kubernetes.io/instance-type=virtualMachine"
	for _, c := range []struct {
		name    string
		changes changes
	}{
		{"ordinary", nil},
		{"https URL", changes{set("apiserver", "https://k8s.site3.example:6443")}},
		{"version 1.24: taints stay in the flag of the base", changes{set("k8s_version", "1.24")}},
		{"version 1.24: no flag in the base", changes{set("k8s_version", "1.24"), set("nodeTaints", "a=b:NoSchedule"), flags("KUBELET_EXTRA_ARGS=\"--v=2\"\n")}},
		{"version 1.11: no flag in the base", changes{set("nodeTaints", "a=b:NoSchedule,c=:NoExecute"), flags("KUBELET_EXTRA_ARGS=\"--v=2\"\n")}},
		{"no listenInterface", changes{without("listenInterface")}},
		{"no listenInterface, no such flags in the base", changes{without("listenInterface"), flags("KUBELET_EXTRA_ARGS=--v=2\n")}},
		{"another interface", changes{set("listenInterface", "eth1")}},
		{"a base that listens elsewhere", changes{config("address: 0.0.0.0", "address: 127.0.0.1")}},
		{"a base without address", changes{config("address: 0.0.0.0\n", "")}},

		{"even CPUs", changes{resources(4, nil)}},
		{"odd CPUs", changes{resources(5, nil)}},
		{"one CPU less", changes{resources(7, nil)}},
		{"one CPU remains of 96", changes{resources(1, nil), hardware(96, 376)}},
		{"as many CPUs remain as there are", changes{resources(8, nil)}},
		{"more CPUs remain than there are", changes{resources(64, nil)}},
		{"10% of 31 GiB", changes{resources(nil, "10%")}},
		{"33% of 125 GiB", changes{resources(nil, "33%"), hardware(32, 125.7)}},
		{"7% of 15 GiB: nothing", changes{resources(nil, "7%"), hardware(4, 15.6)}},
		{"0%", changes{resources(nil, "0%")}},
		{"50% of 3 GiB", changes{resources(nil, "50%"), hardware(2, 3.9)}},
		{"CPUs and memory", changes{resources(13, "20%"), hardware(16, 62.6)}},
		{"resources without content", changes{resources(nil, nil)}},
		{"resources over a base without any", changes{resources(3, "25%"), config("kubeReserved:\n  cpu: 200m\n  memory: 512Mi\n", ""), config("systemReserved:\n  cpu: 200m\n  memory: 512Mi\n", "")}},
		{"resources next to others of the base", changes{resources(3, nil), config("kubeReserved:\n", "kubeReserved:\n  ephemeral-storage: 1Gi\n")}},

		{"Tesla P40", changes{gpus("Tesla P40")}},
		{"Tesla V100", changes{gpus("Tesla V100-SXM2-16GB")}},
		{"NVIDIA A100: the prefix once", changes{gpus("NVIDIA A100-SXM4-40GB")}},
		{"eight H100", changes{gpus(slices.Repeat([]string{"NVIDIA H100 80GB HBM3"}, 8)...)}},
		{"two kinds: GPU 0 counts", changes{gpus("Tesla T4", "Tesla P4")}},
		{"GeForce", changes{gpus("GeForce RTX 2080 Ti")}},
		{"GPU and a taint of the text with its key", changes{gpus("Tesla T4"), flags("KUBELET_EXTRA_ARGS=\"--register-with-taints=nvidia.com/gpu=true:NoSchedule\"\n")}},
		{"GPU whose label init-config has", changes{gpus("Tesla T4"), set("nodeLabels", "accelerator=nvidia-t4")}},
		{"label of a GPU without GPU", changes{set("nodeLabels", "accelerator=nvidia-t4")}},
		{"GPU whose taint init-config has", changes{gpus("Tesla T4"), set("nodeTaints", "nvidia.com/gpu=true:NoSchedule")}},
		{"GPU whose taint init-config has otherwise", changes{gpus("Tesla T4"), set("nodeTaints", "nvidia.com/gpu=present:NoSchedule")}},

		{"dpdk on MT27710 at 10G", changes{dpdk(at(mlnx, 10))}},
		{"dpdk on MT27710 at 25G", changes{dpdk(at(mlnx, 25))}},
		{"dpdk on MT27710 at 40G", changes{dpdk(at(mlnx, 40))}},
		{"dpdk on MT27710, link down", changes{dpdk(mlnx)}},
		{"dpdk on MT27710, link down, next to XXV710", changes{dpdk(mlnx, xxv710)}},
		{"dpdk on MT27710, link down, next to 82599", changes{dpdk(mlnx, i82599)}},
		{"dpdk on X710 for 10GBASE-T", changes{dpdk(x710T)}},
		{"dpdk on MT27710, first of two down", changes{dpdk(mlnx, at(mlnx, 25))}},
		{"dpdk on two MT27710: the first by PCI address", changes{dpdk(at(mlnx, 40), at(mlnx, 25))}},
		{"dpdk on a virtual function of MT27710", changes{dpdk(mlnxVF)}},
		{"dpdk on XXV710", changes{dpdk(xxv710)}},
		{"dpdk on X710", changes{dpdk(x710)}},
		{"dpdk on 82599", changes{dpdk(i82599)}},
		{"dpdk on 82599, XXV710, MT27710: Mellanox first", changes{dpdk(i82599, xxv710, at(mlnx, 25))}},
		{"dpdk on 82599, X710, XXV710: XXV710 first", changes{dpdk(i82599, x710, xxv710)}},
		{"dpdk on cards of other kinds", changes{dpdk(xl710, connectX)}},
		{"dpdk without a card", changes{dpdk()}},
		{"MT27710 without dpdk", changes{dpdk(at(mlnx, 25)), func(s *situation) { s.dpdk = false }}},
		{"dpdk, and init-config has the label", changes{dpdk(xxv710), set("nodeLabels", "network.netease.com/sriov-type=mine")}},
		{"dpdk, and init-config has the taint", changes{dpdk(xxv710), set("nodeTaints", "network.netease.com/sriov-type=mine:NoSchedule")}},

		{"port.conf", changes{portConf(port)}},
		{"port.conf of a virtual machine", changes{portConf(port), set("nodeLabels", vm)}},
		{"a virtual machine without port.conf", changes{set("nodeLabels", vm)}},
		{"port.conf of another instance type", changes{portConf(port), set("nodeLabels", "beta.kubernetes.io/instance-type=bareMetal")}},
		{"port.conf, and init-config has its labels", changes{portConf(port), set("nodeLabels", vm+",node.netease.com/port_id=p,network.netease.com/single-subnet-id=s")}},

		{"flags with =", changes{flags("KUBELET_EXTRA_ARGS=\"--node-labels=a=b,c= " +
			"--register-with-taints=x=y:NoExecute --node-ip=1.2.3.4 --hostname-override=old --v=2\"\n")}},
		{"flags with spaces", changes{flags("KUBELET_EXTRA_ARGS=\"--node-labels a=b,c= " +
			"--register-with-taints x=y:NoExecute --node-ip 1.2.3.4 --hostname-override old -v 2\"\n")}},
		{"flags without the ones that are made", changes{flags("KUBELET_EXTRA_ARGS=\"--log-dir " +
			"/var/log/k8s --allow-privileged=true\"\n")}},
		{"no log-dir", changes{flags("KUBELET_EXTRA_ARGS=\"--v=2\"\n")}},
		{"a log-dir that is commented out", changes{flags("# KUBELET_EXTRA_ARGS=\"--log-dir=/old\"\nKUBELET_EXTRA_ARGS=\"--v=2\"\n")}},
		{"resolvConf", changes{config("maxPods: 110", "maxPods: 110\nresolvConf: "+
			"/etc/kubernetes/resolv.conf")}},

		{"labels and taints of all three", changes{gpus("Tesla P40"), dpdk(x710), portConf(port),
			set("nodeLabels", vm+", node.netease.com/pool=online"), set("nodeTaints", "node.netease.com/phase=online:NoExecute, dedicated=db:PreferNoSchedule")}},
		{"a label of the text with another value", changes{set("nodeLabels", "node.netease.com/phase=online")}},
		{"a label twice in init-config", changes{set("nodeLabels", "pool=a,pool=b")}},
		{"a taint of the text with another value", changes{set("nodeTaints", "node.netease.com/phase=online:NoSchedule")}},
		{"a taint of the text with another effect", changes{set("nodeTaints", "node.netease.com/phase=checking:NoExecute")}},
		{"kube-proxy otherwise", changes{set("nodeLabels", "network.netease.com/kube-proxy=ipvs")}},
		{"an empty label, a taint without value", changes{set("nodeLabels", "spot="), set("nodeTaints", "spot:NoSchedule")}},
		{"text that HCL would read", changes{set("nodeLabels", "a.b-c/d_e=1.0")}},
	} {
		if !chosen.Has(4, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := ordinary()
			for _, change := range c.changes {
				change(&s)
			}
			raw, err := json.Marshal(s.init)
			must(t, err)
			ca, err := os.ReadFile(caPEM)
			must(t, err)
			want, err := script(string(raw), s.machine, s.configMap, string(ca))
			must(t, err)
			p := s.plan(t, raw, want.Name)
			if !p.Complete {
				t.Fatalf("the plan is not complete: %v", p.Diagnostics)
			}
			got := planned(t, p)
			got.Name = want.Name
			quantities(t, got.Config)
			quantities(t, want.Config)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("the plan (+) is not what the script left (-):\n%s", d)
			}
			if strings.HasPrefix(c.name, "version 1.11") &&
				!strings.Contains(textOf(t, p, "kubelet-flags"), "--register-with-taints") {
				t.Error("an old kubelet reads taints from its flag only")
			}
		})
	}
}

// TestWhatTheScriptRefused: where the script stopped, no plan is complete.
func TestWhatTheScriptRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*situation)
		code   fault.Code
	}{
		{"empty vm-kubelet-config", func(s *situation) { s.vmKubeletConfig = "" }, fault.ClusterUnusable},
		{"empty default-kubelet", func(s *situation) { s.defaultKubelet = "" }, fault.Precondition},
		{"blank default-kubelet", func(s *situation) { s.defaultKubelet = " \n" }, fault.Precondition},
		{"no address", func(s *situation) { s.init["listenInterface"] = "eth7" }, fault.Precondition},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := ordinary()
			c.change(&s)
			raw, err := json.Marshal(s.init)
			must(t, err)
			if _, err := script(string(raw), s.machine, s.configMap, ""); err == nil {
				t.Error("the script would have gone on")
			}
			p := s.plan(t, raw, "kubelet-config-1.11")
			if p.Complete {
				t.Error("the plan is complete")
			}
			if origin.Code(p.Diagnostics).Exit() != c.code.Exit() {
				t.Errorf("exit %d, want that of %s: %v", origin.Code(p.Diagnostics).Exit(), c.code, p.Diagnostics)
			}
		})
	}
}
