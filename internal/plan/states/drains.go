package states

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/plan/hostfiles"
)

// Drains returns why the node must be drained before its kubelet is restarted with the planned files. A change whose
// effect on the configuration is not known counts.
func (c *Change) Drains() (why []string) {
	isComputed := false
	for _, f := range c.files {
		isOwn := f.Purpose == "kubelet-config" || f.Purpose == "kubelet-flags"
		isConfig := c.config != nil && f.Path == c.config.Path
		switch {
		case !f.Changes:
		case (isOwn || isConfig) && (f.Old.Private || f.Old.Uncompared != ""):
			why = append(why, f.Path+" changes, and what it changes is not known")
		case isOwn || isConfig:
			isComputed = true
		case c.maySetMore(f):
			why = append(why, f.Path+" changes, and may set anything of the kubelet")
		}
	}
	if isComputed {
		why = append(why, ListDrains(c.old(), c.planned())...)
	}

	return why
}

// maySetMore reports whether the kubelet or its unit may find flags or fields in a file of the site: in a drop-in of
// the configuration or of the unit, or in a file of environment variables.
func (c *Change) maySetMore(f PlannedFile) bool {
	isDropIn := path.Ext(f.Path) == ".conf" && path.Dir(f.Path) == c.node.FindPath("config-dir")
	isOfUnit := slices.ContainsFunc(hostfiles.ListUnitFiles(c.node), func(u desired.File) bool {
		return u.Path == f.Path
	})
	isEnvironment := slices.Contains(c.node.UnitFiles, f.Path)

	return f.Purpose == "file" && (isDropIn || isOfUnit || isEnvironment)
}

// ListDrains returns the fields of the kubelet's configuration whose change needs a drained node, with both values.
// The kubelet admits running pods again when it starts: it rejects those that no longer fit, and does not move the
// others to another runtime, cgroup or policy. Each field is judged alone, so a change more is never a reason less.
func ListDrains(old, planned map[string]any) (why []string) {
	for _, f := range settledFields() {
		was, is := readText(old, f.name, f.byDefault), readText(planned, f.name, f.byDefault)
		if was != is {
			why = append(why, describeChange(f.name, was, is))
		}
	}
	for _, f := range []field{{"maxPods", "110"}, {"podsPerCore", "0"}} {
		was, is := readText(old, f.name, f.byDefault), readText(planned, f.name, f.byDefault)
		if isLower(was, is) {
			why = append(why, describeChange(f.name, was, is))
		}
	}
	for _, name := range []string{"kubeReserved", "systemReserved"} {
		why = append(why, listRaised(name, readAmounts(old[name]), readAmounts(planned[name]))...)
	}

	return append(why, listRaised("evictionHard", kubelet.EvictionHardOf(old), kubelet.EvictionHardOf(planned))...)
}

// field is a field of the configuration with the value of a kubelet that does not set it.
type field struct{ name, byDefault string }

// settledFields are fields by which a pod is placed when it starts.
func settledFields() []field {
	return []field{
		{"cgroupDriver", "cgroupfs"},
		{"cgroupRoot", ""},
		{"cgroupsPerQOS", "true"},
		{"containerRuntimeEndpoint", "unix:///run/containerd/containerd.sock"},
		{"cpuManagerPolicy", "none"},
		{"cpuManagerPolicyOptions", ""},
		{"memoryManagerPolicy", "None"},
		{"reservedMemory", ""},
		{"reservedSystemCPUs", ""},
		{"topologyManagerPolicy", "none"},
		{"topologyManagerPolicyOptions", ""},
		{"topologyManagerScope", "container"},
	}
}

// readText returns the value of a field as text.
func readText(config map[string]any, name, byDefault string) string {
	if config[name] == nil {
		return byDefault
	}

	return cmp.Or(fmt.Sprint(config[name]), byDefault)
}

// readAmounts returns the amounts of a field by resource.
func readAmounts(value any) map[string]string {
	out := map[string]string{}
	object, _ := value.(map[string]any)
	for resource, amount := range object {
		out[resource] = fmt.Sprint(amount)
	}

	return out
}

// isLower reports whether a limit of pods becomes lower. 0 means unlimited.
func isLower(old, planned string) bool {
	was, err := strconv.ParseFloat(old, 64)
	is, failed := strconv.ParseFloat(planned, 64)
	if err != nil || failed != nil {
		return old != planned
	}

	return is > 0 && (was <= 0 || is < was)
}

// listRaised returns the amounts of a field that are raised, sorted. Amounts that cannot be compared, such as a
// percentage with a quantity, count as raised.
func listRaised(name string, old, planned map[string]string) (why []string) {
	for _, resource := range slices.Sorted(maps.Keys(planned)) {
		was, is := old[resource], planned[resource]
		if isRaised(was, is) {
			why = append(why, describeChange(name+"."+resource, was, is))
		}
	}

	return why
}

func isRaised(old, planned string) bool {
	if old == planned || kubelet.IsThresholdOff(planned) {
		return false
	}
	is, isPercent, err := kubelet.ParsePercentage(planned)
	was, wasPercent, failed := kubelet.ParsePercentage(cmp.Or(old, "0%"))
	if isPercent && wasPercent {
		return err != nil || failed != nil || is > was
	}

	amount, err := kubelet.ParseQuantity(planned)
	before, failed := kubelet.ParseQuantity(cmp.Or(old, "0"))

	return err != nil || failed != nil || amount.Cmp(before) > 0
}

func describeChange(name, was, is string) string {
	if strings.ContainsAny(was+is, "[{") { // a list or an object
		return name + " changes"
	}

	return fmt.Sprintf("%s becomes %s, was %s", name, cmp.Or(is, "empty"), cmp.Or(was, "empty"))
}
