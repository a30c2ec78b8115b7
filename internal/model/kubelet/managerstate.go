package kubelet

import (
	"cmp"
	"fmt"
	"slices"
)

// ManagerState is a file in which one of the kubelet's managers stores its policy. With another policy, or other
// reserved CPUs or memory, the kubelet does not start until the file is removed.
type ManagerState struct {
	Path      string
	Policy    string   // field of the configuration
	Flag      string   // overrides the field
	ByDefault string   // the policy where none is set
	others    []string // further fields that the state depends on
}

func ManagerStates() []ManagerState {
	return []ManagerState{
		{
			Path:      "/var/lib/kubelet/cpu_manager_state",
			Policy:    "cpuManagerPolicy",
			Flag:      "cpu-manager-policy",
			ByDefault: "none",
			others:    []string{"cpuManagerPolicyOptions", "reservedSystemCPUs", "kubeReserved", "systemReserved"},
		},
		{
			Path:      "/var/lib/kubelet/memory_manager_state",
			Policy:    "memoryManagerPolicy",
			Flag:      "memory-manager-policy",
			ByDefault: "None",
			others:    []string{"reservedMemory"},
		},
	}
}

// IsManagerState reports whether a path is that of a state file of the kubelet's managers.
func IsManagerState(path string) bool {
	return slices.ContainsFunc(ManagerStates(), func(m ManagerState) bool {
		return m.Path == path
	})
}

// ManagerPolicies returns the state files of the managers that are on in a configuration, by path, each with the policy
// and the fields that it depends on; nil for none.
func ManagerPolicies(config map[string]any) map[string]string {
	var out map[string]string
	for _, m := range ManagerStates() {
		policy := m.FindPolicy(config)
		if policy == m.ByDefault {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[m.Path] = policy
		for _, field := range m.others {
			if config[field] != nil {
				out[m.Path] += fmt.Sprintf(" %s=%v", field, config[field])
			}
		}
	}

	return out
}

// FindPolicy returns the policy of a configuration.
func (m ManagerState) FindPolicy(config map[string]any) string {
	policy, _ := config[m.Policy].(string)

	return cmp.Or(policy, m.ByDefault)
}

// ListChanges returns the fields of a state that change.
func (m ManagerState) ListChanges(old, planned map[string]any) (changed []string) {
	if m.FindPolicy(old) != m.FindPolicy(planned) {
		changed = append(changed, m.Policy)
	}
	if m.FindPolicy(planned) == m.ByDefault {
		return changed // the state of a manager that is off has no other field
	}
	for _, field := range m.others {
		if fmt.Sprint(old[field]) != fmt.Sprint(planned[field]) {
			changed = append(changed, field)
		}
	}

	return changed
}
