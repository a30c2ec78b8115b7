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

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/tape"
)

// MachineFacts are the known facts of the kubelet's machine. A zero value is unknown.
type MachineFacts struct {
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
	// Logind returns logind's limit for the delay of a shutdown. It is called only for a kubelet that delays one. If it
	// is nil, the limit is unknown.
	Logind func() (l Logind, isKnown bool)
}

// Program is a file that the kubelet executes.
type Program struct {
	Exists  bool
	Refused string // why it cannot be executed; "" if it can
}

// Logind has the state of logind that limits the delay of a shutdown. A kubelet that needs a longer InhibitDelayMaxSec=
// writes 99-kubelet.conf and makes logind read it.
type Logind struct {
	Missing  bool          // systemd-logind is not installed, or masked
	Delay    time.Duration // the present one; 0: not known
	ReadOnly bool          // the folder of 99-kubelet.conf
	// Later is the last drop-in that sets the delay and is read after the kubelet's, "" for none.
	Later      string
	LaterDelay time.Duration
}

// NewMachine returns a machine as its facts and the kubelet's surroundings describe it.
func NewMachine(f *tape.Facts, k tape.KubeletAns) *MachineFacts {
	m := &MachineFacts{
		Cgroup:      k.Cgroup,
		Hierarchies: k.Hierarchies,
		Swap:        k.Swap,
		Kernel:      k.Kernel,
		DiskBytes:   k.Disk,
	}
	r := k.Runtime
	if r == nil && f != nil {
		r = &tape.RuntimeAns{
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

func (m *MachineFacts) addFacts(f *tape.Facts) {
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

const pluginFolderFlag = "image-credential-provider-bin-dir"

// ProvidersFlag is the flag for the configuration of image credential providers.
const ProvidersFlag = "image-credential-provider-config"

func areOffline(v value) bool {
	reserved, err := kubelet.ParseCPUSet(v.text())
	online := cpuset.New(v.Machine.CPUs...)

	return err == nil && !online.IsEmpty() && !reserved.IsSubsetOf(online) &&
		v.because("", "reserved-cpus: %s is not a subset of online-cpus: %s", reserved, online)
}

// reservation is a resource of which nothing is left for pods.
type reservation struct {
	resource   string
	field      string // with the largest reservation
	amount     string
	capacity   string
	isExceeded bool
}

// reportExcess and reportNothingLeft report the resources of which more, or exactly as much, is reserved as there is.
func reportExcess(c *checker) {
	c.reportExhausted(true, "reserve less", "invalid Node Allocatable configuration. Resource %q has a "+
		"reservation of %s (evictionHard included) but capacity of %s. Expected capacity >= reservation")
}

func reportNothingLeft(c *checker) {
	c.reportExhausted(false, "reserve less: nothing is left for pods", "%[1]s: %[2]s are reserved, which is the "+
		"whole capacity: the kubelet runs, and the node accepts no pod")
}

// reportExhausted reports the resources that are reserved completely, or more than that. The message has places for a
// resource, its reservation, and its capacity.
func (c *checker) reportExhausted(isExceeded bool, hint, message string) {
	report := func(r *reservation) {
		if r != nil && r.isExceeded == isExceeded {
			c.report(r.field, hint, message, r.resource, r.amount, r.capacity)
		}
		c.startViolation()
	}

	report(c.reservedCPUs(len(c.Machine.CPUs)))
	report(c.sumReservation("memory", "memory.available", c.Machine.MemoryBytes))
	if !c.maySet("root-dir") && (c.minor < 25 || c.isOn("localStorageCapacityIsolation")) {
		report(c.sumReservation("ephemeral-storage", "nodefs.available", c.Machine.DiskBytes))
	}
}

// reservedCPUs compares the reserved CPUs with the machine's: a list of them replaces the amounts.
func (c *checker) reservedCPUs(count int) *reservation {
	list, err := kubelet.ParseCPUSet(c.textOf("reservedSystemCPUs"))
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
	threshold, isKnown := c.evictionAmount(signal, capacity)
	if capacity == 0 || !isKnown {
		return nil
	}
	kube, system := c.reservedAmount("kubeReserved", name), c.reservedAmount("systemReserved", name)
	amounts := []resource.Quantity{kube, system, threshold}

	var sum, largest resource.Quantity
	r := &reservation{resource: name, capacity: strconv.FormatInt(capacity, 10)}
	for i, field := range []string{"kubeReserved", "systemReserved", "evictionHard"} {
		sum.Add(amounts[i])
		if amounts[i].Cmp(largest) > 0 {
			r.field = field
			largest = amounts[i]
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

func isOtherNode(v value) bool {
	node, isNumber := v.number()

	return isNumber && len(v.Machine.NUMA) > 0 && !slices.Contains(v.Machine.NUMA, int(node))
}

func hasManyNodes(v value) bool {
	text, _ := v.lookUp("topologyManagerPolicyOptions", maxNUMANodes).(string)
	limit, err := strconv.Atoi(text)
	if err != nil {
		limit = 8
	}
	v.why = strconv.Itoa(limit)

	return len(v.Machine.NUMA) > limit
}

func isCgroupV1(v value) bool { return v.Machine.Cgroup == 1 }

func isSwapOn(v value) bool { return orZero(v.Machine.Swap) }

// reportKernel compares the kernel's parameters with those that the kubelet needs. If they are unknown, a note lists
// the needed ones.
func reportKernel(c *checker) {
	const field = "protectKernelDefaults"
	if !c.isOn(field) {
		return
	}

	needed := []string{
		"vm.overcommit_memory=1",
		"vm.panic_on_oom=0",
		"kernel.panic=10",
		"kernel.panic_on_oops=1",
		"kernel.keys.root_maxkeys=1000000",
		"kernel.keys.root_maxbytes=25000000",
	}
	for _, setting := range needed {
		name, want, _ := strings.Cut(setting, "=")
		file := strings.ReplaceAll(name, ".", "/")
		if got, isKnown := c.Machine.Kernel[file]; isKnown && strconv.FormatInt(got, 10) != want {
			c.report(field, "set "+setting+" in /etc/sysctl.d, or remove protectKernelDefaults",
				"invalid kernel flag: %s, expected value: %s, actual value: %d", file, want, got)
		}
	}
	if len(c.Machine.Kernel) == 0 {
		c.severity = Note
		c.report(field, "", "the kubelet exits unless the kernel has %s", strings.Join(needed, ", "))
	}
}

func hasNoInterface(v value) bool {
	ips, _ := parseNodeIPs(v.text())
	if checkIPPair(ips) != nil || len(v.Machine.Addresses) == 0 {
		return false
	}
	var missing []string
	for _, ip := range ips {
		if !ip.IsUnspecified() && !slices.Contains(v.Machine.Addresses, ip) {
			missing = append(missing, ip.String())
		}
	}

	return len(missing) > 0 && v.because("", "%s", strings.Join(missing, ", "))
}

// isOtherMachines reports whether no interface has the address to listen on.
func isOtherMachines(v value) bool {
	listeners := v.apiListeners()
	address, err := netip.ParseAddr(v.text())
	isNothing := err != nil || len(listeners) == 0 || len(v.Machine.Addresses) == 0
	isSpecial := address.IsUnspecified() || address.IsLoopback() || address.IsLinkLocalUnicast()
	if isNothing || isSpecial || slices.Contains(v.Machine.Addresses, address.Unmap()) {
		return false
	}

	return v.because("", "%s", netip.AddrPortFrom(address, uint16(listeners[0].Port)))
}

func (c *checker) exists(file string) (exists, isKnown bool) {
	if c.Machine.Exists == nil {
		return false, false
	}

	return c.Machine.Exists(file)
}

// isMissing reports whether a path certainly does not exist.
func (c *checker) isMissing(file string) bool {
	exists, isKnown := c.exists(file)

	return isKnown && !exists
}

// isMissingPath reports whether the path of a flag certainly does not exist.
func isMissingPath(v value) bool {
	v.hint = "create it before the kubelet starts, or remove the flag"

	return path.IsAbs(v.text()) && v.isMissing(v.text())
}

// isMissingFile reports whether the file of a field certainly does not exist.
func isMissingFile(v value) bool {
	v.why = v.fileAt(strings.Join(v.path, "."))

	return v.why != "" && v.isMissing(v.why)
}

func lacksStaticPods(v value) bool {
	v.severity = Note

	return isMissingFile(v)
}

// fileAt returns a path of the configuration as an absolute one; "" if it is not set, or relative to an unknown folder.
// Relative paths begin at the folder of the file, or of a flag at the root, where systemd starts the kubelet.
func (c *checker) fileAt(field string) string {
	file, _ := c.valueAt(field).(string)
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
	inFile, _ := c.File.Get(tape.Pointer(strings.Split(field, ".")...))

	return inFile == c.valueAt(field)
}

// isHalfPair reports a serving certificate without its key, or the reverse.
func isHalfPair(v value) bool {
	other := "tlsCertFile"
	if v.key() == other {
		other = "tlsPrivateKeyFile"
	}

	return hasText(v) && !v.has(other) && v.because("set both or none", "{field} is set without %s", other)
}

// loadsServingPair reports whether the kubelet loads both files although the cluster may sign its certificate.
func loadsServingPair(v value) bool { return v.minor < 36 || !v.isOn("serverTLSBootstrap") }

func isBadServingPair(v value) bool {
	key := v.fileAt("tlsPrivateKeyFile")

	isPreferred := v.minor >= 36 && v.hasSignedCertificate() // an older one loads the files all the same
	return key != "" && !isPreferred && v.isRejected(key)
}

// isRejected reports whether the kubelet would reject a certificate.
func (v value) isRejected(key string) bool {
	cert := v.fileAt(strings.Join(v.path, "."))
	if v.CheckFile == nil || !path.IsAbs(cert) {
		return false
	}
	why, isKnown := v.CheckFile(cert, key)

	return isKnown && why != "" && v.because("", "%s", why)
}

// hasSignedCertificate reports whether the kubelet may have a certificate that the cluster signed, which it prefers.
func (c *checker) hasSignedCertificate() bool {
	if !c.isOn("serverTLSBootstrap") {
		return false
	}
	dir := cmp.Or(c.given["cert-dir"], "/var/lib/kubelet/pki")
	if c.given["cert-dir"] == "" && c.maySet("cert-dir") {
		return true
	}

	return !c.isMissing(dir + "/kubelet-server-current.pem")
}

// reportPlugins reports plugins that the kubelet does not find. Its own messages do not contain their paths.
func reportPlugins(c *checker) {
	folder := c.given[pluginFolderFlag]
	if c.PluginsRefused != "" && folder != "" {
		c.report("--"+ProvidersFlag, "correct the file, or remove both flags", "%s", c.PluginsRefused)
		return
	}
	if !path.IsAbs(folder) || c.Machine.LookUpProgram == nil || c.isMissing(folder) {
		return
	}

	for _, name := range c.Plugins {
		file := path.Join(folder, name)
		program, isKnown := c.Machine.LookUpProgram(file)
		switch {
		case !isKnown:
		case !program.Exists:
			c.report("--"+pluginFolderFlag, "install it in the image, or remove its provider",
				"plugin binary executable  did not exist: %s", file)
		case program.Refused != "":
			c.report("--"+pluginFolderFlag, "correct it in the image (chmod 0755), or remove its provider",
				"error inspecting binary executable : exec: %q: %s", file, program.Refused)
		}
	}
}

// isBadClientCA reports whether the kubelet would reject a file of CAs.
func isBadClientCA(v value) bool { return v.isRejected("") }

// lacksSocket reports a missing socket. It may appear before the kubelet starts.
func lacksSocket(v value) bool {
	socket := strings.TrimPrefix(v.text(), "unix://")
	isOwn := socket != strings.TrimPrefix(v.textOf("containerRuntimeEndpoint"), "unix://")

	return isOwn && path.IsAbs(socket) && v.isMissing(socket)
}

// isOtherSocket reports a missing socket of the runtime where the machine is configured for another one. At boot a
// runtime may not have started yet, so a missing socket alone says nothing.
func isOtherSocket(v value) bool {
	socket := cleanEndpoint(v.text())

	return v.usesOtherRuntime() && path.IsAbs(socket) && v.isMissing(socket) && v.because("", "%s", v.Machine.Endpoint)
}
