package stages

import (
	"encoding/json"
	"slices"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/tape"
)

// DropIn is a drop-in of the kubelet's configuration.
type DropIn struct {
	Path    string
	Config  map[string]any
	Refusal error // why the kubelet does not start with it; its configuration is empty then
}

// MergedConfig is the KubeletConfiguration of a kubelet's files, before its flags.
type MergedConfig struct {
	// Config is the node's configuration with the drop-ins merged over it in their order.
	Config *kubelet.Config
	// thresholds is the evictionHard of the file of --config, which has defaults.
	thresholds map[string]any
	isPreset   bool // Config has them: a drop-in was merged over them
	version    string
}

// MergeDropIns merges drop-ins over the configuration of a node, as the kubelet does. It fails for values that JSON
// cannot express.
//
// Source: cmd/kubelet/app/server.go, loadConfigFile and mergeKubeletConfigurations. With --config-dir the kubelet
// writes the file of --config out with its defaults, without empty lists, and merges drop-ins over that. So a
// drop-in adds to the default thresholds, the default of serializeImagePulls does not follow a maxParallelImagePulls
// of a drop-in, and an empty enforceNodeAllocatable becomes its default.
func MergeDropIns(
	n desired.Node,
	dropIns []DropIn,
	version string,
) (m MergedConfig, err error) {
	m = MergedConfig{Config: kubelet.NewConfig(), version: version}
	if err := m.Config.Merge(n.Config); err != nil {
		return m, err
	}
	m.thresholds = map[string]any{}
	for signal, threshold := range kubelet.EffectiveEvictionHard(m.Config, version) {
		m.thresholds[signal] = threshold
	}

	if n.FindPath("config-dir") != "" || len(dropIns) > 0 {
		m.dropEmptyList()
	}
	isSerialSet := n.Config["serializeImagePulls"] != nil
	pulls, _ := m.Config.Get("/maxParallelImagePulls")
	for _, d := range dropIns {
		if _, isSet := d.Config["evictionHard"]; isSet && !m.isPreset {
			m.isPreset = true
			_ = m.Config.Set([]string{"evictionHard"}, m.thresholds) // cannot fail: all values are texts
		}
		if _, isSet := d.Config["maxParallelImagePulls"]; isSet && !isSerialSet {
			isSerialSet = true
			number, _ := pulls.(json.Number)
			n, _ := number.Int64()
			_ = m.Config.Set([]string{"serializeImagePulls"}, n < 2)
		}
		if err := m.Config.Merge(d.Config); err != nil {
			return m, err
		}
	}

	return m, nil
}

func (m MergedConfig) dropEmptyList() {
	const field = "enforceNodeAllocatable"
	value, _ := m.Config.Get(tape.Pointer(field))
	if list, isList := value.([]any); isList && len(list) == 0 {
		_ = m.Config.Set([]string{field}, nil)
	}
}

// Effective returns the KubeletConfiguration, decoded, in which flags override the fields that they set.
func (m MergedConfig) Effective(flags []desired.Flag) map[string]any {
	s := rules.Subject{Config: m.Config, Version: m.version}
	if !m.isPreset {
		s.Config = m.Config.With("evictionHard", m.thresholds)
	}
	for _, f := range flags {
		s.Flags = append(s.Flags, kubelet.Use{Name: f.Name, Value: f.Value})
	}

	return rules.Effective(s)
}

// Amounts returns the members of a field such as kubeReserved that are texts. It leaves members of other types to the
// kubelet, which refuses them.
func Amounts(config map[string]any, field string) map[string]string {
	out := map[string]string{}
	object, _ := config[field].(map[string]any)
	for name, v := range object {
		if s, ok := v.(string); ok {
			out[name] = s
		}
	}

	return out
}

// CountPods returns how many pods a kubelet takes with an effective configuration, flags included, on a machine with so
// many CPUs. podsPerCore lowers maxPods, and a maxPods of 0 means the default unless a flag sets it.
//
// Source: pkg/kubelet/nodestatus/setters.go, MachineInfo; pkg/kubelet/apis/config/v1beta1/defaults.go.
func CountPods(config map[string]any, flags []desired.Flag, cpus int64) int64 {
	number := func(field string) (int64, bool) {
		n, ok := config[field].(json.Number)
		i, err := n.Int64()

		return i, ok && err == nil && i >= 0
	}

	pods, ok := number("maxPods")
	isFlag := slices.ContainsFunc(flags, func(f desired.Flag) bool {
		return f.Name == "max-pods"
	})
	if !ok || pods == 0 && !isFlag {
		pods = kubelet.DefaultMaxPods
	}
	perCore, _ := number("podsPerCore")
	if perCore > 0 && perCore < pods { // larger ones could overflow the product
		pods = min(pods, perCore*cpus)
	}

	return pods
}

// ReadReserved returns the part of a kubelet's reservation that is in its effective configuration and flags.
func ReadReserved(config map[string]any, flags []desired.Flag, cpus int64) *desired.Reserved {
	r := &desired.Reserved{
		Kube:         Amounts(config, "kubeReserved"),
		System:       Amounts(config, "systemReserved"),
		EvictionHard: kubelet.EvictionHardOf(config),
		MaxPods:      int(CountPods(config, flags, cpus)),
	}
	r.CPUs, _ = config["reservedSystemCPUs"].(string)
	if r.CPUs != "" { // the kubelet ignores the amounts: cmd/kubelet/app/server.go, run
		delete(r.Kube, "cpu")
		delete(r.System, "cpu")
	}

	return r
}
