package rules

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/world"
)

// Machine has the known facts of the kubelet's machine. A zero value is unknown.
type Machine struct {
	CPUs            []int // those that are online
	MemoryBytes     int64
	DiskBytes       int64 // the filesystem of the kubelet's folder
	NUMA            []int // the numbers of its nodes
	Addresses       []netip.Addr
	Runtime         string   // containerd, cri-o
	RuntimeVersion  string   // 1.7.2
	CgroupDriver    string   // the runtime's
	RuntimeReports  bool     // the runtime itself reported the driver, as it does to the kubelet
	NoRuntimeConfig bool     // the runtime has answered that it does not implement RuntimeConfig
	Endpoint        string   // the runtime's
	Cgroup          int      // the version, 1 or 2
	Hierarchies     []string // with cgroup v1: their roots
	Swap            *bool
	Kernel          map[string]int64 // parameters by path below /proc/sys
	// Exists reports whether a path exists. A nil function knows nothing.
	Exists func(path string) (exists, isKnown bool)
	// LookUpProgram looks a program up as the kubelet does when it starts. A nil function knows nothing.
	LookUpProgram func(path string) (p Program, isKnown bool)
	// Logind returns what decides how long a shutdown can be delayed. It is called only where a kubelet delays one. A
	// nil function knows nothing.
	Logind func() (l Logind, isKnown bool)
}

// Program is a file that the kubelet executes.
type Program struct {
	Exists  bool
	Refused string // why it cannot be executed; "" if it can
}

// Logind is what decides whether a kubelet gets the InhibitDelayMaxSec= that it needs. A kubelet that gets less writes
// 99-kubelet.conf and makes logind read it.
type Logind struct {
	Missing  bool          // systemd-logind is not installed, or masked
	Delay    time.Duration // the present one; 0: not known
	ReadOnly bool          // the folder of 99-kubelet.conf
	// Later is the last drop-in that sets the delay and is read after the kubelet's, "" for none.
	Later      string
	LaterDelay time.Duration
}

// NewMachine returns a machine as its facts and the kubelet's surroundings describe it.
func NewMachine(f *world.Facts, k world.KubeletAns) *Machine {
	m := &Machine{
		Cgroup:      k.Cgroup,
		Hierarchies: k.Hierarchies,
		Swap:        k.Swap,
		Kernel:      k.Kernel,
		DiskBytes:   k.Disk,
	}
	r := k.Runtime
	if r == nil && f != nil {
		r = &world.RuntimeAns{
			Name:     orZero(f.Runtime.Name),
			Version:  orZero(f.Runtime.Version),
			Endpoint: orZero(f.Runtime.Endpoint),
			Driver:   orZero(f.Runtime.CgroupDriver),
		}
	}
	if r != nil {
		m.Runtime = r.Name
		m.RuntimeVersion = r.Version
		m.Endpoint = r.Endpoint
		m.CgroupDriver = cmp.Or(r.Reported, r.Driver)
		m.RuntimeReports = r.Reported != ""
		m.NoRuntimeConfig = r.NoConfig
	}
	if f != nil {
		m.addFacts(f)
	}

	return m
}

func (m *Machine) addFacts(f *world.Facts) {
	m.MemoryBytes = orZero(f.Memory.TotalBytes)
	for _, core := range f.CPU.Cores {
		m.CPUs = append(m.CPUs, core.CPUs...)
	}
	slices.Sort(m.CPUs)
	for _, node := range f.NUMA {
		m.NUMA = append(m.NUMA, node.ID)
	}
	for _, nic := range f.Interfaces {
		for _, text := range slices.Concat(nic.IPv4, nic.IPv6) {
			if address, err := netip.ParseAddr(text); err == nil {
				m.Addresses = append(m.Addresses, address)
			}
		}
	}
}

func orZero[T any](p *T) T {
	if p == nil {
		var zero T

		return zero
	}

	return *p
}

// machineRules returns the rules that compare the configuration with the machine.
func machineRules() []Rule {
	const (
		containerManager = "pkg/kubelet/cm/container_manager_linux.go"
		allocatable      = "pkg/kubelet/cm/node_container_manager_linux.go"
	)

	return []Rule{
		{
			ID:      "machine-cpu-offline",
			Summary: "reserved CPUs that are not online",
			Since:   22,
			Source:  "cmd/kubelet/app/server.go, getReservedCPUs",
			check:   forMachine(checkCPUsOnline),
		},
		{
			ID:      "machine-reserved-above-capacity",
			Summary: "more reserved than the machine has",
			Source:  allocatable + ", validateNodeAllocatable",
			check:   forMachine(checkCapacity),
		},
		{
			ID:      "machine-nothing-left",
			Summary: "everything that the machine has is reserved",
			Effect:  Ignores,
			Source:  allocatable,
			check:   forMachine(checkNothingLeft),
		},
		{
			ID:      "machine-numa-node",
			Summary: "memory reserved on a NUMA node that the machine does not have",
			Since:   21,
			Source:  memoryManagerSource,
			check:   forMachine(checkNUMANodes),
		},
		{
			ID:      "machine-many-numa-nodes",
			Summary: "a topology policy on a machine with more than 8 NUMA nodes",
			Source:  "pkg/kubelet/cm/topologymanager/topology_manager.go",
			check:   forMachine(checkNUMALimit),
		},
		{
			ID:      "machine-cgroup-driver",
			Summary: "another cgroup driver than the runtime's",
			Effect:  Ignores,
			Source:  "cmd/kubelet/app/server.go, getCgroupDriverFromCRI",
			check:   forMachine(checkCgroupDriver),
		},
		{
			ID:      "machine-runtime-config",
			Summary: "a container runtime without RuntimeConfig, such as containerd 1.7: 1.38 does not start with it",
			Since:   34,
			Effect:  Ends,
			Source:  "cmd/kubelet/app/server.go, getCgroupDriverFromCRI; KEP-4033, kubernetes#136846",
			check:   forMachine(checkRuntimeConfig),
		},
		{
			ID: "machine-shutdown-delay",
			Summary: "a `shutdownGracePeriod` for which logind does not delay a shutdown, and the kubelet cannot " +
				"change that",
			Since:  21,
			Effect: Ignores,
			Source: "pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go, start; systemd/inhibit_linux.go; " +
				"kubernetes#102818",
			check: forMachine(checkShutdownDelay),
		},
		{
			ID:      "machine-cgroup-v1",
			Summary: "cgroup v1",
			Since:   31,
			Source:  validationLinux,
			check:   forMachine(checkCgroupV1),
		},
		{
			ID:      "machine-oom-cgroup-v1",
			Summary: "`singleProcessOOMKill: false` with cgroup v1",
			Since:   32,
			Source:  validationLinux,
			check:   forMachine(checkOOMKill),
		},
		{
			ID:      "machine-swap-cgroup-v1",
			Summary: "limited swap with cgroup v1",
			Since:   30,
			Source:  "cmd/kubelet/app/server.go, run",
			check:   forMachine(checkLimitedSwap),
		},
		{
			ID:      "machine-swap",
			Summary: "swap that is on",
			Source:  containerManager + ", NewContainerManager",
			check:   forMachine(checkSwap),
		},
		{
			ID:      "machine-kernel",
			Summary: "`protectKernelDefaults` with other kernel parameters than the kubelet needs",
			Source:  containerManager + ", setupKernelTunables",
			check:   checkKernel,
		},
		{
			ID:      "machine-node-ip",
			Summary: "a `--node-ip` that no interface has",
			Effect:  Ignores,
			Source:  "pkg/kubelet/kubelet_node_status.go; nodestatus.NodeAddress",
			check:   forMachine(checkNodeAddress),
		},
		{
			ID:      "machine-cgroup-missing",
			Summary: "a missing cgroup that is enforced, or the `cgroupRoot`",
			Source:  allocatable + "; pkg/kubelet/cm/cgroup_v1_manager_linux.go, Validate",
			check:   forMachine(checkCgroups),
		},
		{
			ID:      "machine-file-missing",
			Summary: "a missing certificate or key",
			Source:  "cmd/kubelet/app/server.go; pkg/kubelet/kubelet.go",
			check:   checkFiles,
		},
		{
			ID:      "machine-client-ca",
			Summary: "a `clientCAFile` without a certificate, or with a damaged one",
			Source: "k8s.io/apiserver/pkg/server/dynamiccertificates, loadCABundle; " +
				"k8s.io/client-go/util/cert, ParseCertsPEM",
			check: checkClientCA,
		},
		{
			ID:      "machine-serving-certificate",
			Summary: "a `tlsCertFile` or `tlsPrivateKeyFile` that is damaged, of another type, or of another pair",
			Source: "pkg/kubelet/kubelet.go, NewMainKubelet; " +
				"k8s.io/client-go/util/certificate/certificate_store.go; crypto/tls, X509KeyPair",
			check: checkServingCertificate,
		},
		{
			ID:      "machine-flag-path",
			Summary: "a missing folder or file of a flag",
			Source:  "cmd/kubelet/app/server.go, mergeKubeletConfigurations; pkg/credentialprovider/plugin",
			check:   checkFlagPaths,
		},
		{
			ID:      "machine-credential-plugin",
			Summary: "a credential plugin that is missing, or that cannot be executed",
			Since:   24,
			Source:  "pkg/credentialprovider/plugin/plugin.go, RegisterCredentialProviderPlugins",
			check:   checkPlugins,
		},
		{
			ID:      "machine-listen-address",
			Summary: "an `address` to listen on that no interface has",
			Source:  serverSource,
			check:   forMachine(checkBindAddress),
		},
		{
			ID:       "machine-image-endpoint",
			Summary:  "an `imageServiceEndpoint` of its own whose socket is missing",
			Since:    27,
			Severity: Warning,
			Source:   "pkg/kubelet/kubelet.go, PreInitRuntimeService",
			check:    checkImageEndpoint,
		},
		{
			ID:      "machine-path-missing",
			Summary: "a missing `resolvConf` or `staticPodPath`",
			Effect:  Ignores,
			Source:  "pkg/kubelet/network/dns/dns.go; pkg/kubelet/config/file.go",
			check:   checkPaths,
		},
	}
}

// forMachine returns a check that needs a machine and a configuration.
func forMachine(check func(*checker, *Machine)) func(*checker) {
	return func(c *checker) {
		if c.Machine != nil && c.config != nil {
			check(c, c.Machine)
		}
	}
}

func checkCPUsOnline(c *checker, m *Machine) {
	reserved, err := kubelet.ParseCPUSet(c.textAt("reservedSystemCPUs"))
	online := cpuset.New(m.CPUs...)
	if err == nil && !online.IsEmpty() && !reserved.IsSubsetOf(online) {
		c.reportField("reservedSystemCPUs",
			"name CPUs of this machine; stage \"reserve\" with topology chooses them",
			"reserved-cpus: %s is not a subset of online-cpus: %s", reserved, online)
	}
}

func checkCapacity(c *checker, m *Machine) {
	for _, r := range c.findExhausted(m) {
		if r.isExceeded {
			c.reportReservation(r, "reserve less",
				"invalid Node Allocatable configuration. Resource %q has a "+
					"reservation of %s "+
					"(evictionHard included) but capacity of %s. Expected capacity >= reservation",
				r.resource, r.amount, r.capacity)
		}
	}
}

func checkNothingLeft(c *checker, m *Machine) {
	for _, r := range c.findExhausted(m) {
		if !r.isExceeded {
			c.reportReservation(r, "reserve less: nothing is left for pods",
				"%s: %s are reserved, which is the whole capacity: the kubelet runs, and the node accepts no pod",
				r.resource, r.amount)
		}
	}
}

// reservation is a resource of which nothing is left for pods.
type reservation struct {
	resource       string
	field          string // with the largest reservation
	amount         string
	capacity       string
	isExceeded     bool
	usesUnsetField bool
}

func (c *checker) reportReservation(r reservation, hint, format string, args ...any) {
	c.usesUnsetField = r.usesUnsetField
	c.reportField(r.field, hint, format, args...)
}

// findExhausted returns the resources that are reserved completely.
func (c *checker) findExhausted(m *Machine) []reservation {
	var exhausted []reservation
	add := func(r *reservation) {
		if r != nil {
			r.usesUnsetField = c.usesUnsetField
			exhausted = append(exhausted, *r)
		}
	}

	c.startFinding()
	add(c.reservedCPUs(len(m.CPUs)))

	c.startFinding()
	_, isMoved := c.flagValue("root-dir")
	if !isMoved && c.boolAt("localStorageCapacityIsolation", true) {
		add(c.sumReservation("ephemeral-storage", "nodefs.available", m.DiskBytes))
	}

	c.startFinding()
	add(c.sumReservation("memory", "memory.available", m.MemoryBytes))

	return exhausted
}

// reservedCPUs compares the reserved CPUs with the machine's: a list of them replaces the amounts.
func (c *checker) reservedCPUs(count int) *reservation {
	list, err := kubelet.ParseCPUSet(c.textAt("reservedSystemCPUs"))
	if err != nil {
		return nil
	}
	if list.IsEmpty() {
		return c.sumReservation("cpu", "", int64(count))
	}
	if count == 0 || list.Size() < count {
		return nil
	}

	return &reservation{
		resource:   "cpu",
		field:      "reservedSystemCPUs",
		amount:     strconv.Itoa(list.Size()),
		capacity:   strconv.Itoa(count),
		isExceeded: list.Size() > count,
	}
}

// sumReservation compares the sum of all reservations of a resource with its capacity; 0: unknown. signal is that of
// its eviction threshold, if it has one.
func (c *checker) sumReservation(name, signal string, capacity int64) *reservation {
	if capacity == 0 {
		return nil
	}
	amounts := map[string]resource.Quantity{}
	for _, field := range reservedFields {
		amounts[field.name] = c.reservedAmount(field.name, name)
	}
	if signal != "" {
		threshold, isKnown := c.evictionAmount(signal, capacity)
		if !isKnown {
			return nil
		}
		amounts["evictionHard"] = threshold
	}

	var sum, largest resource.Quantity
	r := &reservation{resource: name, capacity: strconv.FormatInt(capacity, 10)}
	for _, field := range []string{"kubeReserved", "systemReserved", "evictionHard"} {
		amount := amounts[field]
		sum.Add(amount)
		if amount.Cmp(largest) > 0 {
			r.field = field
			largest = amount
		}
	}
	if sum.CmpInt64(capacity) < 0 {
		return nil
	}
	if name != "cpu" {
		r.capacity = fmt.Sprintf("%dMi", capacity>>20)
	}
	r.amount = sum.String()
	r.isExceeded = sum.CmpInt64(capacity) > 0

	return r
}

func checkNUMANodes(c *checker, m *Machine) {
	if c.textAt("memoryManagerPolicy") != "Static" || len(m.NUMA) == 0 {
		return
	}
	for i, v := range c.listAt("reservedMemory") {
		entry, _ := v.(map[string]any)
		node, isNumber := parseNumber(entry["numaNode"])
		if isNumber && !slices.Contains(m.NUMA, int(node)) {
			c.reportAt([]string{"reservedMemory", strconv.Itoa(i), "numaNode"}, "",
				"the reserved memory configuration references a NUMA node %d that does not exist on this machine",
				node)
		}
	}
}

func checkNUMALimit(c *checker, m *Machine) {
	limit, err := strconv.Atoi(c.mapAt("topologyManagerPolicyOptions")[maxNUMANodes])
	if err != nil {
		limit = 8
	}
	policy := c.textAt("topologyManagerPolicy")
	if policy != "" && policy != "none" && len(m.NUMA) > limit {
		c.reportField("topologyManagerPolicy",
			"set topologyManagerPolicyOptions: {max-allowable-numa-nodes: ...}, which exists since 1.31",
			"unsupported on machines with more than %d NUMA Nodes", limit)
	}
}

func checkCgroupV1(c *checker, m *Machine) {
	field, _ := known.FieldAt("failCgroupV1", c.minor)
	if m.Cgroup == 1 && c.boolAt("failCgroupV1", field.Default == "true") {
		c.reportField("failCgroupV1",
			"boot with systemd.unified_cgroup_hierarchy=1; failCgroupV1: false is a temporary workaround",
			"kubelet is configured to not run on a host using cgroup v1. "+
				"cgroup v1 support is unsupported and will be removed in a future release")
	}
}

func checkOOMKill(c *checker, m *Machine) {
	if m.Cgroup == 1 && !c.boolAt("singleProcessOOMKill", true) {
		c.reportField("singleProcessOOMKill", "boot with cgroup v2, or remove it",
			"invalid configuration: "+
				"singleProcessOOMKill must not be explicitly set to false when using cgroup v1")
	}
}

func checkLimitedSwap(c *checker, m *Machine) {
	const field = "memorySwap.swapBehavior"
	isLimited := c.textAt(field) == "LimitedSwap" && c.isGateOn("NodeSwap")
	if m.Cgroup == 1 && isLimited {
		c.reportField(field, "boot with cgroup v2, or remove it",
			"swap feature is enabled and LimitedSwap but it is only supported with cgroupv2")
	}
}

func checkSwap(c *checker, m *Machine) {
	if orZero(m.Swap) && c.boolAt("failSwapOn", true) {
		c.reportField("failSwapOn",
			"run swapoff -a and remove swap from fstab; or set failSwapOn: false, with memorySwap.swapBehavior",
			"running with swap on is not supported, please disable swap or set --fail-swap-on flag to false")
	}
}

// kernelParameters are those that the kubelet needs with protectKernelDefaults.
var kernelParameters = []struct {
	path  string
	value int64
}{
	{"vm/overcommit_memory", 1},
	{"vm/panic_on_oom", 0},
	{"kernel/panic", 10},
	{"kernel/panic_on_oops", 1},
	{"kernel/keys/root_maxkeys", 1000000},
	{"kernel/keys/root_maxbytes", 25000000},
}

// checkKernel compares the kernel's parameters with those that the kubelet needs. If they are unknown, a note lists the
// needed ones.
func checkKernel(c *checker) {
	const field = "protectKernelDefaults"
	if !c.isTrue(field) {
		return
	}

	var current map[string]int64
	if c.Machine != nil {
		current = c.Machine.Kernel
	}
	var settings []string
	for _, p := range kernelParameters {
		setting := fmt.Sprintf("%s=%d", strings.ReplaceAll(p.path, "/", "."), p.value)
		settings = append(settings, setting)
		if value, isKnown := current[p.path]; isKnown && value != p.value {
			c.reportField(field, "set "+setting+" in /etc/sysctl.d, or remove protectKernelDefaults",
				"invalid kernel flag: %s, expected value: %d, actual value: %d", p.path, p.value, value)
		}
	}
	if len(current) == 0 {
		c.severity = Note
		c.reportField(field, "", "the kubelet exits unless the kernel has %s", strings.Join(settings, ", "))
	}
}

func checkNodeAddress(c *checker, m *Machine) {
	value, _ := c.flagValue("node-ip")
	ips, _ := parseNodeIPs(value)
	if checkIPPair(ips) != nil || len(m.Addresses) == 0 {
		return
	}
	for _, ip := range ips {
		if !ip.IsUnspecified() && !slices.Contains(m.Addresses, ip) {
			c.reportFlag("node-ip", "",
				"no interface of this machine has %s: the kubelet runs, and the Node gets no address", ip)
		}
	}
}

func checkBindAddress(c *checker, m *Machine) {
	listeners := c.apiListeners()
	address, err := netip.ParseAddr(c.textAt("address"))
	isNothing := err != nil || len(listeners) == 0 || len(m.Addresses) == 0
	isSpecial := address.IsUnspecified() || address.IsLoopback() || address.IsLinkLocalUnicast()
	if isNothing || isSpecial || slices.Contains(m.Addresses, address.Unmap()) {
		return
	}
	c.reportField("address", "name an address of this machine, or 0.0.0.0",
		"listen tcp %s: bind: cannot assign requested address",
		netip.AddrPortFrom(address, uint16(listeners[0].Port)))
}

// exists reports whether a path exists on the machine.
func (c *checker) exists(file string) (exists, isKnown bool) {
	if c.Machine == nil || c.Machine.Exists == nil {
		return false, false
	}

	return c.Machine.Exists(file)
}

// isMissing reports whether a path certainly does not exist.
func (c *checker) isMissing(file string) bool {
	exists, isKnown := c.exists(file)

	return isKnown && !exists
}

// fileAt returns a path of the configuration as an absolute one; "" if it is not set, or relative to an unknown folder.
// Relative paths begin at the folder of the file, or of a flag at the root, where systemd starts the kubelet.
func (c *checker) fileAt(field string) string {
	file := c.textAt(field)
	dir := c.Dir
	if !c.isResolved(field) {
		dir = "/"
	}
	if file == "" || path.IsAbs(file) {
		return file
	}
	if dir == "" {
		return ""
	}

	return path.Join(dir, file)
}

// isResolved reports whether a relative path of a field begins at the folder of the configuration file. The kubelet
// resolves those of the file of --config, and neither those of drop-ins nor those of flags, which begin at its working
// directory: / for a unit.
func (c *checker) isResolved(field string) bool {
	if c.flagOf[field] != "" {
		return false
	}
	if c.File == nil {
		return true
	}
	inFile, _ := c.File.Get(kubelet.Pointer(strings.Split(field, ".")...))

	return inFile == c.valueAt(field)
}

// reportMissing reports a file of the configuration that does not exist. The message has a place for its path.
func (c *checker) reportMissing(field string, hint, format string) {
	file := c.fileAt(field)
	if file != "" && c.isMissing(file) {
		c.reportField(field, hint, format, file)
	}
}

const cannotOpen = "open %s: no such file or directory"

const clientCAField = "authentication.x509.clientCAFile"

// checkFiles reports missing files. From 1.36 on the kubelet does not open a certificate without a key.
func checkFiles(c *checker) {
	c.reportMissing(clientCAField, "relative paths begin at the folder of the configuration", cannotOpen)
	hasKey := c.hasText("tlsPrivateKeyFile")
	if hasKey || c.minor < 36 {
		c.reportMissing("tlsCertFile", "", cannotOpen)
	}
	if hasKey && c.hasText("tlsCertFile") {
		c.reportMissing("tlsPrivateKeyFile", "", cannotOpen)
	}
}

func checkPaths(c *checker) {
	c.reportMissing("resolvConf", "name an existing file; the kubelet's default is /etc/resolv.conf",
		"%s does not exist: the kubelet runs, and pods do not start")
	c.severity = Note
	c.reportMissing("staticPodPath", "",
		"%s does not exist: until it does, the kubelet runs no static pods")
}

func checkClientCA(c *checker) {
	c.reportRejected(clientCAField, "",
		"name a file of PEM certificates, as ca_certificate of stage "+
			"\"write\" creates it")
}

func checkServingCertificate(c *checker) {
	if key := c.fileAt("tlsPrivateKeyFile"); key != "" && !c.hasSignedCertificate() {
		c.reportRejected("tlsCertFile", key,
			"name a PEM certificate, followed by its chain, and its PEM key; "+
				"without both the kubelet creates a self-signed certificate")
	}
}

// reportRejected reports a certificate that the kubelet would reject.
func (c *checker) reportRejected(field string, key, hint string) {
	cert := c.fileAt(field)
	if c.CheckFile == nil || !path.IsAbs(cert) {
		return
	}
	if why, isKnown := c.CheckFile(cert, key); isKnown && why != "" {
		c.reportField(field, hint, "%s", why)
	}
}

// hasSignedCertificate reports whether the kubelet may have a certificate that the cluster signed, which it prefers.
func (c *checker) hasSignedCertificate() bool {
	if !c.isTrue("serverTLSBootstrap") {
		return false
	}
	dir, isSet := c.flagValue("cert-dir")
	if !isSet {
		dir = "/var/lib/kubelet/pki"
	}

	return !c.isMissing(dir + "/kubelet-server-current.pem")
}

func checkFlagPaths(c *checker) {
	for _, f := range []struct{ flag, message string }{
		{"config", "failed to load kubelet config file, path: %s: no such file or directory"},
		{"config-dir", "failed to walk through kubelet dropin directory \"%s\": no such file or directory"},
		{"image-credential-provider-bin-dir", "plugin binary directory %s did not exist"},
		{"image-credential-provider-config", "unable to access path \"%s\": no such file or directory"},
	} {
		file, _ := c.flagValue(f.flag)
		if path.IsAbs(file) && c.isMissing(file) {
			c.reportFlag(f.flag, "create it before the kubelet starts, or remove the flag", f.message, file)
		}
	}
}

// checkPlugins reports plugins that the kubelet does not find. Its own messages do not contain their paths.
func checkPlugins(c *checker) {
	folder, _ := c.flagValue(pluginFolderFlag)
	if !path.IsAbs(folder) || c.Machine == nil || c.Machine.LookUpProgram == nil || c.isMissing(folder) {
		return
	}

	for _, name := range c.Plugins {
		file := path.Join(folder, name)
		program, isKnown := c.Machine.LookUpProgram(file)
		switch {
		case !isKnown:
		case !program.Exists:
			c.reportFlag(pluginFolderFlag, "install it in the image, or remove its provider",
				"plugin binary executable  did not exist: %s", file)
		case program.Refused != "":
			c.reportFlag(pluginFolderFlag, "correct it in the image (chmod 0755), or remove its provider",
				"error inspecting binary executable : exec: %q: %s", file, program.Refused)
		}
	}
}

const pluginFolderFlag = "image-credential-provider-bin-dir"

// checkImageEndpoint reports a missing socket. It may appear before the kubelet starts.
func checkImageEndpoint(c *checker) {
	endpoint := c.textAt("imageServiceEndpoint")
	socket := strings.TrimPrefix(endpoint, "unix://")
	isOwn := socket != strings.TrimPrefix(c.textAt("containerRuntimeEndpoint"), "unix://")
	if isOwn && path.IsAbs(socket) && c.isMissing(socket) {
		c.reportField("imageServiceEndpoint", "start its service before the kubelet, or remove it",
			"validate CRI v1 image API for endpoint %q: connect: no such file or directory, as it is now",
			endpoint)
	}
}
