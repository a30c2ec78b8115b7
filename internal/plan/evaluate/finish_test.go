package evaluate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestFinishedNode checks that the plan, and a precondition on it, contain the values that the kubelet will use, from
// any source: a policy, the base, patch, or a flag. The machine has 2 CPUs and 4Gi.
func TestFinishedNode(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Name, Version, Reserve, Base, Patch, Flags, BaseFlags string

		Want string // parts of the reservation as JSON, and of messages, by line; "!" before what must not be there,
		// "seen " before what only a precondition sees
	}](t, `
- name: patch of one threshold keeps those of the policy
  reserve: policy = "gke"
  patch: evictionHard = { "nodefs.available" = "20%" }
  want: |-
    "eviction_hard":{"imagefs.available":"15%","imagefs.inodesFree":"5%","memory.available":"100Mi","nodefs.available":"20%","nodefs.inodesFree":"5%"}
    config {"imagefs.available":"15%","imagefs.inodesFree":"5%","memory.available":"100Mi","nodefs.available":"20%","nodefs.inodesFree":"5%"}
- name: patch of the policy's threshold wins
  reserve: policy = "gke"
  patch: evictionHard = { "memory.available" = "200Mi" }
  want: |-
    "eviction_hard":{"imagefs.available":"15%","imagefs.inodesFree":"5%","memory.available":"200Mi"
    "memory":"2872Mi"
- name: patch of one threshold over a base with another
  reserve: policy = "gke"
  base: "evictionHard: {memory.available: 3Gi}\n"
  patch: evictionHard = { "nodefs.available" = "20%" }
  want: |-
    !conflict
    config {"imagefs.available":"15%","imagefs.inodesFree":"5%","memory.available":"100Mi","nodefs.available":"20%","nodefs.inodesFree":"5%"}
- name: patch of the policy's threshold over a base with it
  reserve: policy = "gke"
  base: "evictionHard: {memory.available: 3Gi}\n"
  patch: evictionHard = { "memory.available" = "200Mi" }
  want: |-
    !conflict
    config {"imagefs.available":"15%","imagefs.inodesFree":"5%","memory.available":"200Mi","nodefs.available":"10%","nodefs.inodesFree":"5%"}
- name: patch of the whole evictionHard of the base away
  reserve: policy = "gke"
  base: "evictionHard: {memory.available: 3Gi}\n"
  patch: evictionHard = null
  want: |-
    !conflict
    "memory.available":"100Mi","nodefs.available":"10%"
- name: policy over a threshold of the base
  reserve: policy = "gke"
  base: "evictionHard: {memory.available: 200Mi}\n"
  want: config {"imagefs.available":"15%","imagefs.inodesFree":"5%","memory.available":"100Mi","nodefs.available":"10%","nodefs.inodesFree":"5%"}
- name: eks, patch of one threshold
  reserve: |-
    policy = "eks"
    max_pods = 20
  patch: evictionHard = { "pid.available" = "5%" }
  want: '"memory.available":"100Mi","nodefs.available":"10%","nodefs.inodesFree":"5%","pid.available":"5%"'
- name: a policy without thresholds adds none
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  patch: evictionHard = { "nodefs.available" = "20%" }
  want: |-
    "eviction_hard":{"nodefs.available":"20%"}
    "memory":"3Gi"
- name: patch of the defaults away
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  base: "evictionHard: {memory.available: 1Gi}\n"
  patch: evictionHard = null
  want: |-
    "memory.available":"100Mi"
    "memory":"2972Mi"
- name: patch of systemReserved
  reserve: policy = "gke"
  patch: systemReserved = { memory = "512Mi" }
  want: |-
    "system_reserved":{"memory":"512Mi"}
    "memory":"2460Mi"
- name: patch of cpu
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  patch: kubeReserved = { cpu = "500m" }
  want: '"allocatable":{"cpu":"1500m"'
- name: patch of CPUs
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  patch: reservedSystemCPUs = "0"
  want: |-
    "reserved_cpus":"0"
    "allocatable":{"cpu":"1"
- name: patch of maxPods
  reserve: policy = "eks"
  patch: maxPods = 29
  want: |-
    "max_pods":29
    Policy eks reserves memory for 110 pods, and the kubelet takes 29
- name: flag of maxPods
  reserve: policy = "eks"
  flags: max-pods = 29
  want: |-
    "max_pods":29
    the kubelet takes 29
- name: patch of podsPerCore
  reserve: policy = "eks"
  patch: podsPerCore = 20
  want: |-
    "max_pods":40
    Policy eks reserves memory for 110 pods, and the kubelet takes 40
    Write max_pods = 40
- name: podsPerCore of the base
  reserve: policy = "eks"
  base: "podsPerCore: 20\n"
  want: |-
    "max_pods":40
    !The formula counts other pods
    "ephemeral-storage":"1Gi","memory":"695Mi"
- name: flag of podsPerCore
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  flags: pods-per-core = 20
  want: '"max_pods":40'
- name: podsPerCore above maxPods
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  patch: podsPerCore = 20, maxPods = 29
  want: '"max_pods":29'
- name: patch of maxPods to 0, which is its default
  reserve: policy = "eks"
  patch: maxPods = 0
  want: |-
    "max_pods":110
    !The formula counts other pods
- name: maxPods 0 of the base
  reserve: policy = "eks"
  base: |
    maxPods: 0
    podsPerCore: 20
  want: |-
    "max_pods":40
    "memory":"695Mi"
- name: flag of maxPods 0, which is 0
  reserve: policy = "eks"
  flags: max-pods = 0
  want: |-
    "max_pods":0
    the kubelet takes 0
    Remove the flag --max-pods
    !Write max_pods
- name: flag of the base of thresholds
  reserve: policy = "gke"
  baseFlags: --eviction-hard=memory.available<1Gi
  want: |-
    "eviction_hard":{"memory.available":"1Gi"}
    The base has --eviction-hard=
- name: merged defaults of the base
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  base: |
    mergeDefaultEvictionSettings: true
    evictionHard: {nodefs.available: 30%}
  want: '"memory.available":"100Mi","nodefs.available":"30%"'
- name: merged defaults of the base under a flag
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  base: "mergeDefaultEvictionSettings: true\n"
  flags: eviction-hard = "nodefs.available<10%"
  want: |-
    "eviction_hard":{"nodefs.available":"10%"}
    "memory":"3Gi"
- name: merged defaults of the base in a kubelet that has none
  version: 1.30.0
  reserve: policy = "gke"
  base: |
    mergeDefaultEvictionSettings: true
    evictionHard: {nodefs.available: 30%}
  want: config {"imagefs.available":"15%","imagefs.inodesFree":"5%","memory.available":"100Mi","nodefs.available":"30%","nodefs.inodesFree":"5%"}
- name: merged defaults of the base in a kubelet that has none, and a policy without thresholds
  version: 1.30.0
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  base: |
    mergeDefaultEvictionSettings: true
    evictionHard: {nodefs.available: 30%}
  want: |-
    "eviction_hard":{"nodefs.available":"30%"}
    "memory":"3Gi"
- name: flag of the site that ignores thresholds
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  flags: experimental-allocatable-ignore-eviction = true
  want: |-
    "memory.available":"100Mi"
    "memory":"3Gi"
    "reserved_memory":[{"limits":{"memory":"1Gi"}
- name: flag of the base that ignores thresholds
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  baseFlags: --experimental-allocatable-ignore-eviction
  want: '"memory":"3Gi"'
- name: flag that does not ignore thresholds
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  flags: experimental-allocatable-ignore-eviction = false
  want: '"memory":"2972Mi"'
- name: flag of the site of thresholds
  reserve: policy = "gke"
  flags: eviction-hard = "nodefs.available<20%"
  want: |-
    "eviction_hard":{"nodefs.available":"20%"}
    The site has --eviction-hard=
- name: flag of the base of an amount
  reserve: |-
    policy = "static"
    static {
    cpu = 1
    }
  baseFlags: --system-reserved=memory=1Gi
  want: |-
    "system_reserved":{"memory":"1Gi"}
    "memory":"2972Mi"
- name: flag of the base of CPUs
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  baseFlags: --reserved-cpus=0-1
  want: |-
    reserve-refused
    Too little cpu is left to pods
- name: patch of all memory
  reserve: policy = "gke"
  patch: systemReserved = { memory = "3Gi" }
  want: |-
    reserve-refused
    Too little memory is left to pods
    allocatable -100Mi
    exit 30
- name: flag of all memory
  reserve: policy = "gke"
  flags: kube-reserved = "memory=4Gi"
  want: |-
    reserve-refused
    allocatable -100Mi
- name: flag below the floor
  reserve: |-
    policy = "gke"
    floor = { memory = "1500Mi" }
  flags: kube-reserved = "cpu=100m"
  want: |-
    reserve-refused
    floor.memory is not kept
    0 reserved in all
- name: patch above the cap
  reserve: |-
    policy = "gke"
    cap = { memory = "512Mi" }
  patch: systemReserved = { memory = "1Gi" }
  want: |-
    cap.memory is not kept
    1536Mi reserved in all
- name: the base takes too much, patch gives it back
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  base: "systemReserved: {cpu: \"2\"}\n"
  patch: systemReserved = { cpu = "100m" }
  want: |-
    !reserve-refused
    "allocatable":{"cpu":"1900m"
- name: patch of the last threshold away
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  base: |
    evictionHard: {memory.available: 1Gi}
    xa: null
  patch: evictionHard = { "memory.available" = null }
  want: |-
    config {}
    evictionHard has no threshold
    "memory":"3Gi"
- name: patch of a threshold that is off
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  patch: evictionHard = { "memory.available" = "0%", "nodefs.available" = "10%" }
  want: |-
    Thresholds of evictionHard are off: memory.available
    !No threshold
- name: flag of thresholds that are off
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  flags: eviction-hard = "memory.available<100%,nodefs.available<0%"
  want: 'Thresholds of evictionHard are off: memory.available, nodefs.available'
- name: flag of no threshold
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  flags: eviction-hard = ""
  want: evictionHard has no threshold
- name: patch of a threshold that is not there away
  reserve: |-
    policy = "static"
    static {
    memory = "1Gi"
    }
  patch: evictionHard = { "memory.available" = null }
  want: |-
    config null
    "memory":"2972Mi"
    !No threshold
- name: no stage reserve
  base: |
    evictionHard: {memory.available: 3Gi}
    systemReserved: {memory: 1Gi}
  patch: kubeReserved = { cpu = "500m" }, maxPods = 33
  want: |-
    seen "kube_reserved":{"cpu":"500m"}
    seen "system_reserved":{"memory":"1Gi"}
    seen "eviction_hard":{"memory.available":"3Gi"
    seen "max_pods":33
    seen "policy":null
    seen "allocatable":null
- name: 'no stage reserve: a flag, and a list of CPUs'
  patch: kubeReserved = { cpu = "500m", memory = "1Gi" }, reservedSystemCPUs = "0"
  flags: max-pods = "17"
  want: |-
    seen "kube_reserved":{"memory":"1Gi"}
    seen "reserved_cpus":"0"
    seen "max_pods":17
- {name: 'no stage reserve: podsPerCore', patch: podsPerCore = 5, want: seen "max_pods":10}
- name: taints of patch
  patch: registerWithTaints = [{ key = "z", effect = "NoSchedule" }]
  want: taint z:NoSchedule
- name: taints of the base, taken away
  base: "registerWithTaints: [{key: b, effect: NoSchedule}]\n"
  patch: registerWithTaints = []
  want: '!taint b:NoSchedule'
- name: taints of the base, deleted
  base: "registerWithTaints: [{key: b, effect: NoSchedule}]\n"
  patch: registerWithTaints = null
  want: '!taint b:NoSchedule'
- name: taints of patch next to the flag
  patch: registerWithTaints = [{ key = "z", effect = "NoSchedule" }]
  baseFlags: --register-with-taints=a=b:NoSchedule
  want: |-
    error conflict
    registerWithTaints has no effect here
`) {
		t.Run(c.Name, func(t *testing.T) {
			reserve := ""
			if c.Reserve != "" {
				reserve = "stage \"reserve\" \"r\" {\n" + c.Reserve + "\n}\n"
			}
			answers := ""
			if c.Version != "" {
				answers = fmt.Sprintf("kubelet => {\"value\":{\"version\":%q}}\n", c.Version)
			}
			p := planSite(t, fmt.Sprintf(`
stage "restart" "kubelet" {
  precondition {
    condition     = jsonencode(node.reserved) == "" # always false: it shows what it sees
    error_message = "SEEN ${jsonencode(node.reserved)} ${join(" ", [for t in node.taints : "taint ${t}"])} END"
  }
}
stage "detect-hw" "node" {}
%sstage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config {
    base  = %q
    patch = { %s }
  }
  kubelet_flags {
    base  = %q
    flags = { %s }
  }
}
`, reserve, testKubeletConfig+c.Base, c.Patch, fmt.Sprintf("KUBELET_EXTRA_ARGS=%q\n", c.BaseFlags), c.Flags), answers)
			reserved, _ := json.Marshal(p.Node.Reserved)
			eviction, _ := json.Marshal(p.Node.Config["evictionHard"])
			messages := showDiagnostics(p.Diagnostics)
			var plan strings.Builder
			fmt.Fprintf(&plan, "%s\nconfig %s\nexit %d\n", reserved, eviction, origin.Code(p.Diagnostics).Exit())
			for _, taint := range p.Node.Taints {
				fmt.Fprintf(&plan, "taint %s\n", taint)
			}
			for _, want := range strings.Split(c.Want, "\n") {
				if part, ok := strings.CutPrefix(want, "seen "); ok {
					if !strings.Contains(messages, part) {
						t.Errorf("a precondition sees %s\nwant %s", messages, part)
					}
					continue
				}
				part, isAbsent := strings.CutPrefix(want, "!")
				if strings.Contains(plan.String()+messages, part) == isAbsent {
					t.Errorf("got %s%s\nwant %q", plan.String(), messages, want)
				}
				_, seen, isSeen := strings.Cut(messages, "SEEN ")
				seen, _, _ = strings.Cut(seen, " END")
				ofNode := slices.ContainsFunc(
					[]string{`"eviction_hard`, `"allocatable`, "taint "},
					func(p string) bool { return strings.HasPrefix(part, p) },
				)
				if isSeen && ofNode && strings.Contains(seen, part) == isAbsent {
					t.Errorf("a precondition sees %s\nwant %q", seen, want)
				}
			}
		})
	}
}

// TestFinishedNodeWithDropIns checks that the kubelet merges the image's drop-ins next to prelet's own, in the order
// of their names, over a configuration whose evictionHard has its defaults already.
func TestFinishedNodeWithDropIns(t *testing.T) {
	const dir = "/etc/kubernetes/kubelet.conf.d"
	const site = `
stage "detect-hw" "node" {}
stage "reserve" "r" {
  policy = "static"
  static { memory = "1Gi" }
}
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config {
    layout = "drop-in"
    patch  = { evictionHard = { "nodefs.available" = "20%" }, maxPods = 64 }
  }
}
`
	text := func(name, fields string) string { return original(name, testKubeletConfig+fields) }
	run := func(answers ...string) desired.Reserved {
		p := planSite(t, site, strings.Join(answers, ""))
		if p.Node.Reserved == nil || !p.Complete {
			t.Fatalf("got %v, want a complete plan", p.Diagnostics)
		}

		return *p.Node.Reserved
	}

	file := text("config.yaml", "kubeReserved: {cpu: 100m}\n")
	got := run(
		file,
		`drop-ins `+dir+` => {"value":{"paths":["`+dir+`/10-a.conf","`+dir+`/90-prelet.conf","`+dir+`/95-b.conf"]}}`+"\n",
		text("10-a.conf", "systemReserved: {memory: 512Mi}\nmaxPods: 30\n"),
		text("95-b.conf", "maxPods: 50\n"),
	)
	want := map[string]string{"cpu": "1900m", "memory": "2460Mi"}
	if !maps.Equal(got.Allocatable, want) || got.MaxPods != 50 || len(got.EvictionHard) != 5 ||
		got.EvictionHard["nodefs.available"] != "20%" {
		t.Errorf(
			"with drop-ins of the image: got %+v, want allocatable %v, 50 pods, the kubelet's thresholds and "+
				"nodefs 20%%",
			got,
			want,
		)
	}
	if older := run(file); older.MaxPods != 64 || older.Allocatable["memory"] != "2972Mi" {
		t.Errorf("in a recording without that question: got %+v, want 64 pods and 2972Mi", older)
	}

	late := run(
		text("config.yaml", "kubeReserved: {cpu: 100m}\nevictionHard: {nodefs.available: 30%}\n"),
		`drop-ins `+dir+` => {"value":{"paths":["`+dir+`/10-a.conf"]}}`+"\n",
		text("10-a.conf", "mergeDefaultEvictionSettings: true\n"),
	)
	if len(late.EvictionHard) != 1 || late.Allocatable["memory"] != "3Gi" {
		t.Errorf("with mergeDefaultEvictionSettings in a drop-in: got %v, %v; want nodefs.available alone, and 3Gi",
			late.EvictionHard, late.Allocatable)
	}
}

// TestEffectiveWithOwnDropIn checks that the configuration by which a kubelet is judged later has the drop-in that the
// site writes as a file.
func TestEffectiveWithOwnDropIn(t *testing.T) {
	const dir = "/etc/kubernetes/kubelet.conf.d"
	p := planSite(t, `
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { layout = "drop-in" }
  file "own" {
    path    = "`+dir+`/95-own.conf"
    content = `+strconv.Quote(testKubeletConfig+"healthzPort: 20248\n")+`
  }
}
`, original("config.yaml", testKubeletConfig)+`drop-ins `+dir+` => {"value":{"paths":[]}}`)
	if got := fmt.Sprint(p.Node.Effective["healthzPort"]); !p.Complete || got != "20248" {
		t.Errorf("got healthzPort %s and %v, want 20248 and a complete plan", got, p.Diagnostics)
	}
}
