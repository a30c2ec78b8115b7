package rules

import (
	"cmp"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// isOtherDriver compares the kubelet's cgroup driver with the runtime's.
func isOtherDriver(v value) bool {
	m := v.Machine
	driver := v.textOf("cgroupDriver")
	asksRuntime := v.isGateOn("KubeletCgroupDriverFromCRI")
	isEqual := m.CgroupDriver == "" || m.CgroupDriver == driver
	if isEqual || asksRuntime && m.reportsDriver() || v.usesOtherRuntime() {
		return false
	}

	unless := ""
	if asksRuntime && m.RuntimeVersion == "" {
		if isSet, _ := v.valueAt("cgroupDriver").(string); isSet == "" { // else somebody has chosen it
			v.severity = Note
		}
		unless = ", unless the runtime reports its driver (containerd from 2.0, CRI-O from 1.28, to a kubelet " +
			"from 1.31)"
	}
	// With systemd, runc accepts only slice:prefix:name; with cgroupfs it accepts that as a path, too.
	// Source: runc, libcontainer/specconv, CreateCgroupConfig.
	effect := "no pod starts"
	if driver == "systemd" && m.Runtime != "cri-o" {
		effect = "pods run outside of the cgroups that it creates and limits"
	}

	return v.because("set cgroupDriver: "+m.CgroupDriver,
		"the runtime's cgroup driver is %s, the kubelet's is %s: the kubelet runs, and %s%s",
		m.CgroupDriver, driver, effect, unless)
}

// lacksRuntimeConfig reports a runtime from which a kubelet cannot learn the cgroup driver, by its own answer or by its
// version. The fallback to the kubelet's own cgroupDriver is announced to end with 1.38.
func lacksRuntimeConfig(v value) bool {
	m := v.Machine
	v.why = strings.TrimSpace(cmp.Or(m.Runtime, "the container runtime") + " " + m.RuntimeVersion)
	isChecked := m.Runtime == "containerd" || m.Runtime == "cri-o"
	isOld := isChecked && isAtLeast(m.RuntimeVersion, "0.0") && !m.reportsDriver()

	return !m.RuntimeReports && (m.NoRuntimeConfig || isOld) && !v.usesOtherRuntime()
}

// usesOtherRuntime reports whether the kubelet uses another runtime than the machine's known one.
func (c *checker) usesOtherRuntime() bool {
	endpoint, _ := c.valueAt("containerRuntimeEndpoint").(string)
	endpoint = cmp.Or(c.given["container-runtime-endpoint"], endpoint)
	areKnown := endpoint != "" && c.Machine.Endpoint != ""

	return areKnown && cleanEndpoint(endpoint) != cleanEndpoint(c.Machine.Endpoint)
}

func cleanEndpoint(endpoint string) string {
	return strings.Replace(strings.TrimPrefix(endpoint, "unix://"), "/var/run/", "/run/", 1)
}

// effectiveDriver returns the driver that the kubelet will use: the runtime's if the kubelet can get it from the
// runtime.
func (c *checker) effectiveDriver() string {
	m := c.Machine
	mayReport := m.CgroupDriver != "" && (m.reportsDriver() || m.RuntimeVersion == "")
	if mayReport && c.isGateOn("KubeletCgroupDriverFromCRI") && !c.usesOtherRuntime() {
		return m.CgroupDriver
	}

	return c.textOf("cgroupDriver")
}

// reportsDriver reports whether the runtime certainly reports its driver. The version of most runtimes is unknown until
// they run.
func (m *MachineFacts) reportsDriver() bool {
	switch {
	case m.RuntimeReports:
		return true
	case m.Runtime == "containerd":
		return isAtLeast(m.RuntimeVersion, "2.0")
	case m.Runtime == "cri-o":
		return isAtLeast(m.RuntimeVersion, "1.28")
	}

	return false
}

func isAtLeast(text, least string) bool {
	v, err := version.ParseGeneric(text)

	return err == nil && v.AtLeast(version.MustParseGeneric(least))
}

func lacksEnforcedCgroup(v value) bool {
	owner := findOwner(v.text())
	cgroup := v.textOf(owner + "ReservedCgroup")
	if owner == "" || cgroup == "" {
		return false
	}
	missing := v.findMissingCgroup(cgroup)

	return missing != "" && v.because("",
		"Failed to enforce %s Reserved Cgroup Limits on %q: the cgroup does not exist (%s)",
		capitalize(owner), cgroup, missing)
}

func lacksCgroupRoot(v value) bool {
	root := path.Clean("/" + v.text())
	if root == "/" || !v.isOn("cgroupsPerQOS") {
		return false
	}
	if v.effectiveDriver() == "systemd" { // it derives the name of a slice from the path
		root = strings.NewReplacer("-", "_", "/", "-").Replace(root[1:])
	}
	v.why = v.findMissingCgroup(root)

	return v.why != ""
}

// findMissingCgroup returns the folder of a cgroup that does not exist: with cgroup v1 the first one of all
// hierarchies.
func (c *checker) findMissingCgroup(name string) string {
	driver := c.effectiveDriver()
	if driver == "systemd" { // it creates the slice of a unit, also the kubelet's own
		c.severity = Warning
	}
	roots := c.Machine.Hierarchies
	if c.Machine.Cgroup == 2 {
		roots = []string{"/sys/fs/cgroup"}
	}
	for _, root := range roots {
		if folder := root + cgroupPath(name, driver); c.isMissing(folder) {
			return folder
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
