package known

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	cases "github.com/prelet/prelet/internal/testing/table"
)

// describe returns what the tables have of a flag, a field or a gate in a version.
func describe(kind, name string, minor int) string {
	var words []string
	add := func(is bool, word string) {
		if is {
			words = append(words, word)
		}
	}
	isThere := false
	switch kind {
	case "flag":
		var f Flag
		f, isThere = FlagAt(name, minor)
		add(f.Bool, "bool")
		add(f.Hidden, "hidden")
		add(f.Deprecated, "deprecated")
		add(f.Field != "", "sets "+f.Field)
		add(f.Message != "", f.Message)
	case "field":
		var f Field
		f, isThere = FieldAt(name, minor)
		add(true, string(f.Type))
		add(f.Default != "", f.Default)
	case "gate":
		var g Gate
		g, isThere = GateAt(name, minor)
		add(true, g.Stage)
		add(g.On, "on")
		add(g.Locked, "locked")
	}
	if !isThere {
		return "none"
	}
	return strings.Join(words, " ")
}

// What Kubernetes' changelogs and documentation say, to hold the generator to.
func TestThings(t *testing.T) {
	for thing, want := range cases.YAML[map[string]string](t, `
flag network-plugin 23: deprecated will be removed along with dockershim.
flag network-plugin 24: none
flag container-runtime 26: deprecated will be removed in 1.27 as the only valid value is 'remote'
flag container-runtime 27: none
flag pod-infra-container-image 34: deprecated will be removed in 1.35. Image garbage collector will get sandbox image information from CRI.
flag pod-infra-container-image 35: none
flag dynamic-config-dir 24: none
flag log-dir 25: deprecated klog's, removed in 1.26
flag log-dir 26: none
flag logtostderr 20: bool
flag config-dir 27: none
flag config-dir 28: ''
flag max-pods 20: deprecated sets maxPods
flag max-pods 36: deprecated sets maxPods
flag authentication-token-webhook-cache-ttl 36: deprecated sets authentication.webhook.cacheTTL
flag fail-cgroupv1 36: bool sets failCgroupV1
flag v 36: sets logging.verbosity
flag node-labels 36: ''
flag node-ip 36: ''
flag register-with-taints 22: ''
flag register-with-taints 23: deprecated sets registerWithTaints
flag provider-id 36: sets providerID
flag allow-privileged 20: none
flag experimental-dockershim-root-directory 23: hidden
field failCgroupV1 30: none
field failCgroupV1 31: bool false
field failCgroupV1 35: bool true
field memorySwap.swapBehavior 21: none
field memorySwap.swapBehavior 22: string
field seccompDefault 36: bool false
'field registerWithTaints[].effect 22': none
'field registerWithTaints[].effect 23': string
field maxPods 20: int32 110
field authorization.mode 36: string Webhook
field imagePullCredentialsVerificationPolicy 36: string
field logging.options.json.splitStream 36: bool
field logging.sanitization 24: none
'field reservedMemory[].limits 21': quantities
field staticPodURLHeader 20: stringlists
field syncFrequency 36: duration 1m0s
field oomScoreAdj 36: int32 -999
field mergeDefaultEvictionSettings 32: none
field kubeReserved 36: strings
field containerRuntimeEndpoint 26: none
field containerRuntimeEndpoint 27: string unix:///run/containerd/containerd.sock
field maxPod 36: none
gate NodeSwap 21: none
gate NodeSwap 28: beta
gate NodeSwap 34: ga on locked
gate DynamicKubeletConfig 26: none
gate KubeletCgroupDriverFromCRI 34: ga on locked
gate RotateKubeletServerCertificate 36: beta on
# its default is a named constant there
gate ContextualLogging 30: beta on
gate AllAlpha 36: alpha
# of client-go
gate InOrderInformers 36: ga on locked
# of the apiserver library
gate APIResponseCompression 36: beta on
# on only with compatibility 1.37
gate DRAFractionalCapacityRange 37: beta
gate NoSuchGate 36: none
`) {
		words := strings.Fields(thing)
		minor, _ := strconv.Atoi(words[2])
		if got := describe(words[0], words[1], minor); got != want {
			t.Errorf("%s in 1.%d: got %q, want %q", words[1], minor, got, want)
		}
	}
	for name, want := range map[string]string{"register-with-taints": "23 true", "max-pods": "0 true", "node-ip": "0 false"} {
		minor, ok := FlagDeprecated(name)
		if got := fmt.Sprint(minor, ok); got != want {
			t.Errorf("--%s is deprecated since: got %s, want %s", name, got, want)
		}
	}
}

func TestWhen(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"network-plugin", "until 1.23"}, {"config-dir", "since 1.28"}, {"node-ip", "always"},
	} {
		if h, ok := FlagHistory(c.name); !ok || h.When() != c.want {
			t.Errorf("--%s is there %s, want %s", c.name, h.When(), c.want)
		}
	}
	if h, ok := FieldHistory("logging.sanitization"); !ok || h.When() != "until 1.23" {
		t.Errorf("got %v", h)
	}
	if _, ok := FlagHistory("nosuch"); ok {
		t.Error("there is a flag nosuch")
	}
}

func TestMinor(t *testing.T) {
	for _, c := range cases.YAML[[]struct {
		Text string
		Want int
		OK   bool
	}](t, `
- {text: v1.36.3, want: 36, ok: true}
- {text: '1.33', want: 33, ok: true}
- {text: v1.29.15-gke.100, want: 29, ok: true}
- {text: 1.31+, want: 31, ok: true}
- {text: '28', want: 28, ok: true}
- {}
- {text: '2.1'}
- {text: 1.x}
- {text: 1.36x}
- {text: latest}
- {text: v1, want: 1, ok: true}
`) {
		if n, ok := Minor(c.Text); n != c.Want || ok != c.OK {
			t.Errorf("%q: %d, %v; want %d, %v", c.Text, n, ok, c.Want, c.OK)
		}
	}
}

func TestCheckVersion(t *testing.T) {
	for _, c := range []struct{ version, want string }{
		{"1.36", ""},
		{"v1.36.3", ""},
		{"", "write a version of Kubernetes"},
		{"36", "write a version of Kubernetes"},
		{"new.est", "write a version of Kubernetes"},
		{"1.3", "this prelet knows the kubelets from"},
		{"1.99", ""},
	} {
		err := CheckVersion(c.version)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("CheckVersion(%q): got %v, want an error with %q, or none for \"\"", c.version, err, c.want)
		}
	}
}

// TestTable reads every line for every version, so that a table of another shape is not shipped.
func TestTable(t *testing.T) {
	oldest, _ := Range()
	newest := Newest()
	if oldest > 28 || newest < 36 || newest-oldest+1 != len(loadTable().minors) {
		t.Fatalf("it reaches from 1.%d to 1.%d", oldest, newest)
	}
	types := []Type{
		String,
		Bool,
		Int32,
		Int64,
		Uint32,
		Number,
		Duration,
		DurationOrInt,
		Quantity,
		Object,
		ObjectList,
		Strings,
		Bools,
		Quantities,
		StringLists,
		StringList,
		IntList,
	}
	for m := oldest; m <= newest; m++ {
		if len(Flags(m)) < 120 || len(Fields(m)) < 100 || len(Gates(m)) < 90 {
			t.Errorf("1.%d has %d flags, %d fields, %d gates", m, len(Flags(m)), len(Fields(m)), len(Gates(m)))
		}
		for _, name := range Fields(m) {
			f, _ := FieldAt(name, m)
			if !slices.Contains(types, f.Type) {
				t.Errorf("%s in 1.%d has type %q", name, m, f.Type)
			}
		}
		for _, name := range Flags(m) {
			f, _ := FlagAt(name, m)
			if _, ok := FieldAt(f.Field, m); f.Field != "" && !ok {
				t.Errorf("--%s in 1.%d sets %s, which there is not", name, m, f.Field)
			}
		}
		for _, name := range Gates(m) {
			g, _ := GateAt(name, m)
			if !slices.Contains([]string{"alpha", "beta", "ga", "deprecated"}, g.Stage) {
				t.Errorf("%s in 1.%d has stage %q", name, m, g.Stage)
			}
		}
	}
	if a, _ := FlagAt("max-pods", newest+5); a.Field != "maxPods" {
		t.Error("a version newer than the table has no flags")
	}
	if _, ok := FlagAt("network-plugin", 3); !ok {
		t.Error("a version older than the table has no flags")
	}
}

// TestParse: each line of the table is read, and the table has no other entries.
func TestParse(t *testing.T) {
	lines := map[string]int{}
	for line := range strings.Lines(text) {
		if kind, _, ok := strings.Cut(line, "\t"); ok && kind != "minors" && kind != "prerelease" {
			lines[kind]++
		}
	}

	for _, kind := range []string{"field", "flag", "gate", "needs"} {
		if got := len(loadTable().states[kind]); got != lines[kind] || got == 0 {
			t.Errorf("got %d names of kind %s, want one for each of %d lines", got, kind, lines[kind])
		}
	}
	if len(loadTable().states) != len(lines) {
		t.Errorf("got %d kinds, want the %d of the text", len(loadTable().states), len(lines))
	}
}

// TestPrerelease takes the table of a version that is known only from an alpha release.
func TestPrerelease(t *testing.T) {
	made := loadTable
	t.Cleanup(func() { loadTable = made })
	fabricated := parse("minors\t37 38\nprerelease\t38=1.38.0-alpha.2\nfield\told\t37=string\nfield\tnew\t38=string\n")
	loadTable = func() table { return fabricated }

	if got := []string{Describe(37), Describe(38), Prerelease(37), Prerelease(38)}; !slices.Equal(got,
		[]string{"1.37", "1.38 (alpha.2)", "", "1.38.0-alpha.2"}) {
		t.Errorf("got %q; want only 1.38 with its release", got)
	}
	h, _ := FieldHistory("new")
	if got := h.When(); got != "since 1.38 (alpha.2)" {
		t.Errorf("a new field: got %q, want since 1.38 (alpha.2)", got)
	}
	for version, want := range cases.YAML[map[string]bool](t, `
'': false
1.37.9: false
'1.37': false
'1.38': true
1.38.0-alpha.2: false
v1.38.0-alpha.2: false
1.38.0-alpha.3: true
1.38.0: true
v1.38.1: true
'1.39': true
v2.0.0: true
master: true
`) {
		if got := IsNewer(version); got != want {
			t.Errorf("is %q newer than the tables: got %t, want %t", version, got, want)
		}
	}
	if _, newest := Range(); newest != 37 || Newest() != 38 {
		t.Errorf("got %d out and %d known, want 37 and 38", newest, Newest())
	}
	if got := Version(38); got != "1.38" {
		t.Errorf("got %q, want 1.38: programs read it", got)
	}
}
