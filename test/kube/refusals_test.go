package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// refusal is an input that the kubelet minds, or should.
type refusal struct {
	name  string
	patch string // of the configuration, YAML
	flags map[string]string
	label string // a pair for --node-labels, which prelet makes of a stage
	exits bool   // the kubelet ends; else it runs, and prelet says so all the same
	says  string // the kubelet's words, which prelet uses too; of one that runs prelet's only
	code  string // of prelet's message; "" for kubelet-config
}

// refusals are one input for each rule that can be run without another machine. What prelet says to the rest is held by
// the tables of internal/kubelet/rules: what a kubelet only does that has an API server, or another machine.
func refusals() []refusal {
	return []refusal{
		{name: "a removed flag", flags: map[string]string{"network-plugin": "cni"}, exits: true, says: "unknown flag: --network-plugin", code: "kubelet-flag"},
		{name: "another one", flags: map[string]string{"pod-infra-container-image": "x"}, exits: true, says: "unknown flag: --pod-infra-container-image", code: "kubelet-flag"},
		{name: "a flag's value", flags: map[string]string{"max-pods": "many"}, exits: true, says: `invalid argument "many" for "--max-pods" flag`, code: "kubelet-flag"},
		{name: "eviction by flag", flags: map[string]string{"eviction-hard": "memory.available=1Gi"}, exits: true, says: `for "--eviction-hard" flag`, code: "kubelet-flag"},
		{name: "a misspelt field", patch: "maxPod: 5", says: "unknown field"},
		{name: "a wrong type", patch: "maxPods: abc", exits: true, says: "json: cannot unmarshal string into Go struct field KubeletConfiguration.maxPods of type int32"},
		{name: "a number for a duration", patch: "syncFrequency: 10", exits: true, says: "json: cannot unmarshal number into Go struct field KubeletConfiguration.syncFrequency of type string"},
		{name: "a duration", patch: "syncFrequency: ten", exits: true, says: `time: invalid duration "ten"`},
		{name: "a quantity", patch: "systemReserved: {cpu: 1x}", exits: true, says: `--system-reserved value failed to parse: failed to parse quantity "1x" for "cpu" resource`},
		{name: "a negative quantity", patch: "kubeReserved: {memory: '-1Gi'}", exits: true, says: `resource quantity for "memory" cannot be negative`},
		{name: "a resource", patch: "kubeReserved: {gpu: '1'}", exits: true, says: `cannot reserve "gpu" resource`},
		{name: "maxPods", patch: "maxPods: -1", exits: true, says: "maxPods (--max-pods) -1 must not be a negative number"},
		{name: "maxPods by flag", flags: map[string]string{"max-pods": "-1"}, exits: true, says: "maxPods (--max-pods) -1 must not be a negative number", code: "kubelet-flag"},
		{name: "oomScoreAdj", patch: "oomScoreAdj: 2000", exits: true, says: "oomScoreAdj (--oom-score-adj) 2000 must be between -1000 and 1000, inclusive"},
		{name: "iptables bit", patch: "iptablesDropBit: 40", exits: true, says: "iptablesDropBit (--iptables-drop-bit) 40 must be between 0 and 31, inclusive"},
		{name: "log files", patch: "containerLogMaxFiles: 1", exits: true, says: "containerLogMaxFiles"},
		{name: "log workers", patch: "containerLogMaxWorkers: -1", exits: true, says: "containerLogMaxWorkers"},
		{name: "lease", patch: "nodeLeaseDurationSeconds: -1", exits: true, says: "nodeLeaseDurationSeconds"},
		{name: "topology policy", patch: "topologyManagerPolicy: nosuch", exits: true, says: `topologyManagerPolicy (--topology-manager-policy) "nosuch" must be one of`},
		{name: "topology scope", patch: "topologyManagerScope: nosuch", exits: true, says: `topologyManagerScope (--topology-manager-scope) "nosuch" must be one of`},
		{name: "cpu policy", patch: "cpuManagerPolicy: statik", exits: true, says: `unknown policy: "statik"`},
		{name: "memory policy", patch: "memoryManagerPolicy: static", exits: true, says: `unknown policy: "static"`},
		{name: "hairpin mode", patch: "hairpinMode: nosuch", exits: true, says: `option "nosuch" specified for hairpinMode (--hairpin-mode)`},
		{name: "authorization", patch: "authorization: {mode: webhook}", exits: true, says: "unknown authorization mode webhook"},
		{name: "swap behaviour", patch: "memorySwap: {swapBehavior: UnlimitedSwap}", exits: true, says: `memorySwap.swapBehavior "UnlimitedSwap" must be one of`},
		{name: "TLS version", patch: "tlsMinVersion: TLS12", exits: true, says: `unknown tls version "TLS12"`},
		{name: "image verification", patch: "imagePullCredentialsVerificationPolicy: Sometimes", exits: true, says: `option "Sometimes" specified for imagePullCredentialsVerificationPolicy`},
		{name: "preloaded images", patch: "preloadedImagesVerificationAllowlist: [a]", exits: true, says: "can't set `preloadedImagesVerificationAllowlist`"},
		{name: "reservation policy", patch: "memoryReservationPolicy: Some", exits: true, says: `option "Some" specified for memoryReservationPolicy`},
		{name: "its gate", patch: "memoryReservationPolicy: TieredReservation", exits: true, says: "requires MemoryQoS feature gate to be enabled", code: "kubelet-gate"},
		{name: "image thresholds", patch: "imageGCLowThresholdPercent: 90", exits: true, says: "imageGCLowThresholdPercent (--image-gc-low-threshold) 90 must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) 85"},
		{name: "image age", patch: "imageMaximumGCAge: 1m", exits: true, says: "imageMaximumGCAge 1m0s must be greater than imageMinimumGCAge 2m0s"},
		{name: "parallel pulls", patch: "{serializeImagePulls: true, maxParallelImagePulls: 3}", exits: true, says: "maxParallelImagePulls cannot be larger than 1"},
		{name: "parallel pulls, nothing said of serial ones", patch: "maxParallelImagePulls: 3"},
		{name: "throttling", patch: "memoryThrottlingFactor: 1.5", exits: true, says: "memoryThrottlingFactor 1.5 must be greater than 0 and less than or equal to 1.0"},
		{name: "user namespaces", patch: "userNamespaces: {idsPerPod: 65537}", exits: true, says: "userNamespaces.idsPerPod must be a multiple of 65536"},
		{name: "enforcement without a cgroup", patch: "enforceNodeAllocatable: [system-reserved]", exits: true, says: `systemReservedCgroup (--system-reserved-cgroup) must be specified when "system-reserved"`},
		{name: "a cgroup that is not there", patch: "{enforceNodeAllocatable: [pods, system-reserved], systemReserved: {cpu: 100m}, systemReservedCgroup: /nosuch}", exits: true, says: `Failed to enforce System Reserved Cgroup Limits on "/nosuch"`, code: "kubelet-machine"},
		{name: "another one of the kubelet", patch: "{enforceNodeAllocatable: [kube-reserved-compressible], kubeReserved: {cpu: 100m}, kubeReservedCgroup: /no/such}", exits: true, says: "Failed to enforce Kube Reserved", code: "kubelet-machine"},
		{name: "a cgroup that is there", patch: "{enforceNodeAllocatable: [pods, system-reserved], systemReserved: {cpu: 100m}, systemReservedCgroup: /is/there, cgroupRoot: /is}"},
		{name: "a root of cgroups that is not there", patch: "cgroupRoot: /nosuch", exits: true, says: "has some missing paths: /sys/fs/cgroup/", code: "kubelet-machine"},
		{name: "an unknown enforcement", patch: "enforceNodeAllocatable: [nosuch]", exits: true, says: `option "nosuch" specified for enforceNodeAllocatable`},
		{name: "no QoS cgroups", patch: "cgroupsPerQOS: false", exits: true, says: "cgroupsPerQOS (--cgroups-per-qos) must be set to true"},
		{name: "a CPU list", patch: "reservedSystemCPUs: 0-", exits: true, says: "unable to parse reservedSystemCPUs (--reserved-cpus) 0-"},
		{name: "CPUs and a cgroup", patch: "{reservedSystemCPUs: '0', kubeReservedCgroup: /x}", exits: true, says: "can't use reservedSystemCPUs (--reserved-cpus) with"},
		{name: "an offline CPU", patch: "reservedSystemCPUs: 0,999", exits: true, says: "is not a subset of online-cpus", code: "kubelet-machine"},
		{name: "CPUs reserved twice", patch: "{reservedSystemCPUs: '0', kubeReserved: {cpu: 100m}}", says: "without a word"},
		{name: "static without a CPU", patch: "cpuManagerPolicy: static", exits: true, says: "[cpumanager] unable to determine reserved CPU resources for static policy"},
		{name: "static with none", patch: "{cpuManagerPolicy: static, kubeReserved: {cpu: '0'}}", exits: true, says: "[cpumanager] unable to determine reserved CPU resources for static policy"},
		{name: "memory sum", patch: "{memoryManagerPolicy: Static, kubeReserved: {memory: 512Mi}, reservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]}", exits: true, says: `the total amount "100Mi" of type "memory" is not equal to the value "612Mi" determined by Node Allocatable feature`},
		{name: "memory in percent", patch: "{memoryManagerPolicy: Static, kubeReserved: {memory: 512Mi}, evictionHard: {memory.available: 1%}, reservedMemory: [{numaNode: 0, limits: {memory: 512Mi}}]}", exits: true, says: `the total amount "512Mi" of type "memory" is not equal to the value`},
		{name: "a NUMA node", patch: "{memoryManagerPolicy: Static, kubeReserved: {memory: 512Mi}, reservedMemory: [{numaNode: 77, limits: {memory: 612Mi}}]}", exits: true, says: "references a NUMA node 77 that does not exist on this machine", code: "kubelet-machine"},
		{name: "reserved memory twice", patch: "{memoryManagerPolicy: Static, kubeReserved: {memory: 924Mi}, reservedMemory: [{numaNode: 0, limits: {memory: 512Mi}}, {numaNode: 0, limits: {memory: 512Mi}}]}", exits: true, says: "the reserved memory has a duplicate value for NUMA node 0"},
		{name: "reserved memory of zero", patch: "{memoryManagerPolicy: Static, kubeReserved: {memory: 924Mi}, reservedMemory: [{numaNode: 0, limits: {memory: 1Gi, hugepages-2Mi: 0}}]}", exits: true, says: "reserved memory may not be zero for NUMA node 0"},
		{name: "reserved memory of no use", patch: "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]", says: "no effect"},
		{name: "above capacity", patch: "kubeReserved: {memory: 9000Gi}", exits: true, says: `invalid Node Allocatable configuration. Resource "memory" has a reservation of`, code: "kubelet-machine"},
		{name: "CPUs above capacity", patch: "systemReserved: {cpu: '9000'}", exits: true, says: `invalid Node Allocatable configuration. Resource "cpu" has a reservation of`, code: "kubelet-machine"},
		{name: "an eviction signal", patch: "evictionHard: {nosuch.signal: 5%}", exits: true, says: "unsupported eviction signal nosuch.signal"},
		{name: "a threshold", patch: "evictionHard: {memory.available: 200%}", exits: true, says: "eviction percentage threshold memory.available must be <= 100%: 200%"},
		{name: "a reclaim", patch: "evictionMinimumReclaim: {memory.available: '-1Gi'}", exits: true, says: "negative eviction minimum reclaim specified for memory.available"},
		{name: "a grace period", patch: "{evictionSoft: {memory.available: 5%}, evictionSoftGracePeriod: {memory.available: -5s}}", exits: true, says: "invalid eviction grace period specified: -5s"},
		{name: "soft without grace", patch: "evictionSoft: {memory.available: 5%}", exits: true, says: "grace period must be specified for the soft eviction threshold memory.available"},
		{name: "grace without soft", patch: "evictionSoftGracePeriod: {memory.available: 1m}", says: "no soft threshold"},
		{name: "shutdown", patch: "{shutdownGracePeriod: 10s, shutdownGracePeriodCriticalPods: 20s}", exits: true, says: "must be <= shutdownGracePeriod"},
		{name: "a short shutdown", patch: "shutdownGracePeriod: 100ms", exits: true, says: "must be either zero or otherwise >= 1 sec"},
		{name: "log interval", patch: "containerLogMonitorInterval: 1s", exits: true, says: "containerLogMonitorInterval must be a positive time duration greater than or equal to 3s"},
		{name: "crash loop", patch: "crashLoopBackOff: {maxContainerRestartPeriod: 10m}", exits: true, says: "must be set between 1s and 300s"},
		{name: "sync frequency", patch: "syncFrequency: -1s", exits: true, says: "invalid sync frequency"},
		{name: "CFS period", patch: "cpuCFSQuotaPeriod: 10s", exits: true, says: "must be between 1ms and 1sec, inclusive"},
		{name: "a CPU option", patch: "{cpuManagerPolicy: static, reservedSystemCPUs: '0', cpuManagerPolicyOptions: {full-pcpus: 'true'}}", exits: true, says: `unknown CPU Manager Policy option: "full-pcpus"`},
		{name: "an alpha CPU option", patch: "{cpuManagerPolicy: static, reservedSystemCPUs: '0', cpuManagerPolicyOptions: {align-by-socket: 'true'}}", exits: true, says: "CPU Manager Policy Alpha-level Options not enabled"},
		{name: "CPU options together", patch: "{cpuManagerPolicy: static, reservedSystemCPUs: '0', cpuManagerPolicyOptions: {distribute-cpus-across-numa: 'true', prefer-align-cpus-by-uncorecache: 'true'}}", exits: true, says: "can not be used at the same time"},
		{name: "CPU options without static", patch: "cpuManagerPolicyOptions: {full-pcpus-only: 'true'}", exits: true, says: "new none policy error: None policy: received unsupported options=map[full-pcpus-only"},
		{name: "topology options without a policy", patch: "topologyManagerPolicyOptions: {prefer-closest-numa-nodes: 'true'}"},
		{name: "a topology option", patch: "{topologyManagerPolicy: restricted, topologyManagerPolicyOptions: {max-allowable-numa-nodes: '4'}}", exits: true, says: `the minimum value of "max-allowable-numa-nodes" should not be less than 8`},
		{name: "topology of devices only", patch: "topologyManagerPolicy: restricted", says: "aligns only devices"},
		{name: "an unknown gate", patch: "featureGates: {NoSuchGate: true}", exits: true, says: "unrecognized feature gate: NoSuchGate", code: "kubelet-gate"},
		{name: "a locked gate", patch: "featureGates: {NodeSwap: false}", exits: true, says: "cannot set feature gate NodeSwap to false, feature is locked to true", code: "kubelet-gate"},
		{name: "a gate that is gone", patch: "featureGates: {DynamicKubeletConfig: false}", exits: true, says: "unrecognized feature gate: DynamicKubeletConfig", code: "kubelet-gate"},
		{name: "a gate that is needed", patch: "qosReserved: {memory: 50%}", says: "no effect", code: "kubelet-gate"},
		{name: "a taint", patch: "registerWithTaints: [{key: a, value: b, effect: NoSchedul}]", exits: true, says: "invalid taint: {a b NoSchedul <nil>}"},
		{name: "a taint with a time", patch: "registerWithTaints: [{key: a, effect: NoSchedule, timeAdded: '2026-01-01T00:00:00Z'}]", exits: true, says: "taint.TimeAdded is not nil"},
		{name: "a forbidden label", label: "node-role.kubernetes.io/worker=x", exits: true, says: "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels", code: "label-forbidden"},
		{name: "a restricted label", label: "x.node-restriction.kubernetes.io/a=b", exits: true, says: "x.node-restriction.kubernetes.io/a", code: "label-forbidden"},
		{name: "a label value", label: "example.com/a=b c", exits: true, says: "a valid label must be an empty string or consist of alphanumeric characters", code: "label-invalid"},
		{name: "a long label value", label: "example.com/a=" + strings.Repeat("a", 64), exits: true, says: "must be no more than 63 bytes", code: "label-invalid"},
		{name: "a label of a feature", label: "feature.node.kubernetes.io/a=b"},
		{name: "align by socket", patch: "{featureGates: {CPUManagerPolicyAlphaOptions: true}, cpuManagerPolicy: static, reservedSystemCPUs: '0', topologyManagerPolicy: single-numa-node, cpuManagerPolicyOptions: {align-by-socket: 'true'}}", exits: true, says: "is incompatible with CPUManager"},
		{name: "pods per core", patch: "{maxPods: 60000, podsPerCore: 1}", says: "is not reached"},
		{name: "a cgroup driver", patch: "cgroupDriver: sytemd", says: "unknown"},
		{name: "DNS", patch: "clusterDNS: [dns.example]", says: "no IP address"},
		{name: "system cgroups", patch: "systemCgroups: /system", exits: true, says: "systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified"},
		{name: "once", patch: "runOnce: true", exits: true, says: "Runonce mode has been deprecated"},
		{name: "log queries", patch: "{enableSystemLogQuery: true, enableSystemLogHandler: false}", exits: true, says: "enableSystemLogHandler is required for enableSystemLogQuery"},
		{name: "log size", patch: "containerLogMaxSize: ten", exits: true, says: `failed to parse container log max size "ten"`},
		{name: "log folder", patch: "podLogsDir: /var/log//pods", exits: true, says: `pod logs path "/var/log//pods" must be normalized`},
		{name: "log format", patch: "logging: {format: xml}", exits: true, says: "Unsupported log format"},
		{name: "log modules", patch: "logging: {format: json, vmodule: [{filePattern: a, verbosity: 1}]}", exits: true, says: "Only supported for text log format"},
		{name: "traces", patch: "tracing: {endpoint: 'http://127.0.0.1:4317'}", exits: true, says: "unsupported scheme: http"},
		{name: "a sysctl", patch: "allowedUnsafeSysctls: [vm.swappiness]", exits: true, says: "are not known to be namespaced"},
		{name: "no endpoint", flags: map[string]string{"container-runtime-endpoint": ""}, exits: true, says: "the containerRuntimeEndpoint was not specified or empty", code: "kubelet-flag"},
		{name: "an address of no interface", flags: map[string]string{"node-ip": "203.0.113.9"}, says: "of no interface", code: "kubelet-machine"},
		{name: "no address", flags: map[string]string{"node-ip": "eth0"}, says: "no IP address", code: "kubelet-flag"},
		{name: "a CA that is not there", patch: "authentication: {x509: {clientCAFile: /etc/none}}", exits: true, says: "open /etc/none: no such file or directory", code: "kubelet-machine"},
		{name: "resolv.conf", patch: "resolvConf: /run/nothing", says: "/run/nothing is not there", code: "kubelet-machine"},
		{name: "the flag wins", patch: "maxPods: 100", flags: map[string]string{"max-pods": "20"}, says: "the flag wins without a word", code: "kubelet-flag"},
		{name: "nothing wrong", patch: "{maxPods: 64, kubeReserved: {memory: 256Mi}, systemReserved: {cpu: 100m}, cpuManagerPolicy: static, topologyManagerPolicy: single-numa-node}", flags: map[string]string{"node-ip": "10.0.0.5"}},
	}
}

const (
	caseBase = "/etc/prelet-case/base.yaml"
	// Without a kubeconfig the kubelet runs for itself, which is enough for all that it looks at before it joins.
	baseline = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: cgroupfs\nfailCgroupV1: false\nfailSwapOn: false\n" +
		"authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}\nauthorization: {mode: AlwaysAllow}\n"
	settled = 3 * time.Second // after /healthz answered: what ends late has ended
	patient = 20 * time.Second
)

// TestRefusals gives each bad input to the real kubelet and to prelet: both refuse it, in the same words; or the kubelet
// swallows it, and prelet does not.
func TestRefusals(t *testing.T) {
	n, err := programs(t).NewNode(t.Context(), NodeOptions{Name: "n1"})
	must(t, err)
	t.Cleanup(n.Stop)
	must(t, n.StartFakeRuntime(t.Context(), "cgroupfs"))
	must(t, n.Write(caseBase, baseline, 0o644))
	for _, g := range n.Cgroups("is/there") {
		must(t, os.MkdirAll(g, 0o755))
	}
	for _, c := range refusals() {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			var patch map[string]any
			must(t, yaml.Unmarshal([]byte(c.patch), &patch))
			said := judged(t, n, c, patch)
			log, exited := ranKubelet(t, n, c, patch)
			switch {
			case exited != c.exits:
				t.Errorf("the kubelet ended: %t, want %t:\n%s", exited, c.exits, last(log, 3000))
			case c.exits && !strings.Contains(log, c.says) && !strings.Contains(strings.ReplaceAll(log, `\"`, `"`), c.says):
				t.Errorf("the kubelet does not say %q:\n%s", c.says, last(log, 3000))
			}
			if c.says == "" {
				if len(said) > 0 {
					t.Errorf("prelet minds it: %q", said)
				}
				return
			}
			want := c.code
			if want == "" {
				want = "kubelet-config"
			}
			if !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, want+" ") && strings.Contains(s, c.says) }) {
				t.Errorf("prelet does not say %s with %q, but %q", want, c.says, said)
			}
		})
	}
}

// judged is what prelet says, a line for each message about the kubelet: code, severity, words.
func judged(t *testing.T, n *Node, c refusal, patch map[string]any) (said []string) {
	t.Helper()
	write := func(name string, v any) {
		b, err := json.Marshal(v)
		must(t, err)
		must(t, n.Write(name, string(b), 0o644))
	}
	if patch == nil {
		patch = map[string]any{}
	}
	flags := c.flags
	if flags == nil {
		flags = map[string]string{}
	}
	write("/etc/prelet-case/patch.json", patch)
	write("/etc/prelet-case/flags.json", flags)
	labels := ""
	if key, value, ok := strings.Cut(c.label, "="); ok {
		labels = fmt.Sprintf("stage \"label\" \"x\" { labels = { %q = %q } }\n", key, value)
	}
	must(t, n.Site(map[string]string{"site.hcl": labels + `
stage "detect-hw" "node" {}
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config {
    base  = file("` + caseBase + `")
    patch = jsondecode(file("/etc/prelet-case/patch.json"))
  }
  kubelet_flags {
    base  = ""
    flags = jsondecode(file("/etc/prelet-case/flags.json"))
  }
}
`}))
	r, err := n.Prelet(context.WithoutCancel(t.Context()), "plan", "-o", "json")
	must(t, err)
	var p struct {
		Diagnostics []struct{ Severity, Code, Detail string }
	}
	if err := json.Unmarshal([]byte(r.Out), &p); err != nil {
		t.Fatalf("%v: %s", err, r)
	}
	failed := false
	for _, d := range p.Diagnostics {
		if (strings.HasPrefix(d.Code, "kubelet-") || strings.HasPrefix(d.Code, "label-")) && d.Code != "kubelet-deprecated" {
			said = append(said, d.Code+" "+d.Severity+" "+d.Detail)
			failed = failed || d.Severity == "error"
		}
	}
	if c.exits && !failed {
		t.Errorf("prelet has no error: %q", said)
	}
	return said
}

// ranKubelet starts the kubelet on an input and says whether it ended by itself.
func ranKubelet(t *testing.T, n *Node, c refusal, patch map[string]any) (log string, exited bool) {
	t.Helper()
	var config map[string]any
	must(t, yaml.Unmarshal([]byte(baseline), &config))
	merged(config, patch)
	text, err := yaml.Marshal(config)
	must(t, err)
	const dir = "/var/lib/kubelet-case"
	must(t, os.RemoveAll(n.Root()+dir+"/cpu_manager_state"))
	must(t, os.RemoveAll(n.Root()+dir+"/memory_manager_state"))
	must(t, n.Write("/etc/prelet-case/config.yaml", string(text), 0o644))
	words := []string{"/usr/bin/kubelet", "--config=/etc/prelet-case/config.yaml", "--root-dir=" + dir, "--hostname-override=n1"}
	for _, name := range slices.Sorted(maps.Keys(c.flags)) {
		words = append(words, "--"+name+"="+c.flags[name])
	}
	if c.label != "" {
		words = append(words, "--node-labels="+c.label)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patient)
	defer cancel()
	// The shell looks for /healthz, waits, and ends the kubelet: what ran until then was not refused.
	script := fmt.Sprintf(`"$@" >/run/case.log 2>&1 & pid=$!
for i in $(seq 100); do
  kill -0 $pid 2>/dev/null || break
  grep -q "Started kubelet" /run/case.log && { sleep %d; break; }
  sleep 0.1
done
if kill -0 $pid 2>/dev/null; then kill -KILL $pid; wait $pid 2>/dev/null; exit 100; fi
exit 0`, int(settled.Seconds()))
	r, err := n.Run(ctx, append([]string{"sh", "-c", script, "sh"}, words...)...)
	must(t, err)
	log, err = n.Read("/run/case.log")
	must(t, err)
	return log, r.Exit != 100
}

// merged applies a merge patch without deletions.
func merged(to, patch map[string]any) {
	for name, v := range patch {
		from, isObject := v.(map[string]any)
		into, has := to[name].(map[string]any)
		if isObject && has {
			merged(into, from)
			continue
		}
		to[name] = v
	}
}
