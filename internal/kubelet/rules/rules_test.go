package rules

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/kubelet"
)

func parse(fields string) (*kubelet.Config, error) {
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + fields
	if inner, ok := strings.CutPrefix(fields, "{"); ok {
		text = "{apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration, " + inner
	}
	c, err := kubelet.ParseConfig(text)
	if err == nil || !strings.Contains(err.Error(), ", want ") {
		return c, err
	}

	patch := map[string]any{} // of the header itself
	if err := yaml.Unmarshal([]byte(fields), &patch); err != nil {
		return nil, err
	}
	c = kubelet.NewConfig()

	return c, c.Merge(patch)
}

// config reads the fields of a configuration.
func config(t testing.TB, fields string) *kubelet.Config {
	t.Helper()
	c, err := parse(fields)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Each row is one input that a real kubelet v1.36.3 was given; says is what it said.
func TestConfig(t *testing.T) {
	for _, c := range []struct {
		name, text, pointer, code string
		severity                  Severity
		says, hint                string
	}{
		{"misspelt field", "maxPod: 5", "/maxPod", "config-unknown-field", Error, "unknown field", "maxPods"},
		{"case", "maxpods: 5", "/maxpods", "config-unknown-field", Error, "unknown field", "maxPods"},
		{"spelt as the flag", "max-pods: 5", "/max-pods", "config-unknown-field", Error, "unknown field", "maxPods"},
		{"misspelt inner field", "authentication: {x509: {clientCAfile: /x}}", "/authentication/x509/clientCAfile", "config-unknown-field", Error, "unknown field", "clientCAFile"},
		{"field at the wrong place", "clientCAFile: /x", "/clientCAFile", "config-unknown-field", Error, "unknown field", "authentication.x509.clientCAFile"},
		{"field of a list's object", "reservedMemory: [{numanode: 0}]", "/reservedMemory/0/numanode", "config-unknown-field", Error, "unknown field", "numaNode"},
		{"nothing near", "frobnicate: 1", "/frobnicate", "config-unknown-field", Error, "unknown field", "remove it"},
		{"string for a number", "maxPods: abc", "/maxPods", "config-wrong-type", Error, "json: cannot " +
			"unmarshal string into Go struct field KubeletConfiguration.maxPods of type int32", "without quotes"},
		{"number for a duration", "syncFrequency: 10", "/syncFrequency", "config-wrong-type", Error, "json: cannot unmarshal number into Go struct field KubeletConfiguration.syncFrequency of type string", `"10"`},
		{"number for a quantity in a map of strings", "systemReserved: {cpu: -1}", "/systemReserved/cpu", "config-wrong-type", Error, "json: cannot unmarshal number into Go struct field KubeletConfiguration.systemReserved of type string", `"-1"`},
		{"number too large", "maxPods: 3000000000", "/maxPods", "config-wrong-type", Error, "json: cannot unmarshal number 3000000000 into Go struct field KubeletConfiguration.maxPods of type int32", "does not fit"},
		{"fraction", "maxPods: 1.5", "/maxPods", "config-wrong-type", Error, "number 1.5", ""},
		{"string for a bool", "failSwapOn: 'false'", "/failSwapOn", "config-wrong-type", Error, "cannot unmarshal string", "true or false"},
		{"string for a list", "clusterDNS: 10.0.0.10", "/clusterDNS", "config-wrong-type", Error, "json: cannot unmarshal string into Go struct field KubeletConfiguration.clusterDNS of type []string", ""},
		{"list for an object", "authentication: []", "/authentication", "config-wrong-type", Error, "cannot unmarshal array", ""},
		{"malformed duration", "syncFrequency: ten", "/syncFrequency", "config-bad-duration", Error, `time: invalid duration "ten"`, "90s"},
		{"malformed quantity", "systemReserved: {cpu: 1x}", "/systemReserved/cpu", "config-bad-quantity", Error, `--system-reserved value failed to parse: failed to parse quantity "1x" for "cpu" resource`, "500m"},
		{"negative quantity", "kubeReserved: {memory: '-1Gi'}", "/kubeReserved/memory", "config-bad-quantity", Error, `resource quantity for "memory" cannot be negative`, ""},
		{"unknown resource", "kubeReserved: {gpu: '1'}", "/kubeReserved/gpu", "config-unknown-resource", Error, `cannot reserve "gpu" resource`, ""},
		{"threshold above 100%", "evictionHard: {memory.available: 200%}", "/evictionHard/memory.available", "config-bad-threshold", Error, "eviction percentage threshold memory.available must be <= 100%: 200%", ""},
		{"negative threshold", "evictionHard: {memory.available: '-1%'}", "/evictionHard/memory.available", "config-bad-threshold", Error, "must be >= 0%: -1%", ""},
		{"zero threshold", "evictionHard: {memory.available: '0'}", "/evictionHard/memory.available", "config-bad-threshold", Error, "must be positive", "0%"},
		{"no threshold", "evictionHard: {memory.available: x}", "/evictionHard/memory.available", "config-bad-quantity", Error, `failed to parse quantity "x"`, ""},
		{"unknown signal", "evictionHard: {nosuch.signal: 5%}", "/evictionHard/nosuch.signal", "config-unknown-signal", Error, "unsupported eviction signal nosuch.signal", ""},
		{"misspelt signal", "evictionHard: {memory.avaliable: 5%}", "/evictionHard/memory.avaliable", "config-unknown-signal", Error, "unsupported eviction signal", "memory.available"},
		{"soft without grace", "evictionSoft: {memory.available: 5%}", "/evictionSoft/memory.available", "config-soft-without-grace", Error, "grace period must be specified for the soft eviction threshold memory.available", "evictionSoftGracePeriod"},
		{"malformed grace", "evictionSoftGracePeriod: {memory.available: 5}", "/evictionSoftGracePeriod/memory.available", "config-wrong-type", Error, "json: cannot unmarshal number into Go struct field KubeletConfiguration.evictionSoftGracePeriod of type string", ""},
		{"negative grace", "evictionSoftGracePeriod: {memory.available: -5s}", "/evictionSoftGracePeriod/memory.available", "config-bad-duration", Error, "invalid eviction grace period specified: -5s", ""},
		{"maxPods negative", "maxPods: -1", "/maxPods", "config-out-of-range", Error, "maxPods (--max-pods) -1 " +
			"must not be a negative number", ""},
		{"port", "port: 70000", "/port", "config-out-of-range", Error, "port (--port) 70000 must be between 1 " +
			"and 65535, inclusive", ""},
		{"enforce without cgroup", "enforceNodeAllocatable: [pods, system-reserved]", "/enforceNodeAllocatable/1", "config-enforcement", Error, `systemReservedCgroup (--system-reserved-cgroup) must be specified when "system-reserved"`, "systemReservedCgroup"},
		{"enforce compressible without cgroup", "enforceNodeAllocatable: [kube-reserved-compressible]", "/enforceNodeAllocatable/0", "config-enforcement", Error, "kubeReservedCgroup (--kube-reserved-cgroup) must be specified", ""},
		{"enforce both", "{enforceNodeAllocatable: [kube-reserved, kube-reserved-compressible], " +
			"kubeReservedCgroup: /x, kubeReserved: {cpu: 100m}}", "/enforceNodeAllocatable/1", "config-enforcement", Error, "cannot be specified together", ""},
		{"enforce an unknown word", "enforceNodeAllocatable: [nosuch]", "/enforceNodeAllocatable/0", "config-enforcement", Error, `option "nosuch" specified for enforceNodeAllocatable`, ""},
		{"enforce twice", "enforceNodeAllocatable: [pods, pods]", "/enforceNodeAllocatable/1", "config-enforcement", Error, "duplicated enforcements", ""},
		{"none and more", "enforceNodeAllocatable: [none, pods]", "/enforceNodeAllocatable/0", "config-enforcement", Error, "may not contain additional enforcements", ""},
		{"enforce without QoS cgroups", "{cgroupsPerQOS: false, enforceNodeAllocatable: [pods]}", "/cgroupsPerQOS", "config-enforcement", Error, "must be set to true", ""},
		{"malformed CPU list", "reservedSystemCPUs: 0-", "/reservedSystemCPUs", "config-bad-cpu-list", Error, "unable to parse reservedSystemCPUs (--reserved-cpus) 0-", ""},
		{"CPU list and cgroup", "{reservedSystemCPUs: 0-1, kubeReservedCgroup: /x}", "/reservedSystemCPUs", "config-reserved-cpus-and-cgroup", Error, "can't use reservedSystemCPUs", ""},
		{"CPUs reserved twice", "{reservedSystemCPUs: 0-1, kubeReserved: {cpu: '1'}}", "/kubeReserved/cpu", "config-cpu-reserved-twice", Warning, "silently ignores", ""},
		{"topology policy", "topologyManagerPolicy: nosuch", "/topologyManagerPolicy", "config-unknown-word", Error, `topologyManagerPolicy (--topology-manager-policy) "nosuch" must be one of`, "single-numa-node"},
		{"cpu policy", "cpuManagerPolicy: Static", "/cpuManagerPolicy", "config-unknown-word", Error, `unknown policy: "Static"`, "did you mean static?"},
		{"memory policy", "memoryManagerPolicy: static", "/memoryManagerPolicy", "config-unknown-word", Error, `unknown policy: "static"`, "did you mean Static?"},
		{"cgroup driver", "cgroupDriver: sytemd", "/cgroupDriver", "config-cgroup-driver-word", Warning, "runtime", "systemd"},
		{"static, nothing reserved", "cpuManagerPolicy: static", "/cpuManagerPolicy", "config-static-without-reserved", Error, "[cpumanager] unable to determine reserved CPU resources for static policy", "reservedSystemCPUs"},
		{"static, zero reserved", "{cpuManagerPolicy: static, kubeReserved: {cpu: '0'}}", "/cpuManagerPolicy", "config-static-without-reserved", Error, "unable to determine", ""},
		{"memory sum", "{memoryManagerPolicy: Static, kubeReserved: {memory: 512Mi}, systemReserved: {memory: " +
			"256Mi}, reservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]}", "/reservedMemory", "config-reserved-memory-sum", Error,
			`the total amount "100Mi" of type "memory" is not equal to the value "868Mi" determined by Node Allocatable feature`, "868Mi"},
		{"taint effect", "registerWithTaints: [{key: a, value: b, effect: NoSchedul}]", "/registerWithTaints/0", "config-bad-taint", Error, "invalid taint: {a b NoSchedul <nil>}", "NoSchedule"},
		{"taint twice", "registerWithTaints: [{key: a, effect: NoSchedule}, {key: a, effect: NoExecute}, {key: " +
			"a, effect: NoSchedule, value: x}]", "/registerWithTaints/2", "config-bad-taint", Error, "duplicated taints with the same key and effect", ""},
		{"DNS", "clusterDNS: [dns.example]", "/clusterDNS/0", "config-bad-address", Warning, "not an IP address", ""},
		{"quantity in a list's object", "reservedMemory: [{numaNode: 0, limits: {memory: 1x}}]", "/reservedMemory/0/limits/memory", "config-bad-quantity", Error, "failed to parse quantity", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := Check(Subject{Config: config(t, c.text)})
			found := slices.DeleteFunc(
				slices.Clone(all),
				func(f Finding) bool { return f.Rule != c.code && f.Severity != Error },
			)
			if len(found) != 1 {
				t.Fatalf("got %d findings, want one: %+v", len(found), all)
			}
			f := found[0]
			if f.Pointer != c.pointer || f.Rule != c.code || f.Severity != c.severity ||
				!strings.Contains(f.Message, c.says) ||
				!strings.Contains(f.Hint, c.hint) {
				t.Errorf("got %+v, want the finding of the row", f)
			}
		})
	}
}

// What a real kubelet starts with.
func TestPasses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":        "",
		"null is absent": "maxPods: null\nkubeReserved: null\n",
		"zero fields":    "port: 0\nreadOnlyPort: 0\nhealthzPort: 0\nmaxPods: 0\n",
		"static with CPUs": "cpuManagerPolicy: static\nreservedSystemCPUs: 0-1\ntopologyManagerPolicy: " +
			"single-numa-node\n",
		"static with cpu": "cpuManagerPolicy: static\nsystemReserved: {cpu: 100m}\n",
		"thresholds off": "evictionHard: {memory.available: 0%, nodefs.available: 100%}\nevictionSoft: " +
			"{memory.available: 0%}\n",
		"soft with grace": "evictionSoft: {memory.available: 5%}\nevictionSoftGracePeriod: " +
			"{memory.available: 1m30s}\n",
		"enforce with cgroups": "enforceNodeAllocatable: [pods, system-reserved]\nsystemReservedCgroup: " +
			"/system.slice\nsystemReserved: {cpu: 100m}\n",
		"enforce nothing":      "enforceNodeAllocatable: []\ncgroupsPerQOS: false\n",
		"one key, two effects": "registerWithTaints: [{key: a, effect: NoSchedule}, {key: a, effect: NoExecute}]\n",
		"logging": "logging: {flushFrequency: 5000000000, verbosity: 2, options: {json: " +
			"{infoBufferSize: '0'}}}\n",
		"logging, newer": "logging: {flushFrequency: 5s, vmodule: [{filePattern: a, verbosity: 1}]}\n",
		"memory by default": "memoryManagerPolicy: Static\nkubeReserved: {memory: 512Mi}\nsystemReserved: " +
			"{memory: 256Mi}\nreservedMemory: [{numaNode: 0, limits: {memory: 868Mi}}]\n",
		"memory over nodes": "memoryManagerPolicy: Static\nkubeReserved: {memory: 1Gi}\nevictionHard: " +
			"{memory.available: 1Gi}\nreservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}, {numaNode: 1, " +
			"limits: {memory: 1Gi}}]\n",
		"memory without evict": "memoryManagerPolicy: Static\nkubeReserved: {memory: 1Gi}\nevictionHard: " +
			"{nodefs.available: 5%}\nreservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n",
		"memory of the machine": "memoryManagerPolicy: Static\nkubeReserved: {memory: 1Gi}\nevictionHard: " +
			"{memory.available: 5%}\nreservedMemory: [{numaNode: 0, limits: {memory: 3Gi}}]\n",
		"rotation is off":       "containerLogMaxSize: '-1'\n",
		"no rotation, smaller":  "containerLogMaxSize: -10Mi\n",
		"flushed by default":    "logging: {flushFrequency: 0s}\n",
		"flushed by default, 0": "logging: {flushFrequency: 0}\n",
		"split streams":         "logging: {options: {text: {splitStream: true}, json: {infoBufferSize: '0'}}}\n",
		"no server":             "{enableServer: false, address: 203.0.113.9}\n",
		"no server nowhere":     "{enableServer: false, address: nosuch}\n",
		"a CPU with a sign":     "reservedSystemCPUs: '+0'\n",
		"no health":             "healthzPort: 0\nport: 10248\n",
		"health elsewhere":      "address: 198.51.100.7\nhealthzPort: 10250\n",
		"many IDs":              "userNamespaces: {idsPerPod: 1048576}\n",
		"zeros in front":        "address: 010.0.0.05\n",
		"header and such": "staticPodURLHeader: {a: [b, c]}\ntlsCurvePreferences: [29]\nqosReserved: " +
			"{memory: 50%}\nfeatureGates: {QOSReserved: true}\n",
	} {
		if problems := Check(Subject{Config: config(t, text)}); len(problems) != 0 {
			t.Errorf("%s: got %v, want no finding", name, problems)
		}
	}
}

func TestFindingsComeSorted(t *testing.T) {
	problems := Check(Subject{Config: config(t, "zzz: 1\nmaxPods: -1\naaa: 1\nkubeReserved: {gpu: '1', cpu: x}\n")})
	var pointers []string
	for _, p := range problems {
		pointers = append(pointers, p.Pointer)
	}
	if !slices.Equal(pointers, []string{"/aaa", "/kubeReserved/cpu", "/kubeReserved/gpu", "/maxPods", "/zzz"}) {
		t.Errorf("got %q, want the pointers sorted", pointers)
	}
}

// TestNewerKubelet: a kubelet newer than the tables is refused nothing that only they know. What it answers itself, and
// what no version can read, stays an error. Without a version, what no known version has is an error.
func TestNewerKubelet(t *testing.T) {
	accepts := &Accepts{Flags: map[string]bool{"max-pods": false}}
	for _, c := range []struct {
		name, fields, flag string
		version            string
		accepts            *Accepts
		want               Severity
		isNewer            bool
	}{
		{"field", "nosuch: 1", "", "1.38.0", nil, Warning, true},
		{"gate", "featureGates: {NoSuch: true}", "", "1.38.0", accepts, Warning, true},
		{"word", "topologyManagerPolicy: nosuch", "", "1.38.0", accepts, Warning, true},
		{"mode of swap", "memorySwap: {swapBehavior: Some}", "", "1.38.0", accepts, Warning, true},
		{"signal", "evictionHard: {nosuch.signal: 5%}", "", "1.38.0", accepts, Warning, true},
		{"enforcement", "enforceNodeAllocatable: [nosuch]", "", "1.38.0", accepts, Warning, true},
		{"option", "{cpuManagerPolicy: static, reservedSystemCPUs: '0', cpuManagerPolicyOptions: {nosuch: 'true'}}", "",
			"1.38.0", accepts, Warning, true},
		{"range", "oomScoreAdj: 2000", "", "1.38.0", accepts, Warning, true},
		{"flag of the tables", "", "nosuch", "1.38.0", nil, Warning, true},
		{"flag that its help lacks", "", "nosuch", "1.38.0", accepts, Error, false},
		{"wrong type", "maxPods: x", "", "1.38.0", accepts, Error, false},
		{"duration", "syncFrequency: ten", "", "1.38.0", accepts, Error, false},
		{"no version, flag that none has", "", "nosuch", "", nil, Error, false},
		{"no version, removed flag", "", "network-plugin", "", nil, Warning, false},
		{"no version, field that none has", "nosuch: 1", "", "", nil, Error, false},
		{"no version, gate that none has", "featureGates: {NoSuch: true}", "", "", nil, Error, false},
		{"no version, gate that some had", "featureGates: {CSIMigration: true}", "", "", nil, Warning, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Subject{Config: config(t, c.fields), Version: c.version, Accepts: c.accepts}
			if c.flag != "" {
				s.Flags = []Flag{{c.flag, "1"}}
			}
			found := slices.DeleteFunc(Check(s), func(f Finding) bool { return f.Effect == Deprecated })
			if len(found) != 1 || found[0].Severity != c.want || found[0].Newer != c.isNewer {
				t.Errorf("got %+v, want one finding: %s, newer %t", found, c.want, c.isNewer)
			}
		})
	}
}
