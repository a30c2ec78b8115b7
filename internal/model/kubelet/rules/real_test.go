package rules

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/model/kubelet"
)

// refusal is an entry of testdata/refusals.yaml, which test/kube runs with the real kubelet.
type refusal struct {
	Name, Rule, Code, Label, Says string
	Config                        json.RawMessage
	Flags                         map[string]string
	Kernel                        map[string]int64
	Files                         map[string]string
	Swap, Exits, Unsure           bool
}

func refusals(t *testing.T) (list []refusal) {
	t.Helper()
	text, err := os.ReadFile("testdata/refusals.yaml")
	must(t, err)
	must(t, yaml.UnmarshalStrict([]byte(strings.ReplaceAll(string(text), "@CPUS@", "4")), &list))
	return list
}

// elsewhere are the rules that no entry of the file is for, and where a real kubelet shows them, or why none does.
func elsewhere() map[string]string {
	return map[string]string{
		"flag-config-dir": "it needs a kubelet of 1.28 or 1.29, which is built nowhere here; " +
			"tools/kubetables holds its words against the source of both",
		"gate-declares": "no kubelet says it: test/kube, TestRealNodes/declared_features",
		"flag-ends":     "no kubelet says it: test/kube, TestAgreement",

		"config-tls-alone": "it needs a kubelet of 1.35 or older: test/kube, TestAgreement, with PRELET_KUBE_OLD",

		"flag-no-value":   "each flag of a site has a value: test/kube, TestAgreement",
		"flag-takes-flag": "each flag of a site has a value: test/kube, TestAgreement",

		"flag-hostname":             "it needs a cluster: test/kube, TestRealNodes/why_join",
		"machine-cgroup-driver":     "it needs a runtime that reports no driver: test/kube, TestRealNodes/cgroup_driver",
		"machine-credential-plugin": "it needs a configuration of plugins: test/kube, TestRealNodes/credential_plugins",
		"machine-runtime-config":    "it needs a runtime without RuntimeConfig: test/kube, TestRealNodes/cgroup_driver",
		"machine-runtime-endpoint":  "it needs a machine configured for another runtime; its words are machine-image-endpoint's",
		"machine-shutdown-delay":    "it needs logind: test/boot, TestBoots/shutdown_delay",
		"machine-many-numa-nodes":   "it needs a machine of more than 8 NUMA nodes, and none was recorded",
	}
}

// TestRealRefusals holds the rules against what a real kubelet was given: the rule finds it, in the words of the kubelet
// unless a dry run has them, and what a kubelet takes no rule calls an error.
func TestRealRefusals(t *testing.T) {
	ran := map[string]bool{}
	for _, c := range refusals(t) {
		base := config(t, "{cgroupDriver: cgroupfs, failCgroupV1: false, failSwapOn: false}")
		if err := base.Merge(config(t, cmp.Or(string(c.Config), "{}")).Object()); err != nil {
			t.Fatalf("%s: got %v, want no error", c.Name, err)
		}
		m := single()
		m.Cgroup, m.Hierarchies, m.Swap, m.Addresses = 1, []string{
			"/sys/fs/cgroup/cpu",
		}, &c.Swap, []netip.Addr{
			netip.MustParseAddr("10.0.0.5"),
		}
		m.Kernel, m.DiskBytes = c.Kernel, 1<<40
		m.Exists = func(p string) (bool, bool) {
			return !strings.Contains(p, "no") && p != "/usr/bin/getsubids" &&
				!strings.HasSuffix(p, "-current.pem"), true
		}
		s := Subject{Config: base, Version: "1.37.1", Machine: m}
		for name, value := range c.Flags {
			s.Flags = append(s.Flags, kubelet.Use{Name: name, Value: value})
		}
		if len(c.Files) > 0 { // what is in them live looks at, and says in the kubelet's words
			s.CheckFile = func(string, string) (string, bool) { return c.Says, true }
		}
		if c.Label != "" {
			s.Flags = append(s.Flags, kubelet.Use{Name: "node-labels", Value: c.Label})
		}
		var found []Violation
		for _, f := range Check(s) {
			switch {
			case f.Rule == c.Rule && (isInputs(f, c) || strings.Contains(f.Message, c.Says)):
				found = append(found, f)
			case !c.Exits && f.Severity == Error:
				t.Errorf("%s: want no error, because a kubelet accepts it; got %+v", c.Name, f)
			}
		}
		if c.Rule == "" {
			continue
		}
		ran[c.Rule] = true
		if len(found) == 0 {
			t.Errorf("%s: want %s with %q; got %+v", c.Name, c.Rule, c.Says, Check(s))
		} else if f := found[0]; (f.Effect == Exits) != c.Exits || c.Exits && (f.Severity == Error) == c.Unsure {
			t.Errorf("%s: got %+v, want the effect and the severity of the entry", c.Name, f)
		}
	}
	for _, r := range All() {
		if _, known := elsewhere()[r.ID]; ran[r.ID] == known {
			t.Errorf("%s: run by a real kubelet: got %t, want the opposite of listed elsewhere: %t",
				r.ID, ran[r.ID], known)
		}
	}
}

// isInputs reports whether a violation that a dry run finds, in the kubelet's own words, is at a field or flag of an
// input.
func isInputs(f Violation, c refusal) bool {
	field, _, _ := strings.Cut(strings.TrimPrefix(f.Pointer, "/"), "/")
	var config map[string]any
	_ = json.Unmarshal(c.Config, &config) // it has been merged
	_, isFlag := c.Flags[f.Flag]
	_, isUnderscored := c.Flags[strings.ReplaceAll(f.Flag, "-", "_")]

	return f.InDryRun && (config[field] != nil || isFlag || isUnderscored || f.Flag == "node-labels" && c.Label != "")
}

// TestEachOfManyNumbers: a kubelet says all that is wrong with its numbers at once, so one that is found must not
// stand for the others: each field of such an entry has a message of its own.
func TestEachOfManyNumbers(t *testing.T) {
	held := 0
	for _, c := range refusals(t) {
		if c.Name != "many numbers" && c.Name != "more numbers" {
			continue
		}
		var numbers map[string]any
		must(t, json.Unmarshal(c.Config, &numbers))
		found := map[string]bool{}
		for _, f := range Check(Subject{Config: config(t, string(c.Config)), Version: "1.36.3"}) {
			if f.Severity == Error {
				found[f.Pointer] = true
			}
		}
		for name := range numbers {
			held++
			if !found["/"+name] {
				t.Errorf("want a violation about %s: %v", name, numbers[name])
			}
		}
	}
	if held < 18 {
		t.Errorf("got %d numbers, want at least 18", held)
	}
}
