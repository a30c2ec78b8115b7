package rules

import (
	"cmp"
	"fmt"
	"path"
	"strings"
)

// checkCgroupDriver compares the kubelet's cgroup driver with the runtime's.
func checkCgroupDriver(c *checker, m *Machine) {
	driver := cmp.Or(c.textAt("cgroupDriver"), "cgroupfs")
	asksRuntime := c.isGateOn("KubeletCgroupDriverFromCRI")
	isEqual := m.CgroupDriver == "" || m.CgroupDriver == driver
	isReported := asksRuntime && m.reportsDriver()
	if isEqual || isReported || c.usesOtherRuntime(m) {
		return
	}

	unless := ""
	if asksRuntime && m.RuntimeVersion == "" {
		c.severity = Note
		unless = ", unless the runtime reports its driver (containerd from 2.0, CRI-O from 1.28, to a kubelet " +
			"from 1.31)"
	}
	// With systemd, runc accepts only slice:prefix:name; with cgroupfs it accepts that as a path, too.
	// Source: runc, libcontainer/specconv, CreateCgroupConfig.
	effect := "no pod starts"
	if driver == "systemd" && m.Runtime != "cri-o" {
		effect = "pods run outside of the cgroups that it creates and limits"
	}
	c.reportField("cgroupDriver", "set cgroupDriver: "+m.CgroupDriver,
		"the runtime's cgroup driver is %s, the kubelet's is %s: the kubelet runs, and %s%s",
		m.CgroupDriver, driver, effect, unless)
}

// checkRuntimeConfig reports a runtime from which a kubelet cannot learn the cgroup driver. The fallback to the
// kubelet's own cgroupDriver is announced to end with 1.38.
func checkRuntimeConfig(c *checker, m *Machine) {
	if !m.lacksRuntimeConfig() || c.usesOtherRuntime(m) {
		return
	}

	name := strings.TrimSpace(cmp.Or(m.Runtime, "the container runtime") + " " + m.RuntimeVersion)
	c.reportField("containerRuntimeEndpoint", "update the runtime: containerd 2.0, CRI-O 1.28, or newer",
		"%s does not implement RuntimeConfig: kubelets up to 1.37 use the cgroupDriver of their configuration "+
			"instead, and a kubelet from 1.38 on exits", name)
}

// lacksRuntimeConfig reports whether the runtime certainly does not implement RuntimeConfig, by its own answer or by
// its version.
func (m *Machine) lacksRuntimeConfig() bool {
	isVersionKnown := isAtLeast(m.RuntimeVersion, 0, 0)
	isJudged := m.Runtime == "containerd" || m.Runtime == "cri-o"

	return !m.RuntimeReports && (m.NoRuntimeConfig || isVersionKnown && isJudged && !m.reportsDriver())
}

// usesOtherRuntime reports whether the kubelet uses another runtime than the machine's known one.
func (c *checker) usesOtherRuntime(m *Machine) bool {
	endpoint := c.textAt("containerRuntimeEndpoint")
	if value, ok := c.flagValue("container-runtime-endpoint"); ok {
		endpoint = value
	}

	areKnown := endpoint != "" && m.Endpoint != ""

	return areKnown && cleanEndpoint(endpoint) != cleanEndpoint(m.Endpoint)
}

func cleanEndpoint(endpoint string) string {
	return strings.Replace(strings.TrimPrefix(endpoint, "unix://"), "/var/run/", "/run/", 1)
}

// effectiveDriver returns the driver that the kubelet will use: the runtime's if the kubelet can get it from the
// runtime.
func (c *checker) effectiveDriver(m *Machine) string {
	driver := cmp.Or(c.textAt("cgroupDriver"), "cgroupfs")
	mayReport := m.CgroupDriver != "" && (m.reportsDriver() || m.RuntimeVersion == "")
	if mayReport && c.isGateOn("KubeletCgroupDriverFromCRI") && !c.usesOtherRuntime(m) {
		driver = m.CgroupDriver
	}

	return driver
}

// reportsDriver reports whether the runtime certainly reports its driver. The version of most runtimes is unknown until
// they run.
func (m *Machine) reportsDriver() bool {
	switch {
	case m.RuntimeReports:
		return true
	case m.Runtime == "containerd":
		return isAtLeast(m.RuntimeVersion, 2, 0)
	case m.Runtime == "cri-o":
		return isAtLeast(m.RuntimeVersion, 1, 28)
	}

	return false
}

func isAtLeast(version string, minMajor, minMinor int) bool {
	var major, minor int
	n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &minor)
	isNewer := major > minMajor || major == minMajor && minor >= minMinor

	return n == 2 && isNewer
}

const cgroupHint = "create it with a unit before the kubelet starts (Slice= of its own unit creates a slice), " +
	"or remove "

// checkCgroups reports missing cgroups: enforced ones, and the root of pods.
func checkCgroups(c *checker, m *Machine) {
	driver := c.effectiveDriver(m)
	if driver == "systemd" { // it creates the slice of a unit, also the kubelet's own
		c.severity = Warning
	}

	for i, v := range c.listAt(enforcementField) {
		word, _ := v.(string)
		owner := findOwner(word)
		cgroup := c.textAt(owner + "ReservedCgroup")
		if owner == "" || cgroup == "" {
			continue
		}
		if missing := c.findMissingCgroup(m, cgroupPath(cgroup, driver)); missing != "" {
			c.reportElement(enforcementField, i, cgroupHint+"the word",
				"Failed to enforce %s Reserved Cgroup Limits on %q: the cgroup does not exist (%s)",
				capitalize(owner), cgroup, missing)
		}
	}

	root := path.Clean("/" + c.textAt("cgroupRoot"))
	if root == "/" || !c.boolAt("cgroupsPerQOS", true) {
		return
	}
	if driver == "systemd" { // it derives the name of a slice from the path
		slice := strings.NewReplacer("-", "_", "/", "-").Replace(root[1:])
		root = cgroupPath(slice, driver)
	}
	if missing := c.findMissingCgroup(m, root); missing != "" {
		c.reportField("cgroupRoot", cgroupHint+"cgroupRoot",
			"invalid configuration: cgroup %q has some missing paths: %s", c.textAt("cgroupRoot"), missing)
	}
}

// findMissingCgroup returns the folder of a cgroup that does not exist: with cgroup v1 the first one of all
// hierarchies.
func (c *checker) findMissingCgroup(m *Machine, cgroup string) string {
	roots := m.Hierarchies
	if m.Cgroup == 2 {
		roots = []string{"/sys/fs/cgroup"}
	}
	for _, root := range roots {
		if c.isMissing(root + cgroup) {
			return root + cgroup
		}
	}

	return ""
}

// cgroupPath returns where a driver puts a cgroup below the root of a hierarchy. systemd puts a-b.slice into a.slice.
func cgroupPath(name, driver string) string {
	if driver != "systemd" {
		return path.Join("/", name)
	}
	slice := strings.TrimSuffix(path.Base(name), ".slice")
	folder := ""
	prefix := ""
	for _, part := range strings.Split(slice, "-") {
		prefix += part
		folder += "/" + prefix + ".slice"
		prefix += "-"
	}

	return folder
}
