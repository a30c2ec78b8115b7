package rules

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/world"
)

// Machine is what is known of the machine that the kubelet is for. What is zero is unknown.
type Machine struct {
	CPUs           []int // that are online
	MemoryBytes    int64
	DiskBytes      int64 // of the filesystem of the kubelet's folder
	NUMA           []int // the nodes' numbers
	Addresses      []netip.Addr
	Runtime        string   // containerd, cri-o
	RuntimeVersion string   // 1.7.2
	CgroupDriver   string   // the runtime's
	RuntimeTells   bool     // and it told that itself, as it tells the kubelet
	Endpoint       string   // where it answers
	Cgroup         int      // 1 or 2
	Hierarchies    []string // of cgroup v1, where groups stand
	Swap           *bool
	Kernel         map[string]int64 // its values, by name below /proc/sys
	// Exists says whether a path is there, for those that the configuration names. nil: nobody can tell.
	Exists func(path string) (there, told bool)
}

// MachineOf is the machine as the facts describe it, and what surrounds the kubelet.
func MachineOf(f *world.Facts, k world.KubeletAns) *Machine {
	m := &Machine{Cgroup: k.Cgroup, Hierarchies: k.Hierarchies, Swap: k.Swap, Kernel: k.Kernel, DiskBytes: k.Disk}
	if r := k.Runtime; r != nil {
		m.Runtime, m.RuntimeVersion, m.Endpoint = r.Name, r.Version, r.Endpoint
		m.CgroupDriver, m.RuntimeTells = cmp.Or(r.Told, r.Driver), r.Told != ""
	}
	if f == nil {
		return m
	}
	for _, c := range f.CPU.Cores {
		m.CPUs = append(m.CPUs, c.CPUs...)
	}
	slices.Sort(m.CPUs)
	if f.Memory.TotalBytes != nil {
		m.MemoryBytes = *f.Memory.TotalBytes
	}
	for _, n := range f.NUMA {
		m.NUMA = append(m.NUMA, n.ID)
	}
	for _, i := range f.Interfaces {
		for _, s := range slices.Concat(i.IPv4, i.IPv6) {
			if a, err := netip.ParseAddr(s); err == nil {
				m.Addresses = append(m.Addresses, a)
			}
		}
	}
	for to, from := range map[*string]*string{&m.Runtime: f.Runtime.Name, &m.RuntimeVersion: f.Runtime.Version, &m.CgroupDriver: f.Runtime.CgroupDriver, &m.Endpoint: f.Runtime.Endpoint} {
		if from != nil && k.Runtime == nil {
			*to = *from
		}
	}
	return m
}

// machineRules need a machine.
func machineRules() []Rule {
	with := func(f func(*look, *Machine)) func(*look) {
		return func(l *look) {
			if l.Machine != nil && l.doc != nil {
				f(l, l.Machine)
			}
		}
	}
	return []Rule{
		{ID: "machine-cpu-offline", Minds: "reserved CPUs that are not online", Since: 22, Does: Exits, Severity: Error, Source: "cmd/kubelet/app/server.go, getReservedCPUs", check: with(func(l *look, m *Machine) {
			reserved, err := kubelet.ParseCPUSet(l.text("reservedSystemCPUs"))
			if err != nil || len(m.CPUs) == 0 {
				return
			}
			if online := cpuset.New(m.CPUs...); !reserved.IsSubsetOf(online) {
				l.field("reservedSystemCPUs", "name CPUs of this machine; stage \"reserve\" with topology chooses them", "reserved-cpus: %s is not a subset of online-cpus: %s", reserved, online)
			}
		})},
		{ID: "machine-reserved-above-capacity", Minds: "more reserved than there is", Does: Exits, Severity: Error, Source: "pkg/kubelet/cm/node_container_manager_linux.go, validateNodeAllocatable", check: with(func(l *look, m *Machine) {
			l.capacity(m, func(field, name, reserved, capacity string, over bool) {
				if over {
					l.field(field, "reserve less", "invalid Node Allocatable configuration. Resource %q has a reservation of %s (evictionHard included) but capacity of %s. Expected capacity >= reservation", name, reserved, capacity)
				}
			})
		})},
		{ID: "machine-nothing-left", Minds: "all that there is reserved", Does: Swallows, Severity: Warning, Source: "pkg/kubelet/cm/node_container_manager_linux.go", check: with(func(l *look, m *Machine) {
			l.capacity(m, func(field, name, reserved, _ string, over bool) {
				if !over {
					l.field(field, "reserve less: nothing is left for pods", "%s: %s are reserved, all that there is: the kubelet runs, and the node takes no pod", name, reserved)
				}
			})
		})},
		{ID: "machine-numa-node", Minds: "memory reserved on a NUMA node that there is not", Since: 21, Does: Exits, Severity: Error, Source: "pkg/kubelet/cm/memorymanager/memory_manager.go", check: with(func(l *look, m *Machine) {
			if l.text("memoryManagerPolicy") != "Static" || len(m.NUMA) == 0 {
				return
			}
			for i, v := range l.list("reservedMemory") {
				entry, _ := v.(map[string]any)
				n, err := strconv.Atoi(fmt.Sprint(entry["numaNode"]))
				if err == nil && !slices.Contains(m.NUMA, n) {
					l.at([]string{"reservedMemory", strconv.Itoa(i), "numaNode"}, "", "the reserved memory configuration references a NUMA node %d that does not exist on this machine", n)
				}
			}
		})},
		{ID: "machine-many-numa-nodes", Minds: "a topology policy on a machine with more than 8 NUMA nodes", Does: Exits, Severity: Error, Source: "pkg/kubelet/cm/topologymanager/topology_manager.go", check: with(func(l *look, m *Machine) {
			limit := 8
			if n, err := strconv.Atoi(l.stringMap("topologyManagerPolicyOptions")["max-allowable-numa-nodes"]); err == nil {
				limit = n
			}
			if p := l.text("topologyManagerPolicy"); p != "" && p != "none" && len(m.NUMA) > limit {
				l.field("topologyManagerPolicy", "topologyManagerPolicyOptions: {max-allowable-numa-nodes: ...}, since 1.31", "unsupported on machines with more than %d NUMA Nodes", limit)
			}
		})},
		{ID: "machine-cgroup-driver", Minds: "another cgroup driver than the runtime's", Does: Swallows, Severity: Warning, Source: "cmd/kubelet/app/server.go, getCgroupDriverFromCRI", check: with((*look).driver)},
		{ID: "machine-cgroup-v1", Minds: "cgroup v1", Since: 31, Does: Exits, Severity: Error, Source: "pkg/kubelet/apis/config/validation/validation_linux.go", check: with(func(l *look, m *Machine) {
			preset, _ := known.FieldAt("failCgroupV1", l.minor)
			if m.Cgroup == 1 && l.boolean("failCgroupV1", preset.Default == "true") {
				l.field("failCgroupV1", "boot with systemd.unified_cgroup_hierarchy=1; failCgroupV1: false puts it off", "kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported and will be removed in a future release")
			}
		})},
		{ID: "machine-oom-cgroup-v1", Minds: "`singleProcessOOMKill: false` with cgroup v1", Since: 32, Does: Exits, Severity: Error, Source: "pkg/kubelet/apis/config/validation/validation_linux.go", check: with(func(l *look, m *Machine) {
			if m.Cgroup == 1 && !l.boolean("singleProcessOOMKill", true) {
				l.field("singleProcessOOMKill", "boot with cgroup v2, or take it out", "invalid configuration: singleProcessOOMKill must not be explicitly set to false when using cgroup v1")
			}
		})},
		{ID: "machine-swap-cgroup-v1", Minds: "limited swap with cgroup v1", Since: 30, Does: Exits, Severity: Error, Source: "cmd/kubelet/app/server.go, run", check: with(func(l *look, m *Machine) {
			if word, _ := l.inner("memorySwap", "swapBehavior").(string); m.Cgroup == 1 && word == "LimitedSwap" && l.gate("NodeSwap") {
				l.at([]string{"memorySwap", "swapBehavior"}, "boot with cgroup v2, or take it out", "swap feature is enabled and LimitedSwap but it is only supported with cgroupv2")
			}
		})},
		{ID: "machine-swap", Minds: "swap that is on", Does: Exits, Severity: Error, Source: "pkg/kubelet/cm/container_manager_linux.go, NewContainerManager", check: with(func(l *look, m *Machine) {
			if m.Swap != nil && *m.Swap && l.boolean("failSwapOn", true) {
				l.field("failSwapOn", "swapoff -a and take swap out of fstab; or failSwapOn: false, with memorySwap.swapBehavior", "running with swap on is not supported, please disable swap or set --fail-swap-on flag to false")
			}
		})},
		{ID: "machine-kernel", Minds: "`protectKernelDefaults` where the kernel has other values than the kubelet needs", Does: Exits, Severity: Error, Alone: true, Source: "pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables", check: (*look).kernel},
		{ID: "machine-node-ip", Minds: "a `--node-ip` of no interface", Does: Swallows, Severity: Warning, Source: "pkg/kubelet/kubelet_node_status.go; nodestatus.NodeAddress", check: with(func(l *look, m *Machine) {
			for _, f := range l.Flags {
				if f.Name != "node-ip" || len(m.Addresses) == 0 {
					continue
				}
				ips, _, refused := nodeIPs(f.Value)
				for _, a := range ips {
					if refused == "" && !a.IsUnspecified() && !slices.Contains(m.Addresses, a) {
						l.flag(f.Name, "", "%s is of no interface of this machine: the kubelet runs, and the Node gets no address", a)
					}
				}
			}
		})},
		{ID: "machine-cgroup-missing", Minds: "an enforced cgroup, or `cgroupRoot`, that is not there", Does: Exits, Severity: Error, Source: "pkg/kubelet/cm/node_container_manager_linux.go; pkg/kubelet/cm/cgroup_v1_manager_linux.go, Validate", check: with((*look).cgroups)},
		{ID: "machine-file-missing", Minds: "a certificate or key that is not there", Does: Exits, Severity: Error, Source: "cmd/kubelet/app/server.go; pkg/kubelet/kubelet.go", check: with(func(l *look, _ *Machine) {
			l.missing(Error, "relative paths begin at the folder of the configuration", []string{"authentication", "x509", "clientCAFile"}, "open %s: no such file or directory")
			if l.text("tlsCertFile") == "" || l.text("tlsPrivateKeyFile") == "" {
				return // one alone is not opened
			}
			l.missing(Error, "", []string{"tlsCertFile"}, "open %s: no such file or directory")
			l.missing(Error, "", []string{"tlsPrivateKeyFile"}, "open %s: no such file or directory")
		})},
		{ID: "machine-client-ca", Minds: "a `clientCAFile` in which there is no certificate, or one that is damaged", Does: Exits, Severity: Error, Alone: true, Source: "k8s.io/apiserver/pkg/server/dynamiccertificates, loadCABundle; k8s.io/client-go/util/cert, ParseCertsPEM", check: func(l *look) {
			where := []string{"authentication", "x509", "clientCAFile"}
			l.refused(where, l.path(where...), "", "name a file of PEM certificates, as ca_certificate of stage \"write\" makes one")
		}},
		{ID: "machine-serving-certificate", Minds: "a `tlsCertFile` and a `tlsPrivateKeyFile` that are none, are damaged, or are not of each other", Does: Exits, Severity: Error, Source: "pkg/kubelet/kubelet.go, NewMainKubelet; k8s.io/client-go/util/certificate/certificate_store.go; crypto/tls, X509KeyPair", check: func(l *look) {
			if key := l.path("tlsPrivateKeyFile"); key != "" && !l.signed() {
				l.refused([]string{"tlsCertFile"}, l.path("tlsCertFile"), key, "name a PEM certificate, its chain after it, and the PEM key that is its own; without both the kubelet signs a certificate for itself")
			}
		}},
		{ID: "machine-flag-path", Minds: "a folder or file that a flag names, and that is not there", Does: Exits, Severity: Error, Source: "cmd/kubelet/app/server.go, mergeKubeletConfigurations; pkg/credentialprovider/plugin", check: with((*look).flagPaths)},
		{ID: "machine-listen-address", Minds: "an `address` to listen on that is of no interface", Does: Exits, Severity: Error, Source: "pkg/kubelet/server/server.go, ListenAndServeKubeletServer", check: with(func(l *look, m *Machine) {
			listening := l.listeners()
			a, err := netip.ParseAddr(l.text("address"))
			if err == nil && len(listening) > 0 && len(m.Addresses) > 0 && !a.IsUnspecified() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !slices.Contains(m.Addresses, a.Unmap()) {
				l.field("address", "name an address of this machine, or 0.0.0.0", "listen tcp %s: bind: cannot assign requested address", netip.AddrPortFrom(a, uint16(listening[0].port)))
			}
		})},
		{ID: "machine-image-endpoint", Minds: "an `imageServiceEndpoint` of its own whose socket is not there", Does: Exits, Severity: Warning, Since: 27, Source: "pkg/kubelet/kubelet.go, PreInitRuntimeService", check: with(func(l *look, m *Machine) {
			socket := strings.TrimPrefix(l.text("imageServiceEndpoint"), "unix://")
			if !path.IsAbs(socket) || m.Exists == nil || socket == strings.TrimPrefix(l.text("containerRuntimeEndpoint"), "unix://") {
				return
			}
			// What listens there may start between prelet and the kubelet.
			if there, told := m.Exists(socket); told && !there {
				l.field("imageServiceEndpoint", "start what listens there before the kubelet, or take it out",
					"validate CRI v1 image API for endpoint %q: connect: no such file or directory, as it is now", l.text("imageServiceEndpoint"))
			}
		})},
		{ID: "machine-path-missing", Minds: "`resolvConf` or `staticPodPath` that is not there", Does: Swallows, Severity: Warning, Source: "pkg/kubelet/network/dns/dns.go; pkg/kubelet/config/file.go", check: with(func(l *look, _ *Machine) {
			l.missing(Warning, "name a file that is there; the kubelet's default is /etc/resolv.conf", []string{"resolvConf"}, "%s is not there: the kubelet runs, and pods do not start")
			l.missing(Note, "", []string{"staticPodPath"}, "%s is not there: the kubelet runs without static pods until it is")
		})},
	}
}

// flagPaths looks for what flags name.
func (l *look) flagPaths(m *Machine) {
	const says = `config-dir failed to walk through kubelet dropin directory "%s": no such file or directory
image-credential-provider-bin-dir plugin binary directory %s did not exist
image-credential-provider-config unable to access path "%s": no such file or directory`
	for line := range strings.Lines(says) {
		name, message, _ := strings.Cut(strings.TrimSpace(line), " ")
		for i, f := range l.Flags {
			last := !slices.ContainsFunc(l.Flags[i+1:], func(o Flag) bool { return o.Name == name })
			if f.Name != name || !last || m.Exists == nil || !path.IsAbs(f.Value) {
				continue
			}
			if there, told := m.Exists(f.Value); told && !there {
				l.flag(name, "make it before the kubelet starts, or take the flag out", message, f.Value)
			}
		}
	}
}

// tunables are what the kubelet wants of the kernel.
const tunables = `vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000`

// kernel compares them with those that the machine has. Where they are unknown it says what they must be.
func (l *look) kernel() {
	const field = "protectKernelDefaults"
	if !l.boolean(field, false) {
		return
	}
	if l.Machine == nil || len(l.Machine.Kernel) == 0 {
		defer func(before Severity) { l.rule.Severity = before }(l.rule.Severity)
		l.rule.Severity = Note
		l.field(field, "", "the kubelet ends where the kernel has not %s", strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(tunables, " ", "="), "\n", ", "), "/", "."))
		return
	}
	for line := range strings.Lines(tunables) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		want, _ := strconv.ParseInt(text, 10, 64)
		if have, told := l.Machine.Kernel[name]; told && have != want {
			l.field(field, "set "+strings.ReplaceAll(name, "/", ".")+"="+text+" in /etc/sysctl.d, or take protectKernelDefaults out", "invalid kernel flag: %s, expected value: %d, actual value: %d", name, want, have)
		}
	}
}

// signed says whether the kubelet may have a certificate that the cluster signed, and then takes that.
func (l *look) signed() bool {
	if !l.boolean("serverTLSBootstrap", false) {
		return false
	}
	dir := "/var/lib/kubelet/pki"
	for _, f := range l.Flags {
		if f.Name == "cert-dir" {
			dir = f.Value
		}
	}
	if l.Machine == nil || l.Machine.Exists == nil {
		return true
	}
	there, told := l.Machine.Exists(dir + "/kubelet-server-current.pem")
	return there || !told
}

// refused minds files that the kubelet would not take.
func (l *look) refused(where []string, cert, key, hint string) {
	if l.Refused == nil || !path.IsAbs(cert) {
		return
	}
	if why, told := l.Refused(cert, key); told && why != "" {
		l.at(where, hint, "%s", why)
	}
}

// path is a path of the configuration, absolute: others begin at the folder of the file, and as flags at the root, where
// systemd starts a kubelet. "" is none, or one of which that is not known.
func (l *look) path(where ...string) string {
	p, _ := l.inner(where...).(string)
	dir := l.Dir
	if !l.zeroIsUnset(strings.Join(where, ".")) {
		dir = "/"
	}
	switch {
	case p == "" || path.IsAbs(p):
		return p
	case dir == "":
		return ""
	}

	return path.Join(dir, p)
}

func (l *look) missing(s Severity, hint string, where []string, says string) {
	p := l.path(where...)
	if p == "" || l.Machine.Exists == nil {
		return
	}
	if there, told := l.Machine.Exists(p); told && !there {
		before := l.rule.Severity
		l.rule.Severity = s
		l.at(where, hint, says, p)
		l.rule.Severity = before
	}
}

// capacity compares what is kept from pods with what there is, and tells what leaves nothing.
func (l *look) capacity(m *Machine, tell func(field, name, reserved, capacity string, over bool)) {
	l.fresh()
	cpus := len(m.CPUs)
	set, err := kubelet.ParseCPUSet(l.text("reservedSystemCPUs"))
	switch {
	case err != nil || cpus == 0:
	case set.IsEmpty():
		l.compare("cpu", "", int64(cpus), strconv.Itoa(cpus), tell)
	case set.Size() >= cpus:
		tell("reservedSystemCPUs", "cpu", strconv.Itoa(set.Size()), strconv.Itoa(cpus), set.Size() > cpus)
	}

	l.fresh()
	isMoved := slices.ContainsFunc(l.Flags, func(f Flag) bool { return f.Name == "root-dir" })
	if !isMoved && l.boolean("localStorageCapacityIsolation", true) {
		l.compare("ephemeral-storage", "nodefs.available", m.DiskBytes, fmt.Sprintf("%dMi", m.DiskBytes>>20), tell)
	}

	l.fresh()
	l.compare("memory", "memory.available", m.MemoryBytes, fmt.Sprintf("%dMi", m.MemoryBytes>>20), tell)
}

// compare is capacity for one resource, and the signal whose threshold is kept from pods, too. have is 0 where it is
// unknown. What keeps most is told.
func (l *look) compare(name, signal string, have int64, capacity string, tell func(field, name, reserved, capacity string, over bool)) {
	if have == 0 {
		return
	}
	var sum, most resource.Quantity
	largest := ""
	for _, field := range []string{"kubeReserved", "systemReserved", "evictionHard"} {
		kept, ok := resource.Quantity{}, true
		if field != "evictionHard" {
			kept = l.amount(field, name)
		} else if signal != "" {
			kept, ok = l.hardAmount(signal, have)
		}
		if !ok {
			return
		}
		sum.Add(kept)
		if kept.Cmp(most) > 0 {
			largest, most = field, kept
		}
	}
	if over := sum.CmpInt64(have); over >= 0 {
		tell(largest, name, sum.String(), capacity, over > 0)
	}
}

// cgroups looks for those that are to be enforced, and for the root of pods. They stand where the driver puts them: cgroupfs at their path,
// systemd as a slice, a-b.slice inside a.slice; with cgroup v1 in every hierarchy.
func (l *look) cgroups(m *Machine) {
	roots := m.Hierarchies
	if m.Cgroup == 2 {
		roots = []string{"/sys/fs/cgroup"}
	}
	missing := func(path string) string {
		for _, root := range roots {
			if m.Exists == nil {
				break
			} else if there, told := m.Exists(root + path); told && !there {
				return root + path
			}
		}
		return ""
	}
	const hint = "let a unit make it before the kubelet starts (Slice= of its own unit makes a slice), or take "
	defer func(before Severity) { l.rule.Severity = before }(l.rule.Severity)
	if l.drives(m) == "systemd" { // which makes the slice of a unit with it, also the kubelet's own
		l.rule.Severity = Warning
	}
	for i, v := range l.list("enforceNodeAllocatable") {
		word, _ := v.(string)
		owner := strings.TrimSuffix(strings.TrimSuffix(word, "-compressible"), "-reserved")
		name := l.text(owner + "ReservedCgroup")
		if at := missing(cgroupPath(name, l.drives(m))); name != "" && at != "" {
			l.at([]string{"enforceNodeAllocatable", strconv.Itoa(i)}, hint+"the word out",
				"Failed to enforce %s Reserved Cgroup Limits on %q: the cgroup does not exist (%s)", strings.ToUpper(owner[:1])+owner[1:], name, at)
		}
	}
	root := path.Clean("/" + l.text("cgroupRoot"))
	if root == "/" {
		return
	}
	if l.drives(m) == "systemd" { // the name of a slice is made of it
		root = cgroupPath(strings.ReplaceAll(strings.ReplaceAll(root[1:], "-", "_"), "/", "-"), "systemd")
	}
	if at := missing(root); at != "" && l.boolean("cgroupsPerQOS", true) {
		l.field("cgroupRoot", hint+"cgroupRoot out", "invalid configuration: cgroup %q has some missing paths: %s", l.text("cgroupRoot"), at)
	}
}

// cgroupPath is where a cgroup stands below /sys/fs/cgroup.
func cgroupPath(name, driver string) string {
	if driver != "systemd" {
		return path.Join("/", name)
	}
	base := strings.TrimSuffix(path.Base(name), ".slice")
	out, prefix := "", ""
	for _, part := range strings.Split(base, "-") {
		prefix += part
		out += "/" + prefix + ".slice"
		prefix += "-"
	}
	return out
}
