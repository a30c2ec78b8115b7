package rules

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/tape"
	cases "github.com/prelet/prelet/internal/testing/table"
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
	must(t, err)
	return c
}

// What a real kubelet starts with.
func TestPasses(t *testing.T) {
	for name, text := range cases.YAML[map[string]string](t, `
nothing: ''
null is absent: |
  maxPods: null
  kubeReserved: null
zero fields: |
  port: 0
  readOnlyPort: 0
  healthzPort: 0
  maxPods: 0
static with CPUs: |
  cpuManagerPolicy: static
  reservedSystemCPUs: 0-1
  topologyManagerPolicy: single-numa-node
static with cpu: |
  cpuManagerPolicy: static
  systemReserved: {cpu: 100m}
thresholds off: |
  evictionHard: {memory.available: 0%, nodefs.available: 100%}
  evictionSoft: {memory.available: 0%}
soft with grace: |
  evictionSoft: {memory.available: 5%}
  evictionSoftGracePeriod: {memory.available: 1m30s}
enforce with cgroups: |
  enforceNodeAllocatable: [pods, system-reserved]
  systemReservedCgroup: /system.slice
  systemReserved: {cpu: 100m}
enforce nothing: |
  enforceNodeAllocatable: []
  cgroupsPerQOS: false
'one key, two effects': "registerWithTaints: [{key: a, effect: NoSchedule}, {key: a, effect: NoExecute}]\n"
logging: "logging: {flushFrequency: 5000000000, verbosity: 2, options: {json: {infoBufferSize: '0'}}}\n"
'logging, newer': "logging: {flushFrequency: 5s, vmodule: [{filePattern: a, verbosity: 1}]}\n"
memory by default: |
  memoryManagerPolicy: Static
  kubeReserved: {memory: 512Mi}
  systemReserved: {memory: 256Mi}
  reservedMemory: [{numaNode: 0, limits: {memory: 868Mi}}]
memory over nodes: |
  memoryManagerPolicy: Static
  kubeReserved: {memory: 1Gi}
  evictionHard: {memory.available: 1Gi}
  reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}, {numaNode: 1, limits: {memory: 1Gi}}]
memory without evict: |
  memoryManagerPolicy: Static
  kubeReserved: {memory: 1Gi}
  evictionHard: {nodefs.available: 5%}
  reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]
memory of the machine: |
  memoryManagerPolicy: Static
  kubeReserved: {memory: 1Gi}
  evictionHard: {memory.available: 5%}
  reservedMemory: [{numaNode: 0, limits: {memory: 3Gi}}]
rotation is off: "containerLogMaxSize: '-1'\n"
'no rotation, smaller': "containerLogMaxSize: -10Mi\n"
flushed by default: "logging: {flushFrequency: 0s}\n"
'flushed by default, 0': "logging: {flushFrequency: 0}\n"
split streams: "logging: {options: {text: {splitStream: true}, json: {infoBufferSize: '0'}}}\n"
no server: "{enableServer: false, address: 203.0.113.9}\n"
no server nowhere: "{enableServer: false, address: nosuch}\n"
a CPU with a sign: "reservedSystemCPUs: '+0'\n"
no health: |
  healthzPort: 0
  port: 10248
health elsewhere: |
  address: 198.51.100.7
  healthzPort: 10250
many IDs: "userNamespaces: {idsPerPod: 1048576}\n"
zeros in front: "address: 010.0.0.05\n"
header and such: |
  staticPodURLHeader: {a: [b, c]}
  tlsCurvePreferences: [29]
  qosReserved: {memory: 50%}
  featureGates: {QOSReserved: true}
`) {
		if problems := Check(Subject{Config: config(t, text)}); len(problems) != 0 {
			t.Errorf("%s: got %v, want no violation", name, problems)
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
	accepts := &tape.AcceptsAns{Flags: []string{"max-pods"}}
	for _, c := range []struct {
		name, fields, flag string
		version            string
		accepts            *tape.AcceptsAns
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
				s.Flags = []kubelet.Use{{Name: c.flag, Value: "1"}}
			}
			found := slices.DeleteFunc(Check(s), func(f Violation) bool { return f.Effect == Deprecated })
			if len(found) != 1 || found[0].Severity != c.want || found[0].Newer != c.isNewer {
				t.Errorf("got %+v, want one violation: %s, newer %t", found, c.want, c.isNewer)
			}
		})
	}
}
