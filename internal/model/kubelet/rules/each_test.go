package rules

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/model/tape"
)

func yes() *bool { b := true; return &b }

// single is a machine of four CPUs and 8 GiB.
func single() *MachineFacts {
	return &MachineFacts{
		CPUs:        []int{0, 1, 2, 3},
		MemoryBytes: 8 << 30,
		NUMA:        []int{0},
		Addresses:   []netip.Addr{netip.MustParseAddr("198.51.100.7")},
		Cgroup:      2,
	}
}

func with(f func(*MachineFacts)) *MachineFacts {
	m := single()
	f(m)
	return m
}

// machineSpec is a machine in testdata/each.yaml: fields that differ from single's, and what the functions return.
type machineSpec struct {
	*MachineFacts

	Paths   *[]string `json:"paths"` // all that exist
	Program *Program  `json:"program"`
	Logind  *struct {
		Missing, ReadOnly bool
		Delay, LaterDelay metav1.Duration
		Later             string
	} `json:"logind"`
}

func (s machineSpec) machine() *MachineFacts {
	m := s.MachineFacts
	if s.Paths != nil {
		m.Exists = func(p string) (bool, bool) { return slices.Contains(*s.Paths, p), true }
	}
	if s.Program != nil {
		m.LookUpProgram = func(string) (Program, bool) { return *s.Program, true }
	}
	if l := s.Logind; l != nil {
		m.Logind = func() (Logind, bool) {
			return Logind{l.Missing, l.Delay.Duration, l.ReadOnly, l.Later, l.LaterDelay.Duration}, true
		}
	}
	return m
}

// input is what a rule is checked with. A field that is missing in JSON keeps its value.
type input struct {
	Version        string          `json:"version"`
	Config         *string         `json:"config"`
	Flags          []string        `json:"flags"` // NAME=VALUE; NAME without a value; NAME WORD
	Machine        json.RawMessage `json:"machine"`
	Refused        string          `json:"refused"`
	Part           bool            `json:"part"`
	DropInVariable *bool           `json:"drop_in_variable"`

	Accepts *tape.AcceptsAns `json:"accepts"`
}

// example is an input that one rule rejects, and the fields with which it is right.
type example struct {
	input

	Rule     string          `json:"rule"`
	Place    string          `json:"place"` // a pointer, or --flag
	Message  string          `json:"message"`
	Right    json.RawMessage `json:"right"`
	Severity Severity        `json:"severity"`
	Hint     string          `json:"hint"`
}

func examples(t testing.TB) (out []example) {
	t.Helper()
	text, err := os.ReadFile("testdata/each.yaml")
	must(t, err)
	must(t, yaml.UnmarshalStrict(text, &out))
	return out
}

func (in input) flags() (out []kubelet.Use) {
	for _, f := range in.Flags {
		words := []kubelet.Word{{Text: "--" + f}}
		if name, next, isSpaced := strings.Cut(f, " "); isSpaced && !strings.Contains(name, "=") {
			words = []kubelet.Word{{Text: "--" + name}, {Text: next}}
		}
		out = append(out, kubelet.FlagsOf(words).Parsed()...)
	}
	return out
}

func (in input) subject(t testing.TB) Subject {
	t.Helper()
	s := Subject{
		Flags:          in.flags(),
		Version:        in.Version,
		Dir:            "/var/lib/kubelet",
		Plugins:        []string{"ecr"},
		Part:           in.Part,
		DropInVariable: in.DropInVariable,
		Accepts:        in.Accepts,
	}
	if len(in.Machine) > 0 && string(in.Machine) != "null" {
		spec := machineSpec{MachineFacts: single()}
		must(t, yaml.UnmarshalStrict(in.Machine, &spec))
		s.Machine = spec.machine()
	}
	if in.Config != nil {
		s.Config = config(t, *in.Config)
	} else if len(in.Machine) > 0 {
		s.Config = config(t, "")
	}
	if in.Refused != "" {
		s.CheckFile = func(string, string) (string, bool) { return in.Refused, true }
	}
	return s
}

// TestEach triggers every rule, and passes a similar input that the rule accepts.
func TestEach(t *testing.T) {
	triggered := map[string]bool{}
	for _, e := range examples(t) {
		text, err := json.Marshal(e)
		must(t, err)
		found := Check(e.subject(t))
		at := slices.IndexFunc(found, func(f Violation) bool { return f.Rule == e.Rule })
		if at < 0 {
			t.Errorf("%s: got %+v, want %s", text, found, e.Rule)
			continue
		}
		triggered[e.Rule] = true
		place := found[at].Pointer
		if found[at].Flag != "" {
			place = "--" + found[at].Flag
		}
		if place != e.Place || !strings.Contains(found[at].Message, e.Message) {
			t.Errorf("%s: got %+v, want %s with %q", text, found[at], e.Place, e.Message)
		}

		if e.Severity != "" {
			checkAlone(t, e, found)
		}
		if e.Right == nil {
			continue
		}
		right := e.input
		right.Flags = slices.Clone(right.Flags)
		must(t, yaml.UnmarshalStrict(e.Right, &right))
		found = Check(right.subject(t))
		if i := slices.IndexFunc(found, func(f Violation) bool { return f.Rule == e.Rule }); i >= 0 {
			t.Errorf("%s: got %+v with right, want no %s", text, found[i], e.Rule)
		}
	}
	for _, r := range All() {
		if !triggered[r.ID] {
			t.Errorf("got no example of %s in testdata/each.yaml, want one", r.ID)
		}
	}
}

// checkAlone compares the severity and the hint of the only violation that is of the example's rule or an error.
func checkAlone(t *testing.T, e example, found []Violation) {
	t.Helper()
	found = slices.DeleteFunc(found, func(f Violation) bool { return f.Rule != e.Rule && f.Severity != Error })
	if len(found) != 1 || found[0].Severity != e.Severity || !strings.Contains(found[0].Hint, e.Hint) {
		t.Errorf("%s: got %+v, want one violation: %s, with the hint %q", *e.Config, found, e.Severity, e.Hint)
	}
}

// If the version is unknown, a rule that an older kubelet does not have is not an error.
func TestUnknownVersion(t *testing.T) {
	for _, e := range examples(t) {
		s := e.subject(t)
		s.Version, s.Accepts = "", nil
		for _, f := range Check(s) {
			i := slices.IndexFunc(All(), func(r Rule) bool { return r.ID == f.Rule })
			if r := All()[i]; r.Since > minMinor && f.Severity == Error {
				t.Errorf("got error %+v of 1.%d, want a warning", f, r.Since)
			}
		}
	}
	v1 := with(func(m *MachineFacts) { m.Cgroup = 1 })
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
		if r.ID == "" || r.Summary == "" || r.Source == "" || len(r.checks) == 0 || r.Severity == "" {
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

// TestTable: each place of a rule has a condition or a function, and each condition and function is in the table.
func TestTable(t *testing.T) {
	for _, r := range All() {
		for _, c := range r.checks {
			if isFunction := c.find != nil; isFunction == (c.where != "" && len(c.conditions) > 0) {
				t.Errorf("%s, at %q: got %d conditions and function %t, want one of both",
					r.ID, c.where, len(c.conditions), isFunction)
			}
		}
	}

	names := slices.Concat(sortedKeys(conditions), sortedKeys(parametric), sortedKeys(finders))
	words := strings.Fields(table)
	for _, name := range names {
		if !slices.Contains(words, name) {
			t.Errorf("got no %s in rules.txt, want it there", name)
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
		for _, f := range Check(Subject{Config: config(t, kubeadm), Version: v, Machine: m, Flags: []kubelet.Use{{Name: "node-ip", Value: "198.51.100.7"}, {Name: "bootstrap-kubeconfig", Value: "/x"}}}) {
			t.Errorf("%s: got %+v, want no violation", v, f)
		}
	}
}

func TestMachineOf(t *testing.T) {
	p := func(s string) *string { return &s }
	total := int64(5)
	f := &tape.Facts{
		CPU:    tape.CPU{Cores: []tape.CPUCore{{CPUs: []int{1, 3}}, {CPUs: []int{0}}}},
		Memory: tape.Memory{TotalBytes: &total},
		NUMA:   []tape.NUMANode{{ID: 2}},
		Interfaces: map[string]tape.Interface{
			"eth0": {IPv4: []string{"198.51.100.7"}, IPv6: []string{"2001:db8::1"}},
		},
		Runtime: tape.Runtime{Name: p("containerd"), CgroupDriver: p("systemd")},
	}
	m := NewMachine(f, tape.KubeletAns{Cgroup: 2, Swap: yes()})
	if !slices.Equal(m.CPUs, []int{0, 1, 3}) || m.MemoryBytes != 5 || !slices.Equal(m.NUMA, []int{2}) ||
		len(m.Addresses) != 2 ||
		m.Runtime != "containerd" ||
		m.CgroupDriver != "systemd" ||
		m.RuntimeVersion != "" ||
		m.Cgroup != 2 ||
		!*m.Swap {
		t.Errorf("got %+v, want the machine of the facts", m)
	}
	if m := NewMachine(nil, tape.KubeletAns{}); m.CPUs != nil || m.Cgroup != 0 {
		t.Errorf("got %+v, want an unknown machine", m)
	}
	// What the runtime said counts before its configuration, and both before the facts, which have that only.
	r := &tape.RuntimeAns{Endpoint: "unix:///x", Name: "containerd", Version: "1.7.2", Driver: "cgroupfs"}
	if m := NewMachine(
		f,
		tape.KubeletAns{Runtime: r},
	); m.RuntimeVersion != "1.7.2" || m.CgroupDriver != "cgroupfs" || m.RuntimeReports ||
		m.Endpoint != "unix:///x" {
		t.Errorf("got %+v, want the runtime's configuration", m)
	}
	r.Reported = "systemd"
	if m := NewMachine(nil, tape.KubeletAns{Runtime: r}); m.CgroupDriver != "systemd" || !m.RuntimeReports {
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
		if i := slices.IndexFunc(found, func(f Violation) bool { return f.Rule == "machine-cgroup-missing" }); i < 0 ||
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

// FuzzCheck: whatever a configuration and flags hold, they are checked without a panic, and twice the same.
func FuzzCheck(f *testing.F) {
	for _, e := range examples(f) {
		flag, text := kubelet.Use{}, ""
		if flags := e.flags(); len(flags) > 0 {
			flag = flags[0]
		}
		if e.Config != nil {
			text = *e.Config
		}
		f.Add(text, flag.Name, flag.Value, e.Version)
	}
	f.Fuzz(func(t *testing.T, text, name, value, version string) {
		c, err := parse(text)
		if err != nil {
			return
		}
		s := Subject{Config: c, Flags: []kubelet.Use{{Name: name, Value: value}}, Version: version, Machine: single()}
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
		Flags:   []kubelet.Use{{Name: "node-ip", Value: "198.51.100.7"}},
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
			must(t, err)
			must(t, c.Merge(v.(map[string]any)))
			s := Subject{Config: c, Version: fmt.Sprintf("1.%d.0", h.Since()-1), Machine: single()}
			for _, f := range Check(s) {
				if f.Rule != otherVersion {
					t.Errorf("%v, kubelet %s: got %+v; want %s alone", v, s.Version, f, otherVersion)
				}
			}
		}
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
