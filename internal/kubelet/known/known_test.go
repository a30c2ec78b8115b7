package known

import (
	"slices"
	"strings"
	"testing"
)

// What Kubernetes' changelogs and documentation say, to hold the generator to.
func TestFlags(t *testing.T) {
	for _, c := range []struct {
		name  string
		minor int
		there bool
		want  Flag
	}{
		{"network-plugin", 23, true, Flag{Deprecated: true, Message: "will be removed along with dockershim."}},
		{"network-plugin", 24, false, Flag{}},
		{"container-runtime", 26, true, Flag{Deprecated: true, Message: "will be removed in 1.27 as the only " +
			"valid value is 'remote'"}},
		{"container-runtime", 27, false, Flag{}},
		{"pod-infra-container-image", 34, true, Flag{Deprecated: true, Message: "will be removed in 1.35. Image " +
			"garbage collector will get sandbox image information from CRI."}},
		{"pod-infra-container-image", 35, false, Flag{}},
		{"dynamic-config-dir", 24, false, Flag{}},
		{"log-dir", 25, true, Flag{Deprecated: true, Message: "klog's, removed in 1.26"}},
		{"log-dir", 26, false, Flag{}},
		{"logtostderr", 20, true, Flag{Bool: true}},
		{"config-dir", 27, false, Flag{}},
		{"config-dir", 28, true, Flag{}},
		{"max-pods", 20, true, Flag{Deprecated: true, Field: "maxPods"}},
		{"max-pods", 36, true, Flag{Deprecated: true, Field: "maxPods"}},
		{"authentication-token-webhook-cache-ttl", 36, true, Flag{Deprecated: true, Field: "authentication.webhook.cacheTTL"}},
		{"fail-cgroupv1", 36, true, Flag{Bool: true, Field: "failCgroupV1"}},
		{"v", 36, true, Flag{Field: "logging.verbosity"}},
		{"node-labels", 36, true, Flag{}},
		{"node-ip", 36, true, Flag{}},
		{"register-with-taints", 22, true, Flag{}},
		{"register-with-taints", 23, true, Flag{Deprecated: true, Field: "registerWithTaints"}},
		{"provider-id", 36, true, Flag{Field: "providerID"}},
		{"allow-privileged", 20, false, Flag{}},
		{"experimental-dockershim-root-directory", 23, true, Flag{Hidden: true}},
	} {
		f, ok := FlagAt(c.name, c.minor)
		if ok != c.there || f != c.want {
			t.Errorf("--%s in 1.%d: %v, %+v; want %v, %+v", c.name, c.minor, ok, f, c.there, c.want)
		}
	}
	if m, ok := FlagDeprecated("register-with-taints"); !ok || m != 23 {
		t.Errorf("--register-with-taints deprecated in %d, %v", m, ok)
	}
	if m, ok := FlagDeprecated("max-pods"); !ok || m != 0 {
		t.Errorf("--max-pods deprecated in %d, %v", m, ok)
	}
	if _, ok := FlagDeprecated("node-ip"); ok {
		t.Error("--node-ip counts as deprecated")
	}
}

func TestFields(t *testing.T) {
	for _, c := range []struct {
		name  string
		minor int
		want  Type // "": it has none
		value string
	}{
		{"failCgroupV1", 30, "", ""},
		{"failCgroupV1", 31, Bool, "false"},
		{"failCgroupV1", 35, Bool, "true"},
		{"memorySwap.swapBehavior", 21, "", ""},
		{"memorySwap.swapBehavior", 22, String, ""},
		{"seccompDefault", 36, Bool, "false"},
		{"registerWithTaints[].effect", 22, "", ""},
		{"registerWithTaints[].effect", 23, String, ""},
		{"maxPods", 20, Int32, "110"},
		{"authorization.mode", 36, String, "Webhook"},
		{"imagePullCredentialsVerificationPolicy", 36, String, ""},
		{"logging.options.json.splitStream", 36, Bool, ""},
		{"logging.sanitization", 24, "", ""},
		{"reservedMemory[].limits", 21, Quantities, ""},
		{"staticPodURLHeader", 20, StringLists, ""},
		{"syncFrequency", 36, Duration, "1m0s"},
		{"oomScoreAdj", 36, Int32, "-999"},
		{"mergeDefaultEvictionSettings", 32, "", ""},
		{"kubeReserved", 36, Strings, ""},
		{"containerRuntimeEndpoint", 26, "", ""},
		{"containerRuntimeEndpoint", 27, String, "unix:///run/containerd/containerd.sock"},
		{"maxPod", 36, "", ""},
	} {
		f, ok := FieldAt(c.name, c.minor)
		if ok != (c.want != "") || f.Type != c.want || f.Default != c.value {
			t.Errorf("%s in 1.%d: got %v, %+v; want %+v", c.name, c.minor, ok, f, c)
		}
	}
}

func TestGates(t *testing.T) {
	for _, c := range []struct {
		name  string
		minor int
		there bool
		want  Gate
	}{
		{"NodeSwap", 21, false, Gate{}},
		{"NodeSwap", 28, true, Gate{"beta", false, false}},
		{"NodeSwap", 34, true, Gate{"ga", true, true}},
		{"DynamicKubeletConfig", 26, false, Gate{}},
		{"KubeletCgroupDriverFromCRI", 34, true, Gate{"ga", true, true}},
		{"RotateKubeletServerCertificate", 36, true, Gate{"beta", true, false}},
		{"ContextualLogging", 30, true, Gate{"beta", true, false}}, // its default is a named constant there
		{"AllAlpha", 36, true, Gate{"alpha", false, false}},
		{"InOrderInformers", 36, true, Gate{"ga", true, true}},               // of client-go
		{"APIResponseCompression", 36, true, Gate{"beta", true, false}},      // of the apiserver library
		{"DRAFractionalCapacityRange", 37, true, Gate{"beta", false, false}}, // on only with compatibility 1.37
		{"NoSuchGate", 36, false, Gate{}},
	} {
		g, ok := GateAt(c.name, c.minor)
		if ok != c.there || g != c.want {
			t.Errorf("%s in 1.%d: %v, %+v; want %v, %+v", c.name, c.minor, ok, g, c.there, c.want)
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
	for _, c := range []struct {
		text string
		want int
		ok   bool
	}{
		{"v1.36.3", 36, true}, {"1.33", 33, true}, {"v1.29.15-gke.100", 29, true}, {"1.31+", 31, true}, {"28", 28, true},
		{"", 0, false}, {"2.1", 0, false}, {"1.x", 0, false}, {"1.36x", 0, false}, {"latest", 0, false}, {"v1", 1, true},
	} {
		if n, ok := Minor(c.text); n != c.want || ok != c.ok {
			t.Errorf("%q: %d, %v; want %d, %v", c.text, n, ok, c.want, c.ok)
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
	for version, want := range map[string]bool{
		"": false, "1.37.9": false, "1.38": false, "1.38.0-alpha.2": false, "v1.38.0-alpha.2": false,
		"1.38.0-alpha.3": true, "1.38.0": true, "v1.38.1": true, "1.39": true, "v2.0.0": true, "master": true,
	} {
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
