package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// dryRunCase is an input of a kubelet and its verdict, in the words of all versions; "": it is accepted.
type dryRunCase struct {
	name, config, flags string
	words               string
}

// dryRunCases has one input for each way in which a kubelet refuses its command line and configuration, and some that it
// accepts, because it refuses them after a dry run ends.
var dryRunCases = []dryRunCase{
	{"nothing", "", "", ""},
	{"a field of none", "nosuch: 1", "", ""},
	{"a number", "maxPods: -1", "", "maxPods (--max-pods) -1 must not be a negative number"},
	{"a type", "maxPods: abc", "", "cannot unmarshal string into Go struct field KubeletConfiguration.maxPods"},
	{"a duration", "syncFrequency: ten", "", `time: invalid duration "ten"`},
	{"a word", "topologyManagerPolicy: nosuch", "", `topologyManagerPolicy (--topology-manager-policy) "nosuch" must be one of`},
	{"a gate", "featureGates: {NoSuch: true}", "", "unrecognized feature gate: NoSuch"},
	{"two fields", "imageGCLowThresholdPercent: 90", "", "must be less than imageGCHighThresholdPercent"},
	{"a flag", "", "--network-plugin=cni", "unknown flag: --network-plugin"},
	{"a flag's value", "", "--max-pods=many", `invalid argument "many" for "--max-pods" flag`},
	{"a flag's gate", "", "--feature-gates=NoSuch=true", "unrecognized feature gate: NoSuch"},
	{"a label", "", "--node-labels=kubernetes.io/foo=bar", "unknown 'kubernetes.io' or 'k8s.io' labels"},
	{"a cipher suite", "", "--tls-cipher-suites=NOPE", "Cipher suite NOPE not supported or doesn't exist"},
	{"a signal", "evictionHard: {memory.availabl: 5%}", "", ""},
	{"a policy without CPUs", "cpuManagerPolicy: static", "", ""},
	{"a cloud", "", "--cloud-provider=aws", ""},
}

// dryRunMinors is how many minor versions must be built.
const dryRunMinors = 6

// TestDryRunsOfMinors asks the real kubelets of several minor versions about each input through `plan --kubelet`. Their
// verdicts are the same.
func TestDryRunsOfMinors(t *testing.T) {
	if os.Getenv(newerCases) == "" {
		t.Skip("this needs the kubelets of several versions: make kubelet-upgrades")
	}
	p := programs(t)
	kubelets := newerKubelets(t, p)
	if len(kubelets) < dryRunMinors {
		t.Errorf("got kubelets of %d minor versions, want at least %d", len(kubelets), dryRunMinors)
	}

	for _, c := range dryRunCases {
		verdicts := map[string][]string{}
		for _, minor := range slices.Sorted(maps.Keys(kubelets)) {
			version := fmt.Sprintf("1.%d", minor)
			got := dryRunWords(t, p, kubelets[minor], c)
			verdicts[got] = append(verdicts[got], version)
			isAsWanted := c.words == "" && got == "accepted" || c.words != "" && strings.Contains(got, c.words)
			if !isAsWanted {
				t.Errorf("%s, kubelet %s: got %q, want %q", c.name, version, got, c.words)
			}
		}
		for words, versions := range verdicts {
			t.Logf("%-22s %-36s %s", c.name, strings.Join(versions, " "), words)
		}
	}
}

// dryRunWords returns the words with which a kubelet refuses an input, or "accepted".
func dryRunWords(t *testing.T, p Programs, kubelet string, c dryRunCase) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"root" + agreementConfig:     "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n" + c.config + "\n",
		"root/etc/prelet-case/x.env": "KUBELET_EXTRA_ARGS=" + c.flags + "\n",
		"site/site.hcl":              strings.ReplaceAll(newerSite(false), "flags.env", "x.env"),
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}

	out, _ := exec.Command(p.Prelet, "plan", "-o", "json", "--config", dir+"/site", "--root", dir+"/root", "--hardware",
		"../../testdata/hardware/facts/bare-vm.json", "--kubelet", kubelet).Output()
	var plan struct {
		CheckedBy   string `json:"kubelet_checked_by"`
		Diagnostics []struct{ Severity, Detail string }
	}
	must(t, json.Unmarshal(out, &plan))
	for _, d := range plan.Diagnostics {
		if d.Severity == "error" && strings.Contains(d.Detail, kubelet) {
			return strings.ReplaceAll(d.Detail, kubelet, "kubelet")
		}
	}
	if plan.CheckedBy != kubelet {
		t.Errorf("%s: checked by %q, want %s", c.name, plan.CheckedBy, kubelet)
	}

	return "accepted"
}
