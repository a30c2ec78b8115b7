package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/world"
)

func yes() *bool { b := true; return &b }

func exists(paths ...string) func(string) (bool, bool) {
	return func(p string) (bool, bool) { return slices.Contains(paths, p), true }
}

// single is a machine of four CPUs and 8 GiB.
func single() *Machine {
	return &Machine{
		CPUs:        []int{0, 1, 2, 3},
		MemoryBytes: 8 << 30,
		NUMA:        []int{0},
		Addresses:   []netip.Addr{netip.MustParseAddr("198.51.100.7")},
		Cgroup:      2,
	}
}

func with(f func(*Machine)) *Machine {
	m := single()
	f(m)
	return m
}

// pluginFlags names a folder in which the kubelet looks for credential plugins.
var pluginFlags = []Flag{
	{"image-credential-provider-config", "/etc/kubernetes/providers.yaml"},
	{"image-credential-provider-bin-dir", "/opt/bin"},
}

// plugin is a machine with one program.
func plugin(p Program) *Machine {
	return with(func(m *Machine) { m.LookUpProgram = func(string) (Program, bool) { return p, true } })
}

// one is an input that one rule rejects, and the version before or after, or another machine, with which it is right.
type one struct {
	rule    string
	version string
	config  string
	flags   []Flag
	machine *Machine
	accepts *Accepts
	refused string // what Refused says of every file
	place   string // a pointer, or --flag
	says    string
	not     func(*Subject) // makes it right
}

// logind is a machine with the answer of logind.
func logind(l Logind) *Machine {
	return with(func(m *Machine) { m.Logind = func() (Logind, bool) { return l, true } })
}

func version(v string) func(*Subject)    { return func(s *Subject) { s.Version = v } }
func machine(m *Machine) func(*Subject)  { return func(s *Subject) { s.Machine = m } }
func flags(f ...Flag) func(*Subject)     { return func(s *Subject) { s.Flags = f } }
func accepting(names ...string) *Accepts { return &Accepts{Flags: set(names)} }
func accept(names ...string) func(*Subject) {
	return func(s *Subject) { s.Accepts = accepting(names...) }
}
func set(names []string) map[string]bool {
	m := map[string]bool{}
	for _, n := range names {
		m[n] = false
	}
	return m
}

func cases() []one {
	return []one{
		{
			rule:    "flag-unknown",
			version: "1.36.3",
			flags:   []Flag{{"network-plugin", "cni"}},
			place:   "--network-plugin",
			says:    "unknown flag: --network-plugin (removed in 1.24, the kubelet is 1.36.3)",
			not:     version("1.23.17"),
		},
		{
			rule:    "flag-unknown",
			version: "1.27.0",
			flags:   []Flag{{"container-runtime", "remote"}},
			place:   "--container-runtime",
			says:    "removed in 1.27",
			not:     version("1.26.9"),
		},
		{
			rule:    "flag-unknown",
			version: "1.35.0",
			flags:   []Flag{{"pod-infra-container-image", "pause"}},
			place:   "--pod-infra-container-image",
			says:    "removed in 1.35",
			not:     version("1.34.1"),
		},
		{
			rule:    "flag-unknown",
			version: "1.27.0",
			flags:   []Flag{{"config-dir", "/x"}},
			place:   "--config-dir",
			says:    "added in 1.28",
			not:     version("1.30.0"),
		},
		{
			rule:    "flag-unknown",
			version: "1.36.3",
			flags:   []Flag{{"node-label", "a=b"}},
			place:   "--node-label",
			says:    "unknown flag: --node-label",
			not:     accept("node-label"),
		},
		{
			rule:    "flag-unknown",
			version: "1.99.0",
			flags:   []Flag{{"brand-new", "1"}},
			place:   "--brand-new",
			says:    "no kubelet from 1.20 to 1.37 has it",
			not:     accept("brand-new"),
		},
		{
			rule:    "flag-unknown",
			version: "1.36.3",
			flags:   []Flag{{"node-ip", "198.51.100.7"}},
			accepts: accepting("address"),
			place:   "--node-ip",
			says:    "unknown flag: --node-ip",
			not:     accept("node-ip"),
		},
		{
			rule:    "flag-deprecated",
			version: "1.36.3",
			flags:   []Flag{{"max-pods", "20"}},
			place:   "--max-pods",
			says:    "--max-pods is deprecated",
			not:     flags(Flag{"node-ip", "198.51.100.7"}),
		},
		{
			rule:    "flag-deprecated",
			version: "1.36.3",
			flags:   []Flag{{"provider-id", "x"}},
			accepts: &Accepts{Flags: map[string]bool{"provider-id": true}},
			place:   "--provider-id",
			says:    "deprecated",
			not:     accept("provider-id"),
		},
		{
			rule:    "flag-deprecated",
			version: "1.23.1",
			flags:   []Flag{{"network-plugin", "cni"}},
			place:   "--network-plugin",
			says:    "is deprecated since 1.21, and removed in 1.24",
			not:     version("1.20.1"),
		},
		{
			rule:    "flag-bad-value",
			version: "1.36.3",
			flags:   []Flag{{"max-pods", "many"}},
			place:   "--max-pods",
			says:    `invalid argument "many" for "--max-pods" flag: strconv.ParseInt: parsing "many": invalid syntax`,
			not:     flags(Flag{"max-pods", "20"}),
		},
		{
			rule:    "flag-bad-value",
			version: "1.36.3",
			flags:   []Flag{{"eviction-hard", "memory.available=1Gi"}},
			place:   "--eviction-hard",
			says:    "malformed pair",
			not:     flags(Flag{"eviction-hard", "memory.available<1Gi"}),
		},
		{
			rule:    "flag-overrides-config",
			version: "1.36.3",
			config:  "maxPods: 110",
			flags:   []Flag{{"max-pods", "20"}},
			place:   "--max-pods",
			says:    "the kubelet uses the flag's",
			not:     flags(Flag{"max-pods", "110"}),
		},
		{
			rule:    "flag-container-age",
			version: "1.37.1",
			flags:   []Flag{{"minimum-container-ttl-duration", "-1s"}},
			place:   "--minimum-container-ttl-duration",
			says:    "invalid minimum garbage collection age: -1s",
			not:     flags(Flag{"minimum-container-ttl-duration", "0s"}),
		},
		{
			rule:    "config-endpoint",
			version: "1.37.1",
			config:  "containerRuntimeEndpoint: 'tcp://x'",
			place:   "/containerRuntimeEndpoint",
			says:    "only support unix socket endpoint",
		},
		{
			rule:    "flag-config-dir",
			version: "1.28.2",
			flags:   []Flag{{"config-dir", "/x"}},
			place:   "--config-dir",
			says:    "KUBELET_CONFIG_DROPIN_DIR_ALPHA not set, cannot start kubelet",
			not:     version("1.30.0"),
		},
		{
			rule:    "flag-config-dir",
			version: "1.29.0",
			flags:   []Flag{{"config-dir", "/x"}},
			place:   "--config-dir",
			says:    "required in 1.28 and 1.29",
			not:     func(s *Subject) { s.DropInVariable = yes() },
		},
		{
			rule:    "flag-node-labels",
			version: "1.36.3",
			flags:   []Flag{{"node-labels", "node-role.kubernetes.io/x="}},
			place:   "--node-labels",
			says:    "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels",
			not:     flags(Flag{"node-labels", "example.com/x=y"}),
		},
		{
			rule:    "flag-node-labels",
			version: "1.36.3",
			flags:   []Flag{{"node-labels", "a=b c"}},
			place:   "--node-labels",
			says:    "invalid node labels",
			not:     flags(Flag{"node-labels", "a=b"}),
		},
		{
			rule:    "flag-taints",
			version: "1.36.3",
			flags:   []Flag{{"register-with-taints", "a=b:NoSchedul"}},
			place:   "--register-with-taints",
			says:    "NoSchedul",
			not:     flags(Flag{"register-with-taints", "a=b:NoSchedule"}),
		},
		{
			rule:    "flag-node-ip",
			version: "1.36.3",
			flags:   []Flag{{"node-ip", "eth0"}},
			place:   "--node-ip",
			says:    "not an IP address",
			not:     flags(Flag{"node-ip", "198.51.100.7,2001:db8::1"}),
		},
		{
			rule:    "flag-node-ips",
			version: "1.36.3",
			flags:   []Flag{{"node-ip", "10.0.0.5, 10.0.0.6"}},
			place:   "--node-ip",
			says:    "must contain either a single IP or a dual-stack pair of IPs",
			not:     flags(Flag{"node-ip", "198.51.100.7,2001:db8::1"}),
		},
		{
			rule:    "flag-node-ips",
			version: "1.36.3",
			flags:   []Flag{{"node-ip", "::,10.0.0.6"}},
			place:   "--node-ip",
			says:    "cannot include",
			not:     flags(Flag{"node-ip", "::"}),
		},
		{
			rule:    "flag-cloud-provider",
			version: "1.36.3",
			flags:   []Flag{{"cloud-provider", "nosuch"}},
			place:   "--cloud-provider",
			says:    `"nosuch" was specified, but built-in cloud providers are disabled (the kubelet is 1.36.3`,
			not:     version("1.32.0"),
		},
		{
			rule:    "flag-cloud-provider",
			version: "1.29.0",
			flags:   []Flag{{"cloud-provider", "gce"}},
			place:   "--cloud-provider",
			says:    "are disabled",
			not:     func(s *Subject) { s.Config, _ = parse("featureGates: {DisableCloudProviders: false}") },
		},
		{
			rule:    "flag-together",
			version: "1.36.3",
			config:  "maxPods: 10",
			flags:   []Flag{{"exit-on-lock-contention", "true"}},
			place:   "--exit-on-lock-contention",
			says:    "no lock file specified",
			not:     flags(Flag{"exit-on-lock-contention", "false"}),
		},
		{
			rule:    "flag-hostname",
			version: "1.36.3",
			flags:   []Flag{{"hostname-override", "a_b"}},
			place:   "--hostname-override",
			says:    "invalid Node name",
			not:     flags(Flag{"hostname-override", "A.example"}),
		},
		{rule: unknownField, version: "1.36.3", config: "maxPod: 5", place: "/maxPod", says: "unknown field"},
		{
			rule:    otherVersion,
			version: "1.30.1",
			config:  "failCgroupV1: false",
			place:   "/failCgroupV1",
			says:    "failCgroupV1 is a field since 1.31, and the kubelet is 1.30.1",
			not:     version("1.31.0"),
		},
		{
			rule:    otherVersion,
			version: "1.36.3",
			config:  "logging: {sanitization: true}",
			place:   "/logging/sanitization",
			says:    "until 1.23",
			not:     version("1.23.0"),
		},
		{rule: wrongType, version: "1.36.3", config: "maxPods: abc", place: "/maxPods", says: "json: cannot unmarshal"},
		{
			rule:    badDuration,
			version: "1.36.3",
			config:  "syncFrequency: ten",
			place:   "/syncFrequency",
			says:    "invalid duration",
		},
		{
			rule:    badQuantity,
			version: "1.36.3",
			config:  "systemReserved: {cpu: 1x}",
			place:   "/systemReserved/cpu",
			says:    "failed to parse quantity",
		},
		{
			rule:    "config-out-of-range",
			version: "1.36.3",
			config:  "containerLogMaxFiles: 1",
			place:   "/containerLogMaxFiles",
			says:    "must be greater than 1",
		},
		{
			rule:    "config-out-of-range",
			version: "1.36.3",
			flags:   []Flag{{"max-pods", "-1"}},
			place:   "--max-pods",
			says:    "maxPods (--max-pods) -1 must not be a negative number",
			not:     flags(Flag{"max-pods", "1"}),
		},
		{
			rule:    "config-unknown-word",
			version: "1.36.3",
			config:  "memorySwap: {swapBehavior: UnlimitedSwap}",
			place:   "/memorySwap/swapBehavior",
			says:    `memorySwap.swapBehavior "UnlimitedSwap" must be one of`,
			not: func(s *Subject) {
				s.Version = "1.28.0"
			},
		},
		{
			rule:    "config-unknown-word",
			version: "1.36.3",
			config:  "authorization: {mode: webhook}",
			place:   "/authorization/mode",
			says:    "unknown authorization mode webhook",
		},
		{
			rule:    "config-unknown-word",
			version: "1.36.3",
			config:  "logging: {format: xml}",
			place:   "/logging/format",
			says:    "Unsupported log format",
		},
		{
			rule:    "config-cgroup-driver-word",
			version: "1.36.3",
			config:  "cgroupDriver: sytemd",
			place:   "/cgroupDriver",
			says:    "unknown",
		},
		{
			rule:    "config-image-gc-order",
			version: "1.36.3",
			config:  "imageGCLowThresholdPercent: 90",
			place:   "/imageGCLowThresholdPercent",
			says:    "90 must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) 85",
		},
		{
			rule:    "config-image-gc-order",
			version: "1.36.3",
			config:  "imageGCHighThresholdPercent: 70",
			place:   "/imageGCHighThresholdPercent",
			says:    "80 must be less than",
		},
		{
			rule:    "config-parallel-pulls",
			version: "1.36.3",
			config:  "{serializeImagePulls: true, maxParallelImagePulls: 3}",
			place:   "/maxParallelImagePulls",
			says:    "cannot be larger than 1",
			not:     version("1.26.0"),
		},
		{
			rule:    "config-memory-throttling",
			version: "1.36.3",
			config:  "memoryThrottlingFactor: 1.5",
			place:   "/memoryThrottlingFactor",
			says:    "less than or equal to 1.0",
			not:     version("1.21.0"),
		},
		{
			rule:    "config-ids-per-pod",
			version: "1.36.3",
			config:  "userNamespaces: {idsPerPod: 65537}",
			place:   "/userNamespaces/idsPerPod",
			says:    "must be a multiple of 65536",
		},
		{
			rule:    "config-enforcement",
			version: "1.31.0",
			config: "{enforceNodeAllocatable: [system-reserved-compressible], systemReservedCgroup: /s, " +
				"systemReserved: {cpu: 1}}",
			place: "/enforceNodeAllocatable/0",
			says:  "option",
			not:   version("1.32.0"),
		},
		{
			rule:    "config-enforcement",
			version: "1.36.3",
			config:  "cgroupsPerQOS: false",
			place:   "/cgroupsPerQOS",
			says:    `when "pods" contained`,
		},
		{
			rule:    "config-enforcement",
			version: "1.36.3",
			config: "{enforceNodeAllocatable: [pods, system-reserved], systemReservedCgroup: /s, " +
				"kubeReserved: {cpu: '1'}}",
			place: "/enforceNodeAllocatable/1",
			says:  `on "/s": cgroup is not configured properly (systemReserved is empty)`,
		},
		{
			rule:    "config-many-pods",
			version: "1.36.3",
			config:  "maxPods: 65536",
			place:   "/maxPods",
			says:    "are not enough to support 65536 pods",
			not:     version("1.32.0"),
		},
		{
			rule:    "config-many-pods",
			version: "1.36.3",
			config:  "{maxPods: 40000, userNamespaces: {idsPerPod: 131072}}",
			place:   "/maxPods",
			says:    "are not enough",
			not:     flags(Flag{"max-pods", "32767"}),
		},
		{
			rule:    "config-pod-pids",
			version: "1.36.3",
			config:  "podPidsLimit: 4194305",
			place:   "/podPidsLimit",
			says:    "no limit above 4194304",
			not:     flags(Flag{"pod-max-pids", "4194304"}),
		},
		{
			rule:    "config-qos-reserved",
			version: "1.36.3",
			config:  "qosReserved: {memory: abc}",
			place:   "/qosReserved/memory",
			says:    `failed to parse percentage "abc" for "memory"`,
		},
		{
			rule:    "config-qos-reserved",
			version: "1.36.3",
			config:  "qosReserved: {cpu: 50%}",
			place:   "/qosReserved/cpu",
			says:    `cannot reserve "cpu" resource`,
		},
		{
			rule:    "config-tls-ciphers",
			version: "1.36.3",
			config:  "tlsCipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_NOSUCH]",
			place:   "/tlsCipherSuites/1",
			says:    "Cipher suite TLS_NOSUCH not supported or doesn't exist",
			not:     flags(Flag{"tls-cipher-suites", "TLS_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}),
		},
		{
			rule:    "config-tls-ciphers",
			version: "1.36.3",
			config:  "tlsCipherSuites: [TLS_RSA_WITH_RC4_128_SHA]",
			place:   "/tlsCipherSuites",
			says:    "missing an HTTP/2-required",
			not:     flags(Flag{"tls-min-version", "VersionTLS13"}),
		},
		{
			rule:    "config-tls-ciphers",
			version: "1.36.3",
			config:  "tlsCurvePreferences: [29, 12345]",
			place:   "/tlsCurvePreferences/1",
			says:    "12345 is not supported",
		},
		{
			rule:    "config-tls-ciphers",
			version: "1.36.3",
			config:  "tlsCurvePreferences: [29, 29]",
			place:   "/tlsCurvePreferences/1",
			says:    "duplicate curve preference 29",
		},
		{
			rule:    "config-tls-ciphers",
			version: "1.36.3",
			config:  "tlsCurvePreferences: [70000]",
			place:   "/tlsCurvePreferences/0",
			says:    "is out of range (must be 1-65535)",
		},
		{
			rule:    "config-listen-address",
			version: "1.36.3",
			config:  "address: nosuch",
			place:   "/address",
			says:    "no such host",
			not:     flags(Flag{"address", "0.0.0.0"}),
		},
		{
			rule:    "config-hidden-metrics",
			version: "1.36.3",
			config:  "showHiddenMetricsForVersion: '1.20'",
			place:   "/showHiddenMetricsForVersion",
			says:    "have the value '1.35'",
			not:     version("1.21.0"),
		},
		{
			rule:    "config-preloaded-images",
			version: "1.36.3",
			config: "{imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages, " +
				"preloadedImagesVerificationAllowlist: [a.example:5000/b, a/*, 'a/b:c']}",
			place: "/preloadedImagesVerificationAllowlist/2",
			says:  "invalid image pattern",
		},
		{
			rule:    "config-logging",
			version: "1.36.3",
			config:  "logging: {vmodule: [{filePattern: a, verbosity: 1}, {filePattern: 'a,b', verbosity: 1}]}",
			place:   "/logging/vmodule/1",
			says:    "must not contain equal sign or comma",
		},
		{
			rule:    "config-logging",
			version: "1.36.3",
			config:  "logging: {vmodule: [{verbosity: 1}]}",
			place:   "/logging/vmodule/0",
			says:    "File pattern must not be empty",
		},
		{
			rule:    "gate-dependency",
			version: "1.36.3",
			config:  "featureGates: {ClusterTrustBundleProjection: true}",
			place:   "/featureGates/ClusterTrustBundleProjection",
			says: "ClusterTrustBundleProjection is enabled, but depends on features that are disabled: " +
				"[ClusterTrustBundle]",
			not: flags(Flag{"feature-gates", "ClusterTrustBundle=true"}),
		},
		{
			rule:    "gate-dependency",
			version: "1.36.3",
			config:  "featureGates: {GracefulNodeShutdown: false}",
			place:   "/featureGates/GracefulNodeShutdown",
			says:    "GracefulNodeShutdownBasedOnPodPriority is enabled",
			not:     version("1.34.0"),
		},
		{
			rule:    "gate-needed",
			version: "1.36.3",
			config: "{featureGates: {KubeletEnsureSecretPulledImages: false}, " +
				"preloadedImagesVerificationAllowlist: [a]}",
			place: "/preloadedImagesVerificationAllowlist",
			says:  "must not be set if KubeletEnsureSecretPulledImages",
		},
		{
			rule:    "machine-oom-cgroup-v1",
			version: "1.36.3",
			config:  "singleProcessOOMKill: false",
			machine: with(func(m *Machine) { m.Cgroup = 1 }),
			place:   "/singleProcessOOMKill",
			says:    "must not be explicitly set to false",
			not:     machine(single()),
		},
		{
			rule:    "config-unknown-resource",
			version: "1.36.3",
			config:  "kubeReserved: {gpu: '1'}",
			place:   "/kubeReserved/gpu",
			says:    "cannot reserve",
		},
		{
			rule:    "config-bad-cpu-list",
			version: "1.36.3",
			flags:   []Flag{{"reserved-cpus", "0-"}},
			place:   "--reserved-cpus",
			says:    "unable to parse reservedSystemCPUs (--reserved-cpus) 0-",
			not:     flags(Flag{"reserved-cpus", "0-1"}),
		},
		{
			rule:    "config-static-without-reserved",
			version: "1.37.1",
			config:  "{cpuManagerPolicy: static, kubeReserved: {cpu: 400u}}",
			place:   "/cpuManagerPolicy",
			says:    "unable to determine",
			not:     version("1.36.3"),
		},
		{
			rule:    "config-reserved-cpus-and-cgroup",
			version: "1.36.3",
			config:  "{reservedSystemCPUs: '0', kubeReservedCgroup: /k}",
			place:   "/reservedSystemCPUs",
			says:    "can't use",
		},
		{
			rule:    "config-cpu-reserved-twice",
			version: "1.36.3",
			config:  "{reservedSystemCPUs: '0', kubeReserved: {cpu: '1'}}",
			place:   "/kubeReserved/cpu",
			says:    "silently ignores this amount",
		},
		{
			rule:    "config-static-without-reserved",
			version: "1.36.3",
			flags:   []Flag{{"cpu-manager-policy", "static"}},
			place:   "--cpu-manager-policy",
			says:    "unable to determine reserved CPU",
			not:     flags(Flag{"cpu-manager-policy", "static"}, Flag{"reserved-cpus", "0"}),
		},
		{
			rule:    "config-reserved-memory-sum",
			version: "1.36.3",
			config: "{memoryManagerPolicy: Static, kubeReserved: {memory: 1Gi}, evictionHard: " +
				"{memory.available: 25%}, reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]}",
			machine: single(),
			place:   "/reservedMemory",
			says:    `not equal to the value "3Gi"`,
			not:     machine(nil),
		},
		{
			rule:    "config-reserved-memory-sum",
			version: "1.36.3",
			config: "{memoryManagerPolicy: Static, kubeReserved: {memory: 924Mi}, reservedMemory: [{numaNode: " +
				"0, limits: {memory: 924Mi}}]}",
			place: "/reservedMemory",
			says:  `not equal to the value "1Gi"`,
			not:   flags(Flag{"experimental-allocatable-ignore-eviction", "true"}),
		},
		{
			rule:    "config-static-memory-without-reserved",
			version: "1.36.3",
			config:  "{memoryManagerPolicy: Static, evictionHard: {nodefs.available: 5%}}",
			place:   "/memoryManagerPolicy",
			says:    "you should specify the system reserved memory",
			not:     flags(Flag{"memory-manager-policy", "None"}),
		},
		{
			rule:    "config-reserved-memory",
			version: "1.36.3",
			config: "{memoryManagerPolicy: Static, kubeReserved: {memory: 924Mi}, reservedMemory: [{numaNode: " +
				"0, limits: {memory: 512Mi}}, {numaNode: 0, limits: {memory: 512Mi}}]}",
			place: "/reservedMemory/1/limits/memory",
			says:  "duplicate value",
		},
		{
			rule:    "config-reserved-memory",
			version: "1.36.3",
			config: "{memoryManagerPolicy: Static, kubeReserved: {memory: 924Mi}, reservedMemory: [{numaNode: " +
				"0, limits: {memory: 1Gi, cpu: '1'}}]}",
			place: "/reservedMemory/0/limits/cpu",
			says:  "not supported",
		},
		{
			rule:    "config-reserved-memory-unused",
			version: "1.36.3",
			config:  "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]",
			place:   "/reservedMemory",
			says:    "no effect",
		},
		{
			rule:    "config-unknown-signal",
			version: "1.36.3",
			config:  "evictionMinimumReclaim: {nosuch: 5%}",
			place:   "/evictionMinimumReclaim/nosuch",
			says:    "unsupported eviction signal nosuch",
		},
		{
			rule:    "config-bad-threshold",
			version: "1.36.3",
			flags:   []Flag{{"eviction-hard", "memory.available<200%"}},
			place:   "--eviction-hard",
			says:    "must be <= 100%: 200%",
			not:     flags(Flag{"eviction-hard", "memory.available<20%"}),
		},
		{
			rule:    "config-bad-threshold",
			version: "1.36.3",
			config:  "evictionMinimumReclaim: {memory.available: '-1Gi'}",
			place:   "/evictionMinimumReclaim/memory.available",
			says:    "negative eviction minimum reclaim",
		},
		{
			rule:    "config-soft-without-grace",
			version: "1.36.3",
			config:  "evictionSoft: {memory.available: 5%}",
			place:   "/evictionSoft/memory.available",
			says:    "grace period must be specified",
		},
		{
			rule:    "config-grace-without-soft",
			version: "1.36.3",
			config:  "evictionSoftGracePeriod: {memory.available: 1m}",
			place:   "/evictionSoftGracePeriod/memory.available",
			says:    "no soft threshold",
		},
		{
			rule:    "config-shutdown-grace",
			version: "1.36.3",
			config:  "{shutdownGracePeriod: 10s, shutdownGracePeriodCriticalPods: 20s}",
			place:   "/shutdownGracePeriodCriticalPods",
			says:    "must be <= shutdownGracePeriod",
		},
		{
			rule:    "config-shutdown-grace",
			version: "1.36.3",
			config:  "shutdownGracePeriod: 100ms",
			place:   "/shutdownGracePeriod",
			says:    ">= 1 sec",
		},
		{
			rule:    "config-image-age",
			version: "1.36.3",
			config:  "imageMaximumGCAge: 1m",
			place:   "/imageMaximumGCAge",
			says:    "must be greater than imageMinimumGCAge 2m0s",
		},
		{
			rule:    "config-sync-frequency",
			version: "1.36.3",
			config:  "syncFrequency: -1s",
			place:   "/syncFrequency",
			says:    "invalid sync frequency",
		},
		{
			rule:    "config-log-interval",
			version: "1.36.3",
			config:  "containerLogMonitorInterval: 1s",
			place:   "/containerLogMonitorInterval",
			says:    "3s",
			not:     version("1.29.0"),
		},
		{
			rule:    "config-cfs-period",
			version: "1.33.0",
			config:  "cpuCFSQuotaPeriod: 10ms",
			place:   "/cpuCFSQuotaPeriod",
			says:    "requires feature gate CustomCPUCFSQuotaPeriod",
			not:     flags(Flag{"feature-gates", "CustomCPUCFSQuotaPeriod=true"}),
		},
		{
			rule:    "config-crash-loop",
			version: "1.36.3",
			config:  "crashLoopBackOff: {maxContainerRestartPeriod: 10m}",
			place:   "/crashLoopBackOff/maxContainerRestartPeriod",
			says:    "between 1s and 300s",
		},
		{
			rule:    "config-crash-loop",
			version: "1.33.0",
			config:  "crashLoopBackOff: {maxContainerRestartPeriod: 1m}",
			place:   "/crashLoopBackOff/maxContainerRestartPeriod",
			says:    "KubeletCrashLoopBackOffMax not enabled",
			not:     version("1.36.0"),
		},
		{
			rule:    "config-cpu-option",
			version: "1.36.3",
			config: "{cpuManagerPolicy: static, reservedSystemCPUs: '0', cpuManagerPolicyOptions: " +
				"{full-pcpus: 'true'}}",
			place: "/cpuManagerPolicyOptions/full-pcpus",
			says:  "unknown CPU Manager Policy option",
		},
		{
			rule:    "config-cpu-option",
			version: "1.32.0",
			config: "{cpuManagerPolicy: static, reservedSystemCPUs: '0', cpuManagerPolicyOptions: " +
				"{strict-cpu-reservation: 'true'}}",
			place: "/cpuManagerPolicyOptions/strict-cpu-reservation",
			says:  "Alpha-level Options not enabled",
			not:   version("1.33.0"),
		},
		{
			rule:    "config-cpu-option",
			version: "1.36.3",
			config: "{featureGates: {CPUManagerPolicyAlphaOptions: true}, cpuManagerPolicy: static, " +
				"reservedSystemCPUs: '0', cpuManagerPolicyOptions: {full-pcpus-only: 'true', " +
				"distribute-cpus-across-cores: 'true'}}",
			place: "/cpuManagerPolicyOptions/full-pcpus-only",
			says:  "can not be used at the same time",
		},
		{
			rule:    "config-topology-option",
			version: "1.36.3",
			config: "{cpuManagerPolicy: static, reservedSystemCPUs: '0', topologyManagerPolicy: restricted, " +
				"topologyManagerPolicyOptions: {max-allowable-numa-nodes: '4'}}",
			place: "/topologyManagerPolicyOptions/max-allowable-numa-nodes",
			says:  "should not be less than 8",
		},
		{
			rule:    "config-cpu-option-unused",
			version: "1.36.3",
			config:  "cpuManagerPolicyOptions: {full-pcpus-only: 'true'}",
			place:   "/cpuManagerPolicyOptions/full-pcpus-only",
			says:    "received unsupported options=map[full-pcpus-only",
		},
		{
			rule:    "config-topology-unused",
			version: "1.36.3",
			config:  "topologyManagerPolicy: restricted",
			place:   "/topologyManagerPolicy",
			says:    "aligns only devices",
		},
		{
			rule:    "config-topology-align-by-socket",
			version: "1.36.3",
			config: "{featureGates: {CPUManagerPolicyAlphaOptions: true}, cpuManagerPolicy: static, " +
				"reservedSystemCPUs: '0', topologyManagerPolicy: single-numa-node, cpuManagerPolicyOptions: " +
				"{align-by-socket: 'true'}}",
			place: "/cpuManagerPolicyOptions/align-by-socket",
			says:  "is incompatible with CPUManager",
		},
		{
			rule:    "config-pods-per-core",
			version: "1.36.3",
			config:  "{podsPerCore: 10, maxPods: 0}",
			machine: single(),
			place:   "/podsPerCore",
			says:    "never reaches maxPods 110",
			not:     flags(Flag{"max-pods", "0"}),
		},
		{
			rule:    "config-pods-per-core",
			version: "1.36.3",
			config:  "podsPerCore: 10",
			machine: single(),
			place:   "/podsPerCore",
			says:    "never reaches maxPods 110",
			not:     machine(with(func(m *Machine) { m.CPUs = make([]int, 64) })),
		},
		{
			rule:    "gate-unknown",
			version: "1.36.3",
			config:  "featureGates: {NoSuchGate: true}",
			place:   "/featureGates/NoSuchGate",
			says:    "unrecognized feature gate: NoSuchGate",
			not: func(s *Subject) {
				s.Accepts = &Accepts{Gates: map[string]known.Gate{"NoSuchGate": {Stage: "alpha"}}}
			},
		},
		{
			rule:    "gate-unknown",
			version: "1.36.3",
			config:  "featureGates: {DynamicKubeletConfig: false}",
			place:   "/featureGates/DynamicKubeletConfig",
			says:    "kubelets have it until 1.25",
			not:     version("1.25.0"),
		},
		{
			rule:    "gate-unknown",
			version: "1.36.3",
			flags:   []Flag{{"feature-gates", "NoSuchGate=true"}},
			place:   "--feature-gates",
			says:    "NoSuchGate",
			not:     flags(Flag{"feature-gates", "AllAlpha=false"}),
		},
		{
			rule:    "gate-locked",
			version: "1.36.3",
			config:  "featureGates: {NodeSwap: false}",
			place:   "/featureGates/NodeSwap",
			says:    "cannot set feature gate NodeSwap to false, feature is locked to true",
			not:     version("1.33.0"),
		},
		{
			rule:    "gate-declares",
			version: "1.37.1",
			config:  "featureGates: {InPlacePodVerticalScalingMemoryBackedVolumes: true}",
			place:   "/featureGates/InPlacePodVerticalScalingMemoryBackedVolumes",
			says:    "the node adds InPlacePodVerticalScalingMemoryBackedVolumes to its status.declaredFeatures",
			not:     version("1.36.3"),
		},
		{
			rule:    "gate-declares",
			version: "1.37.1",
			config:  "featureGates: {ExtendWebSocketsToKubelet: false}",
			place:   "/featureGates/ExtendWebSocketsToKubelet",
			says:    "the node leaves ExtendWebSocketsToKubelet out of its status.declaredFeatures",
			not:     flags(Flag{"feature-gates", "ExtendWebSocketsToKubelet=true"}),
		},
		{
			rule:    "gate-declares",
			version: "1.36.3",
			flags:   []Flag{{"feature-gates", "UserNamespacesHostNetworkSupport=true"}},
			place:   "--feature-gates",
			says:    "UserNamespacesHostNetworkSupport (if the container runtime supports it)",
			not:     flags(Flag{"feature-gates", "UserNamespacesHostNetworkSupport=false"}),
		},
		{
			rule:    "gate-declares",
			version: "1.36.3",
			config:  "featureGates: {AllBeta: false}",
			place:   "/featureGates/AllBeta",
			says: "ExtendWebSocketsToKubelet, InPlacePodLevelResourcesVerticalScaling, " +
				"InPlacePodVerticalScalingInitContainers, RestartAllContainersOnContainerExits",
			not: version("1.35.4"),
		},
		{
			rule:    "gate-needed",
			version: "1.28.0",
			config:  "memorySwap: {swapBehavior: LimitedSwap}",
			place:   "/memorySwap",
			says:    "cannot be set when NodeSwap feature flag is disabled",
			not:     version("1.30.0"),
		},
		{
			rule:    "gate-needed",
			version: "1.33.0",
			config:  "enableSystemLogQuery: true",
			place:   "/enableSystemLogQuery",
			says:    "NodeLogQuery",
			not:     flags(Flag{"feature-gates", "NodeLogQuery=true"}),
		},
		{
			rule:    "gate-needed-silently",
			version: "1.36.3",
			config:  "qosReserved: {memory: 50%}",
			place:   "/qosReserved",
			says:    "no effect",
			not:     flags(Flag{"feature-gates", "AllAlpha=true"}),
		},
		{
			rule:    "config-bad-taint",
			version: "1.36.3",
			config:  "registerWithTaints: [{key: a, effect: NoSchedule, timeAdded: '2026-01-01T00:00:00Z'}]",
			place:   "/registerWithTaints/0/timeAdded",
			says:    "TimeAdded is not nil",
			not:     version("1.22.0"),
		},
		{
			rule:    "config-bad-address",
			version: "1.36.3",
			config:  "clusterDNS: [dns.example]",
			place:   "/clusterDNS/0",
			says:    "not an IP address",
		},
		{
			rule:    "config-cgroup-root",
			version: "1.36.3",
			config:  "systemCgroups: /system",
			place:   "/systemCgroups",
			says:    "cgroupRoot (--cgroup-root) was not specified",
		},
		{
			rule:    "config-run-once",
			version: "1.36.3",
			config:  "runOnce: true",
			place:   "/runOnce",
			says:    "Runonce mode",
			not:     version("1.31.0"),
		},
		{
			rule:    "config-preloaded-images",
			version: "1.36.3",
			config:  "preloadedImagesVerificationAllowlist: [a]",
			place:   "/preloadedImagesVerificationAllowlist",
			says:    "can't set",
		},
		{
			rule:    "config-log-query",
			version: "1.36.3",
			config:  "{featureGates: {NodeLogQuery: true}, enableSystemLogQuery: true, enableSystemLogHandler: false}",
			place:   "/enableSystemLogQuery",
			says:    "enableSystemLogHandler is required",
		},
		{
			rule:    "config-log-size",
			version: "1.36.3",
			config:  "containerLogMaxSize: ten",
			place:   "/containerLogMaxSize",
			says:    "failed to parse container log max size",
		},
		{
			rule:    "config-log-dir",
			version: "1.36.3",
			config:  "podLogsDir: /var/log//pods",
			place:   "/podLogsDir",
			says:    "must be normalized",
			not:     version("1.29.0"),
		},
		{
			rule:    "config-logging",
			version: "1.36.3",
			config:  "logging: {format: json}",
			flags:   []Flag{{"vmodule", "a=1"}},
			place:   "--vmodule",
			says:    "logging.vmodule: Forbidden: Only supported for text log format",
			not:     flags(),
		},
		{
			rule:    "config-logging",
			version: "1.36.3",
			config:  "logging: {format: json, vmodule: [{filePattern: a, verbosity: 1}]}",
			place:   "/logging/vmodule",
			says:    "Only supported for text log format",
		},
		{
			rule:    "config-tracing",
			version: "1.36.3",
			config:  "tracing: {endpoint: 'http://x:4317'}",
			place:   "/tracing/endpoint",
			says:    "unsupported scheme: http",
		},
		{
			rule:    "config-unsafe-sysctl",
			version: "1.36.3",
			config:  "allowedUnsafeSysctls: [vm.swappiness]",
			place:   "/allowedUnsafeSysctls/0",
			says:    "are not known to be namespaced",
		},
		{
			rule:    "config-no-endpoint",
			version: "1.36.3",
			flags:   []Flag{{"container-runtime-endpoint", ""}},
			place:   "--container-runtime-endpoint",
			says:    "was not specified or empty",
			not:     version("1.26.0"),
		},
		{
			rule:    "machine-cpu-offline",
			version: "1.36.3",
			config:  "reservedSystemCPUs: '3-4'",
			machine: single(),
			place:   "/reservedSystemCPUs",
			says:    "reserved-cpus: 3-4 is not a subset of online-cpus: 0-3",
			not:     machine(nil),
		},
		{
			rule:    "machine-reserved-above-capacity",
			version: "1.36.3",
			config:  "{kubeReserved: {memory: 6Gi}, systemReserved: {memory: 2Gi}}",
			machine: single(),
			place:   "/kubeReserved",
			says:    `Resource "memory" has a reservation of 8292Mi (evictionHard included) but capacity of 8192Mi`,
			not:     machine(with(func(m *Machine) { m.MemoryBytes = 16 << 30 })),
		},
		{
			rule:    "machine-reserved-above-capacity",
			version: "1.36.3",
			config:  "systemReserved: {cpu: '5'}",
			machine: single(),
			place:   "/systemReserved",
			says:    `Resource "cpu" has a reservation of 5`,
		},
		{
			rule:    "machine-reserved-above-capacity",
			version: "1.36.3",
			config:  "systemReserved: {ephemeral-storage: 2Gi}",
			machine: with(func(m *Machine) { m.DiskBytes = 1 << 30 }),
			place:   "/systemReserved",
			says:    `Resource "ephemeral-storage" has a reservation of 2254857832 (evictionHard included) but capacity of 1024Mi`,
			not:     flags(Flag{"root-dir", "/x"}),
		},
		{
			rule:    "machine-reserved-above-capacity",
			version: "1.36.3",
			config:  "evictionHard: {memory.available: 100Gi}",
			machine: single(),
			place:   "/evictionHard",
			says:    `Resource "memory" has a reservation of 100Gi`,
			not:     flags(Flag{kubelet.IgnoreEvictionFlag, "true"}),
		},
		{
			rule:    "machine-reserved-above-capacity",
			version: "1.36.3",
			config:  "maxPods: 10",
			flags:   []Flag{{"eviction-hard", "memory.available<8193Mi"}},
			machine: single(),
			place:   "--eviction-hard",
			says:    "reservation of 8193Mi",
			not:     flags(Flag{"eviction-hard", "memory.available<8191Mi"}),
		},
		{
			rule:    "machine-reserved-above-capacity",
			version: "1.36.3",
			config:  "{evictionHard: {memory.available: 99%}, kubeReserved: {memory: 1Gi}}",
			machine: single(),
			place:   "/evictionHard",
			says:    `Resource "memory"`,
			not:     machine(with(func(m *Machine) { m.MemoryBytes = 1 << 40 })),
		},
		{
			rule:    "machine-reserved-above-capacity",
			version: "1.36.3",
			config:  "evictionHard: {nodefs.available: 100Ti}",
			machine: with(func(m *Machine) { m.DiskBytes = 1 << 40 }),
			place:   "/evictionHard",
			says:    `Resource "ephemeral-storage" has a reservation of 100Ti`,
			not:     flags(Flag{"local-storage-capacity-isolation", "false"}),
		},
		{
			rule:    "machine-reserved-above-capacity",
			version: "1.36.3",
			config:  "systemReserved: {ephemeral-storage: 950Mi}",
			machine: with(func(m *Machine) { m.DiskBytes = 1 << 30 }),
			place:   "/systemReserved",
			says:    `Resource "ephemeral-storage"`,
			not:     flags(Flag{"eviction-hard", "nodefs.available<5%"}),
		},
		{
			rule:    "machine-reserved-above-capacity",
			version: "1.36.3",
			config:  "kubeReserved: {memory: '10e18'}",
			machine: single(),
			place:   "/kubeReserved",
			says:    `Resource "memory"`,
			not:     machine(nil),
		},
		{
			rule:    "machine-reserved-above-capacity",
			version: "1.36.3",
			config:  "kubeReserved: {memory: '9223372036854775808'}",
			machine: single(),
			place:   "/kubeReserved",
			says:    `Resource "memory"`,
		},
		{
			rule:    "machine-reserved-above-capacity",
			version: "1.36.3",
			config:  "systemReserved: {cpu: 1T}",
			machine: single(),
			place:   "/systemReserved",
			says:    `Resource "cpu"`,
		},
		{
			rule:    "machine-reserved-above-capacity",
			version: "1.36.3",
			config:  "kubeReserved: {ephemeral-storage: '1e30'}",
			machine: with(func(m *Machine) { m.DiskBytes = 1 << 40 }),
			place:   "/kubeReserved",
			says:    `Resource "ephemeral-storage"`,
		},
		{
			rule:    "machine-nothing-left",
			version: "1.36.3",
			config:  "evictionHard: {memory.available: 8Gi}",
			machine: single(),
			place:   "/evictionHard",
			says:    "memory: 8Gi are reserved",
			not:     machine(nil),
		},
		{
			rule:    "config-bad-threshold",
			version: "1.36.3",
			config:  "evictionHard: {memory.available: NaN%}",
			place:   "/evictionHard/memory.available",
			says:    "NaN% of memory.available is not a number",
			not:     flags(Flag{"eviction-hard", "pid.available<NaN%"}),
		},
		{
			rule:    "config-bad-threshold",
			version: "1.36.3",
			flags:   []Flag{{"eviction-hard", "nodefs.available<nan%"}},
			place:   "--eviction-hard",
			says:    "is not a number",
			not:     flags(Flag{"eviction-hard", "memory.available<5%%"}),
		},
		{
			rule:    "config-bad-threshold",
			version: "1.36.3",
			config:  "evictionSoft: {memory.available: Inf%}",
			place:   "/evictionSoft/memory.available",
			says:    "must be <= 100%: Inf%",
			not:     flags(Flag{"eviction-soft", "memory.available<100.000001%"}),
		},
		{
			rule:    "machine-nothing-left",
			version: "1.36.3",
			config:  "systemReserved: {cpu: '4'}",
			machine: single(),
			place:   "/systemReserved",
			says:    "cpu: 4 are reserved, which is the whole capacity",
			not:     machine(nil),
		},
		{
			rule:    "machine-nothing-left",
			version: "1.36.3",
			config:  "reservedSystemCPUs: '0-3'",
			machine: single(),
			place:   "/reservedSystemCPUs",
			says:    "cpu: 4 are reserved",
		},
		{
			rule:    "machine-numa-node",
			version: "1.36.3",
			config: "{memoryManagerPolicy: Static, kubeReserved: {memory: 924Mi}, reservedMemory: [{numaNode: " +
				"1, limits: {memory: 1Gi}}]}",
			machine: single(),
			place:   "/reservedMemory/0/numaNode",
			says:    "NUMA node 1 that does not exist",
			not:     machine(with(func(m *Machine) { m.NUMA = []int{0, 1} })),
		},
		{
			rule:    "machine-many-numa-nodes",
			version: "1.36.3",
			config:  "{cpuManagerPolicy: static, reservedSystemCPUs: '0', topologyManagerPolicy: restricted}",
			machine: with(func(m *Machine) { m.NUMA = make([]int, 9) }),
			place:   "/topologyManagerPolicy",
			says:    "more than 8 NUMA Nodes",
			not:     machine(single()),
		},
		{
			rule:    "machine-cgroup-driver",
			version: "1.36.3",
			config:  "cgroupDriver: cgroupfs",
			machine: with(
				func(m *Machine) { m.Runtime, m.RuntimeVersion, m.CgroupDriver = "containerd", "1.7.2", "systemd" },
			),
			place: "/cgroupDriver",
			says:  "the runtime's cgroup driver is systemd, the kubelet's is cgroupfs",
			not: machine(
				with(
					func(m *Machine) { m.Runtime, m.RuntimeVersion, m.CgroupDriver = "containerd", "2.0.1", "systemd" },
				),
			),
		},
		{
			rule:    "machine-cgroup-driver",
			version: "1.36.3",
			config:  "cgroupDriver: cgroupfs",
			machine: with(func(m *Machine) { m.Runtime, m.CgroupDriver = "containerd", "systemd" }),
			place:   "/cgroupDriver",
			says:    "unless the runtime reports its driver",
			not:     machine(with(func(m *Machine) { m.Runtime, m.CgroupDriver = "containerd", "cgroupfs" })),
		},
		{
			rule:    "machine-cgroup-driver",
			version: "1.36.3",
			config:  "cgroupDriver: systemd",
			machine: with(
				func(m *Machine) { m.Runtime, m.RuntimeVersion, m.CgroupDriver = "containerd", "1.7.2", "cgroupfs" },
			),
			place: "/cgroupDriver",
			says:  "pods run outside of the cgroups that it creates and limits",
			not: machine(with(func(m *Machine) {
				m.Runtime, m.RuntimeVersion, m.CgroupDriver, m.RuntimeReports = "another", "1", "cgroupfs", true
			})),
		},
		{
			rule:    "machine-cgroup-driver",
			version: "1.30.0",
			config:  "cgroupDriver: systemd",
			machine: with(func(m *Machine) {
				m.Runtime, m.RuntimeVersion, m.CgroupDriver, m.RuntimeReports = "cri-o", "1.30.1", "cgroupfs", true
			}),
			place: "/cgroupDriver",
			says:  "no pod starts",
			not:   version("1.31.0"),
		},
		{
			rule:    "machine-cgroup-driver",
			version: "1.36.3",
			config:  "{cgroupDriver: cgroupfs, containerRuntimeEndpoint: 'unix:///var/run/containerd/containerd.sock'}",
			machine: with(func(m *Machine) {
				m.Runtime, m.RuntimeVersion, m.CgroupDriver, m.Endpoint = "containerd", "1.7.2", "systemd", "unix:///run/containerd/containerd.sock"
			}),
			place: "/cgroupDriver",
			says:  "no pod starts",
			not:   flags(Flag{"container-runtime-endpoint", "unix:///run/crio/crio.sock"}),
		},
		{
			rule:    "machine-runtime-config",
			version: "1.37.1",
			config:  "cgroupDriver: cgroupfs",
			machine: with(func(m *Machine) { m.Runtime, m.RuntimeVersion = "containerd", "1.7.27" }),
			place:   "/containerRuntimeEndpoint",
			says:    "containerd 1.7.27 does not implement RuntimeConfig: kubelets up to 1.37",
			not:     version("1.33.0"),
		},
		{
			rule:    "machine-runtime-config",
			version: "1.34.0",
			config:  "cgroupDriver: cgroupfs",
			machine: with(func(m *Machine) { m.Runtime, m.NoRuntimeConfig = "cri-dockerd", true }),
			place:   "/containerRuntimeEndpoint",
			says:    "cri-dockerd does not implement RuntimeConfig",
			not: machine(with(func(m *Machine) { // without an answer only the versions of two runtimes are known
				m.Runtime, m.RuntimeVersion = "cri-dockerd", "0.3.4"
			})),
		},
		{
			rule:    "machine-runtime-config",
			version: "1.38.0",
			config:  "cgroupDriver: cgroupfs",
			machine: with(func(m *Machine) { m.Runtime, m.RuntimeVersion = "cri-o", "1.27.4" }),
			place:   "/containerRuntimeEndpoint",
			says:    "a kubelet from 1.38 on exits",
			not: machine(with(func(m *Machine) {
				m.Runtime, m.RuntimeVersion, m.CgroupDriver = "cri-o", "1.28.0", "cgroupfs"
			})),
		},
		{
			rule:    "machine-shutdown-delay",
			version: "1.37.1",
			config:  "shutdownGracePeriod: 60s",
			machine: logind(Logind{Delay: 5 * time.Second, Later: "/usr/lib/systemd/logind.conf.d/u.conf", LaterDelay: 30 * time.Second}),
			place:   "/shutdownGracePeriod",
			says:    "by 30s at most, and shutdownGracePeriod needs 1m0s: /usr/lib/systemd/logind.conf.d/u.conf is read after",
			not:     machine(logind(Logind{Delay: 5 * time.Second})), // the kubelet raises it
		},
		{
			rule:    "machine-shutdown-delay",
			version: "1.24.0",
			config:  "shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 40}, {priority: 9, shutdownGracePeriodSeconds: 20}]",
			machine: logind(Logind{Later: "/etc/systemd/logind.conf.d/z.conf"}), // logind does not run yet
			place:   "/shutdownGracePeriodByPodPriority",
			says:    "by 0s at most, and shutdownGracePeriodByPodPriority needs 1m0s",
			not:     machine(logind(Logind{Later: "/etc/systemd/logind.conf.d/z.conf", LaterDelay: time.Minute})),
		},
		{
			rule:    "machine-shutdown-delay",
			version: "1.37.1",
			config:  "shutdownGracePeriod: 60s",
			machine: logind(Logind{Delay: 5 * time.Second, ReadOnly: true}),
			place:   "/shutdownGracePeriod",
			says:    "/etc/systemd is on a read-only file system",
			not:     machine(logind(Logind{Delay: 2 * time.Minute, ReadOnly: true})),
		},
		{
			rule:    "machine-shutdown-delay",
			version: "1.37.1",
			config:  "shutdownGracePeriod: 60s",
			machine: logind(Logind{Missing: true}),
			place:   "/shutdownGracePeriod",
			says:    "systemd-logind is not installed or masked",
			not:     machine(single()), // not known
		},
		{
			rule:    "machine-cgroup-v1",
			version: "1.35.0",
			config:  "maxPods: 10",
			machine: with(func(m *Machine) { m.Cgroup = 1 }),
			place:   "/failCgroupV1",
			says:    "not run on a host using cgroup v1",
			not:     version("1.34.0"),
		},
		{
			rule:    "machine-swap-cgroup-v1",
			version: "1.34.0",
			config:  "memorySwap: {swapBehavior: LimitedSwap}",
			machine: with(func(m *Machine) { m.Cgroup = 1 }),
			place:   "/memorySwap/swapBehavior",
			says:    "only supported with cgroupv2",
			not:     machine(single()),
		},
		{
			rule:    "machine-swap",
			version: "1.36.3",
			config:  "maxPods: 10",
			machine: with(func(m *Machine) { m.Swap = yes() }),
			place:   "/failSwapOn",
			says:    "running with swap on is not supported",
			not:     machine(single()),
		},
		{
			rule:    "machine-kernel",
			version: "1.36.3",
			config:  "protectKernelDefaults: true",
			machine: with(func(m *Machine) { m.Kernel = map[string]int64{"vm/overcommit_memory": 0} }),
			place:   "/protectKernelDefaults",
			says:    "invalid kernel flag: vm/overcommit_memory, expected value: 1, actual value: 0",
			not:     machine(with(func(m *Machine) { m.Kernel = map[string]int64{"vm/overcommit_memory": 1} })),
		},
		{
			rule:    "machine-kernel",
			version: "1.36.3",
			config:  "protectKernelDefaults: true",
			place:   "/protectKernelDefaults",
			says:    "vm.overcommit_memory=1, vm.panic_on_oom=0",
		},
		{
			rule:    "machine-node-ip",
			version: "1.36.3",
			config:  "maxPods: 10",
			flags:   []Flag{{"node-ip", "203.0.113.9"}},
			machine: single(),
			place:   "--node-ip",
			says:    "no interface of this machine",
			not:     flags(Flag{"node-ip", "198.51.100.7"}),
		},
		{
			rule:    "machine-cgroup-missing",
			version: "1.36.3",
			config: "{enforceNodeAllocatable: [pods, system-reserved], systemReservedCgroup: /system.slice, " +
				"cgroupDriver: systemd}",
			machine: with(func(m *Machine) { m.Exists = exists() }),
			place:   "/enforceNodeAllocatable/1",
			says:    "/sys/fs/cgroup/system.slice",
			not:     machine(with(func(m *Machine) { m.Exists = exists("/sys/fs/cgroup/system.slice") })),
		},
		{
			rule:    "machine-cgroup-missing",
			version: "1.36.3",
			config:  "{enforceNodeAllocatable: [pods, kube-reserved-compressible], kubeReservedCgroup: /a/b}",
			machine: with(func(m *Machine) {
				m.Cgroup, m.Hierarchies, m.Exists = 1, []string{
					"/sys/fs/cgroup/cpu",
					"/sys/fs/cgroup/memory",
				}, exists(
					"/sys/fs/cgroup/cpu/a/b",
				)
			}),
			place: "/enforceNodeAllocatable/1",
			says:  `Failed to enforce Kube Reserved Cgroup Limits on "/a/b": the cgroup does not exist (/sys/fs/cgroup/memory/a/b)`,
			not: machine(with(func(m *Machine) {
				m.Cgroup, m.Hierarchies, m.Exists = 1, []string{
					"/sys/fs/cgroup/cpu",
					"/sys/fs/cgroup/memory",
				}, exists(
					"/sys/fs/cgroup/cpu/a/b",
					"/sys/fs/cgroup/memory/a/b",
				)
			})),
		},
		// A runtime that does not say its driver has no say: the group stands where the kubelet's own puts it.
		{
			rule:    "machine-cgroup-missing",
			version: "1.36.3",
			config: "{enforceNodeAllocatable: [system-reserved], systemReservedCgroup: /system.slice, " +
				"cgroupDriver: cgroupfs}",
			machine: with(func(m *Machine) {
				m.Runtime, m.RuntimeVersion, m.CgroupDriver, m.Exists = "containerd", "1.7.2", "systemd", exists(
					"/sys/fs/cgroup/a.slice/a-b.slice",
				)
			}),
			place: "/enforceNodeAllocatable/0",
			says:  "(/sys/fs/cgroup/system.slice)",
			not:   machine(single()),
		},
		{
			rule:    "machine-cgroup-missing",
			version: "1.36.3",
			config:  "{cgroupRoot: /a-b/c, cgroupDriver: systemd}",
			machine: with(func(m *Machine) { m.Exists = exists() }),
			place:   "/cgroupRoot",
			says:    "/sys/fs/cgroup/a_b.slice/a_b-c.slice",
			not:     machine(with(func(m *Machine) { m.Exists = exists("/sys/fs/cgroup/a_b.slice/a_b-c.slice") })),
		},
		{
			rule:    "machine-file-missing",
			version: "1.36.3",
			config:  "authentication: {x509: {clientCAFile: /etc/ca}}",
			machine: with(func(m *Machine) { m.Exists = exists() }),
			place:   "/authentication/x509/clientCAFile",
			says:    "open /etc/ca: no such file or directory",
			not:     machine(with(func(m *Machine) { m.Exists = exists("/etc/ca") })),
		},
		{
			rule:    "machine-client-ca",
			version: "1.36.3",
			config:  "authentication: {x509: {clientCAFile: /etc/ca}}",
			refused: "no CA",
			place:   "/authentication/x509/clientCAFile",
			says:    "no CA",
			not:     func(s *Subject) { s.CheckFile = nil },
		},
		{
			rule:    "machine-client-ca",
			version: "1.36.3",
			config:  "maxPods: 10",
			flags:   []Flag{{"client-ca-file", "/etc/ca"}},
			refused: "no CA",
			place:   "--client-ca-file",
			says:    "no CA",
			not:     flags(Flag{"client-ca-file", ""}),
		},
		{
			rule:    "machine-serving-certificate",
			version: "1.36.3",
			config:  "{tlsCertFile: /a, tlsPrivateKeyFile: /b}",
			refused: "no pair",
			place:   "/tlsCertFile",
			says:    "no pair",
			not: func(s *Subject) {
				s.Config, _ = parse("{serverTLSBootstrap: true, tlsCertFile: /a, tlsPrivateKeyFile: /b}")
			},
		},
		{
			rule:    "machine-serving-certificate",
			version: "1.36.3",
			config:  "{serverTLSBootstrap: true, tlsCertFile: /a, tlsPrivateKeyFile: /b}",
			flags:   []Flag{{"cert-dir", "/pki"}},
			machine: with(func(m *Machine) { m.Exists = exists("/a", "/b") }),
			refused: "no pair",
			place:   "/tlsCertFile",
			says:    "no pair",
			not: machine(
				with(func(m *Machine) { m.Exists = exists("/a", "/b", "/pki/kubelet-server-current.pem") }),
			),
		},
		{
			rule:    "config-tls-half",
			version: "1.36.3",
			config:  "tlsCertFile: /a",
			place:   "/tlsCertFile",
			says:    "tlsCertFile is set without tlsPrivateKeyFile",
			not:     flags(Flag{"tls-private-key-file", "/b"}),
		},
		{
			rule:    "config-tls-half",
			version: "1.36.3",
			config:  "tlsPrivateKeyFile: /b",
			place:   "/tlsPrivateKeyFile",
			says:    "is set without tlsCertFile",
			not:     func(s *Subject) { s.Part = true },
		},
		{
			rule:    "machine-flag-path",
			version: "1.36.3",
			config:  "maxPods: 10",
			flags:   []Flag{{"config-dir", "/x"}},
			machine: with(func(m *Machine) { m.Exists = exists() }),
			place:   "--config-dir",
			says:    `directory "/x": no such file`,
			not:     machine(with(func(m *Machine) { m.Exists = exists("/x") })),
		},
		{
			rule:    "machine-credential-plugin",
			version: "1.36.3",
			config:  "maxPods: 10",
			flags:   pluginFlags,
			machine: plugin(Program{}),
			place:   "--image-credential-provider-bin-dir",
			says:    "did not exist: /opt/bin/ecr",
			not:     machine(plugin(Program{Exists: true})),
		},
		{
			rule:    "machine-credential-plugin",
			version: "1.36.3",
			config:  "maxPods: 10",
			flags:   pluginFlags,
			machine: plugin(Program{Exists: true, Refused: "permission denied"}),
			place:   "--image-credential-provider-bin-dir",
			says:    `exec: "/opt/bin/ecr": permission denied`,
			not:     version("1.23.17"),
		},
		{
			rule:    "machine-listen-address",
			version: "1.36.3",
			config:  "address: '2001:db8::1'",
			machine: single(),
			place:   "/address",
			says:    "listen tcp [2001:db8::1]:10250: bind",
			not:     machine(with(func(m *Machine) { m.Addresses = nil })),
		},
		{
			rule:    "config-endpoint",
			version: "1.36.3",
			config:  "imageServiceEndpoint: https://x",
			place:   "/imageServiceEndpoint",
			says:    `protocol "https" not supported`,
		},
		{
			rule:    "config-event-rate",
			version: "1.37.1",
			config:  "eventRecordQPS: 0",
			place:   "/eventRecordQPS",
			says:    "from 1.37 on 0 means unlimited",
			not:     version("1.36.3"),
		},
		{
			rule:    "config-memory-throttling-gate",
			version: "1.37.1",
			config:  "{featureGates: {MemoryQoS: false}, memoryThrottlingFactor: 0.8}",
			place:   "/memoryThrottlingFactor",
			says:    "MemoryQoS feature gate is disabled",
			not:     version("1.36.3"),
		},
		{
			rule:    "gate-needed",
			version: "1.37.1",
			config:  "defaultPodSysctls: {net.ipv4.ip_forward: '1'}",
			place:   "/defaultPodSysctls",
			says:    "DefaultPodSysctls feature gate is required",
			not:     flags(Flag{"feature-gates", "DefaultPodSysctls=true"}),
		},
		{
			rule:    "config-pod-sysctls",
			version: "1.37.1",
			config:  "{featureGates: {DefaultPodSysctls: true}, defaultPodSysctls: {vm.swappiness: '1'}}",
			place:   "/defaultPodSysctls/vm.swappiness",
			says:    "is not known to be namespaced",
			not:     flags(Flag{"feature-gates", "DefaultPodSysctls=false"}),
		},
		{
			rule:    "config-pod-sysctls",
			version: "1.37.1",
			config:  "{featureGates: {DefaultPodSysctls: true}, defaultPodSysctls: {net.a: '1', net/a: '1'}}",
			place:   "/defaultPodSysctls/net~1a",
			says:    `duplicate sysctl "net.a"`,
		},
		{
			rule:    "config-enforcement",
			version: "1.36.3",
			config:  "enforceNodeAllocatable: [null]",
			place:   "/enforceNodeAllocatable/0",
			says:    `option "" specified`,
		},
		{
			rule:    "config-bad-quantity",
			version: "1.36.3",
			config:  "evictionHard: {memory.available: null}",
			place:   "/evictionHard/memory.available",
			says:    "quantities must match",
		},
		{
			rule:    "config-bad-quantity",
			version: "1.36.3",
			config:  "kubeReserved: {cpu: null}",
			place:   "/kubeReserved/cpu",
			says:    "quantities must match",
		},
		{
			rule:    "config-tracing",
			version: "1.36.3",
			config:  "tracing: {endpoint: x y}",
			place:   "/tracing/endpoint",
			says:    "invalid character",
		},
		{
			rule:    "config-tiny-amount",
			version: "1.36.3",
			config:  "kubeReserved: {memory: '8', cpu: '1', ephemeral-storage: '0'}",
			place:   "/kubeReserved/memory",
			says:    "8 is only 8 bytes",
			not:     flags(Flag{"kube-reserved", "memory=8Gi"}),
		},
		{
			rule:    "config-tiny-amount",
			version: "1.36.3",
			config:  "reservedMemory: [{numaNode: 0, limits: {hugepages-2Mi: 2Mi, memory: 15Mi}}]",
			place:   "/reservedMemory/0/limits/memory",
			says:    "15Mi is only 15728640 bytes",
		},
		{
			rule:    "config-tiny-amount",
			version: "1.36.3",
			config:  "evictionHard: {pid.available: '5', memory.available: '5'}",
			place:   "/evictionHard/memory.available",
			says:    "5 is only 5 bytes",
		},
		{
			rule:    "config-many-pods",
			version: "1.36.3",
			config:  "userNamespaces: {idsPerPod: 4294901760}",
			place:   "/userNamespaces/idsPerPod",
			says:    "is not a multiple of 4294901760",
		},
		{
			rule:    "config-many-pods",
			version: "1.36.3",
			config:  "userNamespaces: {idsPerPod: 67108864}",
			place:   "/userNamespaces/idsPerPod",
			says:    "are not enough to support 110 pods",
			not:     flags(Flag{"max_pods", "20"}),
		},
		{
			rule:    "flag-ends",
			version: "1.36.3",
			flags:   []Flag{{"version", "true"}},
			place:   "--version",
			says:    "prints its version and ends",
			not:     flags(Flag{"version", "false"}),
		},
		{
			rule:    "flag-ends",
			version: "1.36.3",
			flags:   []Flag{{"h", "true"}},
			place:   "--h",
			says:    "prints its help and ends",
			not:     flags(Flag{"help", "false"}),
		},
		{
			rule:    "flag-bad-value", // the kubelet parses each value of a repeated flag
			version: "1.36.3",
			flags:   []Flag{{"max-pods", "many"}, {"max-pods", "5"}},
			place:   "--max-pods",
			says:    `invalid argument "many" for "--max-pods" flag`,
			not:     flags(Flag{"max-pods", "7"}, Flag{"max-pods", "5"}),
		},
		{
			rule:    "flag-bad-value",
			version: "1.36.3",
			flags:   []Flag{{"reserved-memory", "0:memory= 1Gi"}},
			place:   "--reserved-memory",
			says:    "failed to parse the quantity:  1Gi",
			not:     flags(),
		},
		{
			rule:    "config-header",
			version: "1.36.3",
			config:  "kind: Foo",
			place:   "/kind",
			says:    `no kind "Foo" is registered for version "kubelet.config.k8s.io/v1beta1"`,
			not:     func(s *Subject) { s.Config = kubelet.NewConfig() },
		},
		{
			rule:    "flag-root-dir",
			version: "1.36.3",
			flags:   []Flag{{"root_dir", "relative"}},
			place:   "--root-dir",
			says:    `cannot find mount point for "relative"`,
		},
		{
			rule:    "config-open-files",
			version: "1.36.3",
			config:  "maxOpenFiles: 1",
			place:   "/maxOpenFiles",
			says:    "too many open files",
			not:     flags(Flag{"max-open-files", "100000"}),
		},
		{
			rule:    "config-open-files",
			version: "1.36.3",
			flags:   []Flag{{"max-open-files", "0"}},
			place:   "--max-open-files",
			says:    "too many open files",
		},
		{
			rule:    "config-runtime-timeout",
			version: "1.36.3",
			config:  "runtimeRequestTimeout: -1s",
			place:   "/runtimeRequestTimeout",
			says:    "context deadline exceeded",
			not:     flags(Flag{"runtime-request-timeout", "5s"}),
		},
		{
			rule:    "config-listeners",
			version: "1.36.3",
			config:  "readOnlyPort: 10250",
			place:   "/readOnlyPort",
			says:    "listen tcp 0.0.0.0:10250: bind: address already in use",
			not:     flags(Flag{"port", "10251"}),
		},
		{
			rule:    "config-listeners",
			version: "1.36.3",
			config:  "healthzPort: 10250",
			place:   "/healthzPort",
			says:    "10250: bind: address already in use",
			not: func(s *Subject) {
				_ = s.Config.Merge(map[string]any{"enableServer": false})
			},
		},
		{
			rule:    "config-listeners",
			version: "1.36.3",
			config:  "port: 10248",
			place:   "/port",
			says:    "10248: bind: address already in use",
			not: func(s *Subject) {
				_ = s.Config.Merge(map[string]any{"address": "198.51.100.7"})
			},
		},
		{
			rule:    "config-system-cgroups",
			version: "1.36.3",
			config:  "{systemCgroups: /, cgroupRoot: /}",
			place:   "/systemCgroups",
			says:    "system container cannot be root",
		},
		{
			rule:    "machine-image-endpoint",
			version: "1.36.3",
			config:  "imageServiceEndpoint: unix:///run/x.sock",
			machine: with(func(m *Machine) { m.Exists = exists() }),
			place:   "/imageServiceEndpoint",
			says:    `endpoint "unix:///run/x.sock"`,
			not:     machine(with(func(m *Machine) { m.Exists = exists("/run/x.sock") })),
		},
		{
			rule:    "config-logging",
			version: "1.36.3",
			config:  "logging: {options: {json: {infoBufferSize: 64Ki}}}",
			place:   "/logging/options/json/infoBufferSize",
			says:    "Forbidden: Feature LoggingAlphaOptions is disabled",
			not:     flags(Flag{"feature-gates", "LoggingAlphaOptions=true"}),
		},
		{
			rule:    "config-logging",
			version: "1.36.3",
			flags:   []Flag{{"log-text-split-stream", "true"}},
			place:   "--log-text-split-stream",
			says:    "Feature LoggingAlphaOptions is disabled",
			not:     flags(Flag{"log-text-split-stream", "false"}),
		},
		{
			rule:    "config-logging",
			version: "1.36.3",
			config:  "logging: {flushFrequency: -5}",
			place:   "/logging/flushFrequency",
			says:    "Must be greater than zero",
		},
		{
			rule:    "config-logging",
			version: "1.36.3",
			flags:   []Flag{{"log-flush-frequency", "0s"}},
			place:   "--log-flush-frequency",
			says:    "Must be greater than zero",
		},
		{
			rule:    "config-log-size",
			version: "1.36.3",
			config:  "containerLogMaxSize: 1500m",
			place:   "/containerLogMaxSize",
			says:    "invalid max log size",
		},
		{
			rule:    "config-log-interval",
			version: "1.36.3",
			config:  "containerLogMonitorInterval: 0s",
			place:   "/containerLogMonitorInterval",
			says:    "3s",
		},
		{
			rule:    "config-cfs-period",
			version: "1.36.3",
			config:  "cpuCFSQuotaPeriod: 0s",
			place:   "/cpuCFSQuotaPeriod",
			says:    "between 1ms and 1sec",
		},
		{
			rule:    "config-image-age",
			version: "1.36.3",
			config:  "{imageMinimumGCAge: 0s, imageMaximumGCAge: 1s}",
			place:   "/imageMaximumGCAge",
			says:    "greater than imageMinimumGCAge 2m0s",
			not:     flags(Flag{"minimum-image-ttl-duration", "0s"}),
		},
		{
			rule:    "config-out-of-range",
			version: "1.36.3",
			config:  "containerLogMaxFiles: 0",
			place:   "/containerLogMaxFiles",
			says:    "greater than 1",
		},
		{
			rule:    "config-out-of-range",
			version: "1.36.3",
			config:  "containerLogMaxWorkers: 0",
			place:   "/containerLogMaxWorkers",
			says:    "greater than or equal to 1",
		},
		{
			rule:    "config-out-of-range",
			version: "1.36.3",
			flags:   []Flag{{"port", "0"}},
			place:   "--port",
			says:    "between 1 and 65535",
		},
		{
			rule:    "config-unknown-word",
			version: "1.36.3",
			flags:   []Flag{{"hairpin-mode", ""}},
			place:   "--hairpin-mode",
			says:    "specified for hairpinMode",
		},
		{rule: "config-bad-cpu-list", version: "1.36.3", config: `reservedSystemCPUs: "0
"`, place: "/reservedSystemCPUs", says: "unable to parse"},
		{
			rule:    "flag-bad-value",
			version: "1.36.3",
			flags:   []Flag{{"v", "+5"}},
			place:   "--v",
			says:    "invalid syntax",
			not:     flags(Flag{"v", "010"}),
		},
		{rule: "flag-bad-value", version: "1.36.3", flags: []Flag{{"v", "0x2"}}, place: "--v", says: "invalid syntax"},
		{
			rule:    "flag-bad-value",
			version: "1.36.3",
			flags:   []Flag{{"v", "2147483648"}},
			place:   "--v",
			says:    "out of range",
			not:     flags(Flag{"v", "2147483647"}),
		},
		{
			rule:    "flag-bad-value",
			version: "1.36.3",
			flags:   []Flag{{"kube-reserved", "cpu=1, "}},
			place:   "--kube-reserved",
			says:    "malformed pair",
			not:     flags(Flag{"kube-reserved", ",cpu=1,"}),
		},
		{
			rule:    "flag-bad-value",
			version: "1.36.3",
			flags:   []Flag{{"cpu-manager-policy-options", ""}},
			place:   "--cpu-manager-policy-options",
			says:    "malformed pair",
			not:     flags(Flag{"topology-manager-policy-options", ""}),
		},
		{
			rule:    "flag-bad-value",
			version: "1.36.3",
			flags:   []Flag{{"tls-cipher-suites", `TLS_AES_128_GCM_SHA256,"`}},
			place:   "--tls-cipher-suites",
			says:    "parse error",
		},
		{
			rule:    "flag-bad-value",
			version: "1.36.3",
			flags:   []Flag{{"manifest-url-header", "a"}},
			place:   "--manifest-url-header",
			says:    "expect string:string",
			not:     flags(Flag{"manifest-url-header", "a:b,a:c"}),
		},
		{
			rule:    "flag-bad-value",
			version: "1.36.3",
			flags:   []Flag{{"reserved-memory", "0:memory=1Gi:x"}},
			place:   "--reserved-memory",
			says:    "incorrect format",
			not:     flags(Flag{"reserved-memory", ""}),
		},
		{
			rule:    "config-enforcement",
			version: "1.36.3",
			flags:   []Flag{{"enforce-node-allocatable", "pods,"}},
			place:   "--enforce-node-allocatable",
			says:    `option "" specified`,
			not:     flags(Flag{"enforce-node-allocatable", ""}),
		},
		{
			rule:    "config-tls-ciphers",
			version: "1.36.3",
			flags:   []Flag{{"tls-cipher-suites", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,"}},
			place:   "--tls-cipher-suites",
			says:    "Cipher suite  not supported",
			not:     flags(Flag{"tls-cipher-suites", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}),
		},
		{
			rule:    "config-unsafe-sysctl",
			version: "1.36.3",
			flags:   []Flag{{"allowed-unsafe-sysctls", ","}},
			place:   "--allowed-unsafe-sysctls",
			says:    `sysctl "" must`,
			not:     flags(Flag{"allowed-unsafe-sysctls", ""}),
		},
		{
			rule:    "flag-bad-value",
			version: "1.36.3",
			flags:   []Flag{{"healthz_bind_address", "nosuch"}},
			place:   "--healthz-bind-address",
			says:    `"nosuch" is not a valid IP address`,
		},
		{
			rule:    "flag-bad-value",
			version: "1.36.3",
			flags:   []Flag{{"maximum-dead-containers-per-container", "x"}},
			place:   "--maximum-dead-containers-per-container",
			says:    "strconv.ParseInt",
		},
		{
			rule:    "flag-bad-value",
			version: "1.36.3",
			flags:   []Flag{{"experimental-allocatable-ignore-eviction", "maybe"}},
			place:   "--experimental-allocatable-ignore-eviction",
			says:    "strconv.ParseBool",
		},
		{
			rule:    "flag-bad-value",
			version: "1.36.3",
			flags:   []Flag{{"housekeeping-interval", "10"}},
			place:   "--housekeeping-interval",
			says:    "missing unit",
		},
		{
			rule:    "machine-file-missing",
			version: "1.36.3",
			config:  "authentication: {x509: {clientCAFile: ca.crt}}",
			machine: with(func(m *Machine) { m.Exists = exists() }),
			place:   "/authentication/x509/clientCAFile",
			says:    "open /var/lib/kubelet/ca.crt: no such file",
			not:     machine(with(func(m *Machine) { m.Exists = exists("/var/lib/kubelet/ca.crt") })),
		},
		{
			rule:    "machine-path-missing",
			version: "1.36.3",
			config:  "resolvConf: /run/nothing",
			machine: with(func(m *Machine) { m.Exists = exists() }),
			place:   "/resolvConf",
			says:    "/run/nothing does not exist",
			not:     machine(single()),
		},
	}
}

func (c one) subject(t testing.TB) Subject {
	s := Subject{
		Flags:   c.flags,
		Version: c.version,
		Machine: c.machine,
		Accepts: c.accepts,
		Dir:     "/var/lib/kubelet",
		Plugins: []string{"ecr"},
	}
	if c.config != "" || c.machine != nil {
		s.Config = config(t, c.config)
	}
	if c.refused != "" {
		s.CheckFile = func(string, string) (string, bool) { return c.refused, true }
	}
	return s
}

// TestEach triggers every rule, and passes a similar input that the rule accepts.
func TestEach(t *testing.T) {
	triggered := map[string]bool{}
	for _, c := range cases() {
		s := c.subject(t)
		at := slices.IndexFunc(Check(s), func(f Finding) bool { return f.Rule == c.rule })
		if at < 0 {
			t.Errorf("want %s for %+v; got %+v", c.rule, c, Check(s))
			continue
		}
		triggered[c.rule] = true
		f := Check(s)[at]
		place := f.Pointer
		if f.Flag != "" {
			place = "--" + f.Flag
		}
		if place != c.place || !strings.Contains(f.Message, c.says) {
			t.Errorf("%s: %+v, want %s with %q", c.rule, f, c.place, c.says)
		}
		if c.not == nil {
			continue
		}
		c.not(&s)
		if i := slices.IndexFunc(Check(s), func(f Finding) bool { return f.Rule == c.rule }); i >= 0 {
			t.Errorf("want no %s; got %+v", c.rule, Check(s)[i])
		}
	}
	for _, r := range All() {
		if !triggered[r.ID] {
			t.Errorf("%s has no case, want one", r.ID)
		}
	}
}

// If the version is unknown, a rule that an older kubelet does not have is not an error.
func TestUnknownVersion(t *testing.T) {
	for _, c := range cases() {
		s := c.subject(t)
		s.Version, s.Accepts = "", nil
		for _, f := range Check(s) {
			i := slices.IndexFunc(All(), func(r Rule) bool { return r.ID == f.Rule })
			if r := All()[i]; r.Since > minMinor && f.Severity == Error {
				t.Errorf("got error %+v of 1.%d, want a warning", f, r.Since)
			}
		}
	}
	v1 := with(func(m *Machine) { m.Cgroup = 1 })
	found := Check(Subject{Config: config(t, "maxPods: 3"), Machine: v1})
	if len(found) != 1 || found[0].Severity != Warning || !found[0].Uncertain {
		t.Errorf("cgroup v1 with an unknown kubelet: got %+v, want one uncertain warning", found)
	}
}

// TestRulesAreWhole holds each entry to what the others have.
func TestRulesAreWhole(t *testing.T) {
	does := map[string]Effect{}
	oldest, newest := known.Range()
	for _, r := range All() {
		if r.ID == "" || r.Summary == "" || r.Source == "" || r.check == nil || r.Severity == "" {
			t.Errorf("got %+v, want all fields set", r)
		}
		if d, twice := does[r.ID]; twice && d != r.Effect {
			t.Errorf("%s has two effects, want one", r.ID)
		}
		does[r.ID] = r.Effect
		if r.Since != 0 && (r.Since <= oldest || r.Since > newest) || r.Until != 0 && r.Until <= r.Since {
			t.Errorf("%s: got versions %d to %d, want known ones in order", r.ID, r.Since, r.Until)
		}
	}
}

// The base of a kubeadm cluster, and what reserve makes of a machine, pass for every version that has its fields.
func TestKubeadmPasses(t *testing.T) {
	const kubeadm = `authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 0s, enabled: true}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
cpuManagerReconcilePeriod: 0s
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMinimumGCAge: 0s
logging: {flushFrequency: 0, options: {json: {infoBufferSize: "0"}}, verbosity: 0}
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
`
	for _, v := range []string{"1.24.17", "1.28.15", "1.33.0", "1.36.3"} {
		m := single()
		m.Exists = func(string) (bool, bool) { return true, true }
		for _, f := range Check(Subject{Config: config(t, kubeadm), Version: v, Machine: m, Flags: []Flag{{"node-ip", "198.51.100.7"}, {"bootstrap-kubeconfig", "/x"}}}) {
			t.Errorf("%s: got %+v, want no finding", v, f)
		}
	}
}

func TestMachineOf(t *testing.T) {
	p := func(s string) *string { return &s }
	total := int64(5)
	f := &world.Facts{
		CPU:    world.CPU{Cores: []world.CPUCore{{CPUs: []int{1, 3}}, {CPUs: []int{0}}}},
		Memory: world.Memory{TotalBytes: &total},
		NUMA:   []world.NUMANode{{ID: 2}},
		Interfaces: map[string]world.Interface{
			"eth0": {IPv4: []string{"198.51.100.7"}, IPv6: []string{"2001:db8::1"}},
		},
		Runtime: world.Runtime{Name: p("containerd"), CgroupDriver: p("systemd")},
	}
	m := NewMachine(f, world.KubeletAns{Cgroup: 2, Swap: yes()})
	if !slices.Equal(m.CPUs, []int{0, 1, 3}) || m.MemoryBytes != 5 || !slices.Equal(m.NUMA, []int{2}) ||
		len(m.Addresses) != 2 ||
		m.Runtime != "containerd" ||
		m.CgroupDriver != "systemd" ||
		m.RuntimeVersion != "" ||
		m.Cgroup != 2 ||
		!*m.Swap {
		t.Errorf("got %+v, want the machine of the facts", m)
	}
	if m := NewMachine(nil, world.KubeletAns{}); m.CPUs != nil || m.Cgroup != 0 {
		t.Errorf("got %+v, want an unknown machine", m)
	}
	// What the runtime said counts before its configuration, and both before the facts, which have that only.
	r := &world.RuntimeAns{Endpoint: "unix:///x", Name: "containerd", Version: "1.7.2", Driver: "cgroupfs"}
	if m := NewMachine(
		f,
		world.KubeletAns{Runtime: r},
	); m.RuntimeVersion != "1.7.2" || m.CgroupDriver != "cgroupfs" || m.RuntimeReports ||
		m.Endpoint != "unix:///x" {
		t.Errorf("got %+v, want the runtime's configuration", m)
	}
	r.Reported = "systemd"
	if m := NewMachine(nil, world.KubeletAns{Runtime: r}); m.CgroupDriver != "systemd" || !m.RuntimeReports {
		t.Errorf("got %+v, want the driver that the runtime reported", m)
	}
}

// A slice that is not there may come with the kubelet's own unit (Slice=); a folder of cgroupfs does not.
func TestCgroupMissingSeverity(t *testing.T) {
	for driver, want := range map[string]Severity{"systemd": Warning, "cgroupfs": Error} {
		m := single()
		m.Exists = func(string) (bool, bool) { return false, true }
		found := Check(
			Subject{
				Version: "1.36.3",
				Machine: m,
				Config: config(
					t,
					"{enforceNodeAllocatable: [kube-reserved], kubeReserved: {cpu: '1'}, kubeReservedCgroup: "+
						"/kubelet.slice, cgroupDriver: "+driver+"}",
				),
			},
		)
		if i := slices.IndexFunc(found, func(f Finding) bool { return f.Rule == "machine-cgroup-missing" }); i < 0 ||
			found[i].Severity != want {
			t.Errorf("%s: got %+v, want severity %s", driver, found, want)
		}
	}
}

func TestCgroupPath(t *testing.T) {
	for _, c := range [][3]string{
		{"/system.slice", "systemd", "/system.slice"}, {"/kube-reserved.slice", "systemd", "/kube.slice/kube-reserved.slice"},
		{"/a/b.slice", "systemd", "/b.slice"}, {"/a/b", "cgroupfs", "/a/b"}, {"runtime", "", "/runtime"},
	} {
		if got := cgroupPath(c[0], c[1]); got != c[2] {
			t.Errorf("%s with %s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

// FuzzCheck: whatever a configuration and flags hold, they are judged without a panic, and twice the same.
func FuzzCheck(f *testing.F) {
	for _, c := range cases() {
		name, value := "", ""
		if len(c.flags) > 0 {
			name, value = c.flags[0].Name, c.flags[0].Value
		}
		f.Add(c.config, name, value, c.version)
	}
	f.Fuzz(func(t *testing.T, text, name, value, version string) {
		c, err := parse(text)
		if err != nil {
			return
		}
		s := Subject{Config: c, Flags: []Flag{{name, value}}, Version: version, Machine: single()}
		if a, b := Check(s), Check(s); !slices.Equal(a, b) {
			t.Errorf("got %+v, then %+v; want the same twice", a, b)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	s := Subject{
		Config: config(
			b,
			"{kubeReserved: {cpu: '1', memory: 1Gi}, evictionHard: {memory.available: 5%}, maxPods: 64}",
		),
		Version: "1.36.3",
		Machine: single(),
		Flags:   []Flag{{"node-ip", "198.51.100.7"}},
	}
	for b.Loop() {
		Check(s)
	}
}

// TestOldVersionsIgnoreNewFields gives values that newer kubelets refuse to the version before a field came: that
// runs as if the field were not there.
func TestOldVersionsIgnoreNewFields(t *testing.T) {
	_, newest := known.Range()
	for _, field := range known.Fields(newest) {
		h, _ := known.FieldHistory(field)
		if h.Since() == 0 || strings.Contains(field, "[]") {
			continue
		}
		path := strings.Split(field, ".")
		for _, v := range []any{-1, 0, 3, 1 << 40, "", "x", "-1s", true, []any{"x"}, []any{70000}, map[string]any{"x": "y"}} {
			for _, name := range slices.Backward(path) {
				v = map[string]any{name: v}
			}
			c, err := parse("")
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Merge(v.(map[string]any)); err != nil {
				t.Fatal(err)
			}
			s := Subject{Config: c, Version: fmt.Sprintf("1.%d.0", h.Since()-1), Machine: single()}
			for _, f := range Check(s) {
				if f.Rule != otherVersion {
					t.Errorf("%v, kubelet %s: got %+v; want %s alone", v, s.Version, f, otherVersion)
				}
			}
		}
	}
}
