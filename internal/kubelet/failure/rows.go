package failure

// row is one failure: how the kubelet says it, and what it means. $1… of the sentence and the items are the groups; labels/ is a
// list of them.
type row struct {
	id       string
	says     string // a regular expression, over one entry
	sentence string
	items    []string
	final    bool // false also where a file or a cgroup is missing that another unit may yet make
}

// rows is the table, in order: what ends a kubelet first, the particular before the general. Where no version is told the words
// are those of v1.36.3.
func rows() []row {
	return append(append(flagRows(), configRows()...), append(machineRows(), clusterRows()...)...)
}

func flagRows() []row {
	return []row{
		{"flag-unknown", `unknown flag: --([A-Za-z0-9-]+)`,
			"it does not know the flag --$1: that was removed in this version, or never was", []string{"flag/$1"}, true},
		{"flag-shorthand", `unknown shorthand flag: (.*)`, "it does not know a flag: $1", nil, true},
		{"taint-flag", `invalid argument "([^"=:]*)([^"]*)" for "--register-with-taints" flag: (.*?)"?$`,
			"it refuses the taint $1$2: $3", []string{"taint/$1", "flag/register-with-taints"}, true},
		{"flag-value", `invalid argument "(.*)" for "--([A-Za-z0-9-]+)" flag: (.*?)"?$`,
			"it refuses the value of --$2: $3", []string{"flag/$2"}, true},
		{"label-forbidden", `unknown 'kubernetes\.io' or 'k8s\.io' labels specified with --node-labels: \[([^\]]*)\]`,
			"a kubelet may not set these labels on its own node: $1", []string{"labels/$1"}, true},
		{"label-key", `invalid node labels: '([^'/]+/[^']*|[^']* [^']*/[^']*)' - (.*?)(?:, regex used.*|\(e\.g\..*)?"?$`,
			"the label key $1 is not valid: $2", []string{"label/$1", "label-value/$1"}, true},
		{"label-value", `invalid node labels: '([^']*)' - (.*?)(?:\(e\.g\..*)?"?$`,
			"a label's value is not valid, $1: $2", []string{"label-value/$1", "label/$1"}, true},
		{"taint-config", `invalid taint: \{(\S*) (\S*) (\S*) <nil>\}`,
			"it refuses the taint $1 with value $2 and effect $3", []string{"taint/$1", "config/registerWithTaints"}, true},
		{"taint-twice", `duplicated taints with the same key and effect: \{(\S*)`,
			"the taint $1 is there twice with the same effect", []string{"taint/$1", "config/registerWithTaints"}, true},
	}
}

func configRows() []row {
	return []row{
		{"config-type", `json: cannot unmarshal (.+?) into Go struct field (?:KubeletConfiguration\.)?([A-Za-z0-9.]+) of type (\S+?)"?$`,
			"its configuration has $1 for $2, which takes $3", []string{"config/$2"}, true},
		{"config-duration", `failed to decode: time: (?:invalid|unknown unit|missing unit).*? "([^"]*)"`,
			`its configuration has "$1" where a duration is needed, as 10s`, []string{"config-value/$1"}, true},
		{"config-kind", `no kind "([^"]*)" is registered for version "([^"]*)"`,
			"its configuration file is a $1 of $2, and not a KubeletConfiguration that it knows", []string{"file//var/lib/kubelet/config.yaml"}, true},
		{"config-missing", `failed to read kubelet config file "([^"]*)", error: (.*?)"?$`,
			"it cannot read its configuration file $1: $2", []string{"file/$1", "flag/config"}, false},
		{"config-syntax", `failed to load kubelet config file, path: (\S+?), error: .*?error failed to decode: (.*?)"?$`,
			"its configuration file $1 cannot be read: $2", []string{"file/$1"}, true},
		{"config-dropins", `failed to walk through kubelet dropin directory "([^"]+)": (.*?)"?$`,
			"the folder $1 of its configuration drop-ins cannot be read: $2", []string{"flag/config-dir"}, false},
		{"gate-unknown", `unrecognized feature gate: ([A-Za-z0-9]+)`,
			"it does not know the feature gate $1", []string{"config/featureGates.$1", "flag/feature-gates"}, true},
		{"gate-locked", `cannot set feature gate ([A-Za-z0-9]+) to (\w+), feature is locked to (\w+)`,
			"the feature gate $1 is locked to $3 in this version", []string{"config/featureGates.$1", "flag/feature-gates"}, true},
		{"enforce-word", `option "([^"]*)" specified for enforceNodeAllocatable`,
			`enforceNodeAllocatable does not know "$1"`, []string{"config/enforceNodeAllocatable", "flag/enforce-node-allocatable"}, true},
		{"enforce-unnamed", `((?:system|kube)ReservedCgroup) \(--[a-z-]+\) must be specified when "([^"]*)"`,
			`enforceNodeAllocatable has "$2", and $1 names no cgroup`, []string{"config/$1", "config/enforceNodeAllocatable"}, true},
		{"cgroup-missing", `[Ff]ailed to enforce (System|Kube) Reserved Cgroup Limits on "([^"]*)": (.*?)(?: has some missing paths.*)?"?$`,
			"enforceNodeAllocatable needs the cgroup $2, and there is none: systemd, or whoever owns it, has to make it before the kubelet starts", []string{"config/enforceNodeAllocatable", "flag/enforce-node-allocatable"}, false},
		{"cpus-malformed", `unable to parse reservedSystemCPUs \(--reserved-cpus\) (.*?), error`,
			"reservedSystemCPUs is no list of CPUs: $1", []string{"config/reservedSystemCPUs", "flag/reserved-cpus"}, true},
		{"cpus-offline", `reserved-cpus: (\S+) is not a subset of online-cpus: ([0-9,-]+)`,
			"reservedSystemCPUs has CPUs that this machine has not online: $1 of $2", []string{"config/reservedSystemCPUs", "flag/reserved-cpus"}, true},
		{"cpus-none", `unable to determine reserved CPU resources for static policy`,
			"cpuManagerPolicy static needs a whole CPU reserved, and none is", []string{"config/cpuManagerPolicy", "config/kubeReserved", "flag/cpu-manager-policy"}, true},
		{"cpu-state", `configured policy "([^"]*)" differs from state checkpoint policy "([^"]*)".*?checkpoint file "([^"]+)"`,
			"$3 is of the policy $2, and $1 is configured: drain the node and remove that file", []string{"config/cpuManagerPolicy", "flag/cpu-manager-policy"}, true},
		{"memory-state", `\[memorymanager\].*(?:differs from|restore state)|memory manager.*could not restore state from checkpoint`,
			"/var/lib/kubelet/memory_manager_state is of another policy or machine: drain the node and remove that file", []string{"config/memoryManagerPolicy", "config/reservedMemory"}, true},
		{"memory-sum", `the total amount "([^"]*)" of type "([^"]*)" is not equal to the value "([^"]*)" determined by Node Allocatable`,
			"reservedMemory has $1 of $2 in all, and must be what kubeReserved, systemReserved and evictionHard make together, $3", []string{"config/reservedMemory", "config/kubeReserved"}, true},
		{"reserved-quantity", `--(system|kube)-reserved value failed to parse: failed to parse quantity "([^"]*)" for "([^"]*)" resource`,
			`$1-reserved has "$2" for $3, which is no quantity`, []string{"config/${1}Reserved.$3", "config/${1}Reserved", "flag/$1-reserved"}, true},
		{"reserved-resource", `(?:--(system|kube)-reserved value failed to parse: )?cannot reserve "([^"]*)" resource`,
			"$2 cannot be reserved", []string{"config/${1}Reserved.$2", "config/${1}Reserved", "flag/$1-reserved"}, true},
		{"eviction-percent", `eviction percentage threshold (\S+) must be (<= 100%|>= 0%): ([^\s"]+)`,
			"the eviction threshold of $1 is $3, and must be $2", []string{"config/evictionHard.$1", "config/evictionSoft.$1", "flag/eviction-hard"}, true},
		{"eviction-signal", `unsupported eviction signal ([^\s"]+)`,
			"there is no eviction signal $1", []string{"config/evictionHard.$1", "config/evictionSoft.$1", "flag/eviction-hard"}, true},
		{"eviction-grace", `grace period must be specified for the soft eviction threshold ([^\s"]+)`,
			"evictionSoft has $1, and evictionSoftGracePeriod has no time for it", []string{"config/evictionSoftGracePeriod.$1", "config/evictionSoft.$1", "flag/eviction-soft"}, true},
		{"config-invalid", `invalid configuration: ([a-z][A-Za-z0-9]*) \(--([a-z0-9-]+)\) (.*?)(?:, path: &TypeMeta.*)?"?$`,
			"it refuses its configuration: $1 $3", []string{"config/$1", "flag/$2"}, true},
		{"config-invalid-other", `invalid configuration: (.*?)(?:, path: &TypeMeta.*)?"?$`,
			"it refuses its configuration: $1", nil, true},
	}
}

func machineRows() []row {
	return []row{
		{"cgroup-v1", `configured to not run on a host using cgroup v1`,
			"this machine has cgroup v1, which a kubelet refuses from 1.35 on: boot it with cgroup v2, or set failCgroupV1 to false", []string{"config/failCgroupV1"}, true},
		{"swap", `running with swap on is not supported`,
			"this machine has swap on: turn it off, or set failSwapOn to false", []string{"config/failSwapOn", "flag/fail-swap-on"}, true},
		// dockershim, until 1.23
		{"driver-docker", `kubelet cgroup driver: "([^"]*)" is different from docker cgroup driver: "([^"]*)"`,
			"its cgroup driver is $1 and the container runtime's is $2: they must be one", []string{"config/cgroupDriver", "flag/cgroup-driver"}, true},
		{"driver-systemd", `StartTransientUnit`,
			"its cgroup driver is systemd, and systemd makes no cgroups here: the runtime's driver must be the same, and be one that this machine has", []string{"config/cgroupDriver", "flag/cgroup-driver"}, true},
		{"port", `listen tcp (\S+): bind: address already in use`,
			"another process has its address $1: a kubelet that was started otherwise, most often", []string{"config/port", "flag/port"}, false},
		{"no-bootstrap", `unable to load bootstrap kubeconfig: (?:stat )?(\S+?): (.*?)"?$`,
			"it has no identity, and nothing to join with: $1: $2", []string{"file/$1", "flag/bootstrap-kubeconfig"}, false},
		{"no-kubeconfig", `unable to load kubeconfig: (.*?)"?$`, "its kubeconfig cannot be used: $1", []string{"flag/kubeconfig"}, false},
		{"file-missing", `failed to run Kubelet: .*?open (\S+): (no such file or directory|permission denied)`,
			"it needs the file $1: $2", []string{"file/$1"}, false},
		{"runtime-api", `unknown service runtime\.v1\.RuntimeService`,
			"the container runtime answers and has no CRI: look at disabled_plugins in /etc/containerd/config.toml, or it is too old for this kubelet", []string{"flag/container-runtime-endpoint", "config/containerRuntimeEndpoint"}, false},
		{"runtime-away", `(?:for endpoint |endpoint=)"?([^"\s]+)"?.*(?:dial unix|connection error|connect:)`,
			"the container runtime does not answer at $1: systemctl status containerd", []string{"config/containerRuntimeEndpoint", "flag/container-runtime-endpoint"}, false},
		{"driver-runc", `expected cgroupsPath to be of format "slice:prefix:name" for systemd cgroups, got "([^"]*)"`,
			"the container runtime's cgroup driver is systemd, and the kubelet's is cgroupfs: no pod starts", []string{"config/cgroupDriver", "flag/cgroup-driver"}, false},
	}
}

func clusterRows() []row {
	return []row{
		{"token", `cannot create certificate signing request: Unauthorized`,
			"the cluster does not take the bootstrap token: it is wrong or has expired, so make another (kubeadm token create) and give it as the credential", []string{"cluster/token"}, false},
		{"csr-forbidden", `cannot create certificate signing request: .*is forbidden: User "([^"]*)"`,
			"the cluster lets $1 ask for no certificate: the token's group needs the role system:node-bootstrapper", []string{"cluster/token"}, false},
		{"csr-away", `cannot create certificate signing request: Post "https://([^/"]+)[^"]*": (.*?)"?(?: logger=.*)?$`,
			"it cannot join through $1: $2", []string{"file//etc/kubernetes/bootstrap-kubelet.conf"}, false},
		{"csr-unsigned", `certificate request was not signed|timed out waiting for the condition.*csr`,
			"nobody approved or signed its certificate request: kubectl get csr", nil, false},
		{"other-node", `node "([^"]*)" is not allowed to modify node "([^"]*)"|node "([^"]*)" cannot (?:read|modify|create) node "([^"]*)"`,
			"its certificate is of node $1$3, and it registers as $2$4: one name too many", []string{"flag/hostname-override", "file//etc/kubernetes/kubelet.conf"}, false},
		{"register-labels", `is not allowed to set the following labels: ([^"]*?)"?(?: node=.*)?$`,
			"the cluster does not let a node set these labels on itself: $1", []string{"labels/$1"}, false},
		{"register-taints", `taints\[\d+\]: Duplicate value: \{"Key":"([^"]*)"`,
			"the cluster refuses the node, because the taint $1 is there twice with the same effect", []string{"taint/$1", "config/registerWithTaints"}, false},
		{"register", `Unable to register node with API server" err="(.*)" node=`,
			"it cannot register its node: $1", nil, false},
		{"node-ip", `failed to validate nodeIP: (.*?)"?(?: node=.*)?$`,
			"the node's address is not this machine's: $1", []string{"flag/node-ip"}, false},
	}
}
