package sites

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/table"
)

func newTestEnv() *machine.Env {
	return &machine.Env{
		Version: "0.1.0", Getenv: func(string) string { return "" }, Redactor: secret.NewRedactor(),
		Say: func(string) {},
	}
}

// writeTestFile writes a file into a new folder and returns its path.
func writeTestFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	osfile.Write(t, path, text, 0o644)
	return path
}

func TestValidateStrict(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Name, Site string
		Strict     bool
		Valid      bool
		StrictErr  bool
		HasErrors  bool
	}](t, `
- {name: good, site: "stage \"detect-hw\" \"x\" {}\n", valid: true}
- {name: 'good, strict', site: "stage \"detect-hw\" \"x\" {}\n", strict: true, valid: true}
- name: warning
  site: |
    stage "write" "x" {
      bootstrap_kubeconfig { when = false }
      ca_certificate { when = false }
      kubelet_config {
        base = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
      }
      kubelet_flags {
        base  = ""
        flags = { container-runtime = "remote" }
      }
    }
  valid: true
- name: warning, strict
  site: |
    stage "write" "x" {
      bootstrap_kubeconfig { when = false }
      ca_certificate { when = false }
      kubelet_config {
        base = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
      }
      kubelet_flags {
        base  = ""
        flags = { container-runtime = "remote" }
      }
    }
  strict: true
  strictErr: true
- {name: error, site: "stage \"lable\" \"x\" {}\n", hasErrors: true}
- {name: 'error, strict', site: "stage \"lable\" \"x\" {}\n", strict: true, hasErrors: true}
`) {
		t.Run(c.Name, func(t *testing.T) {
			o := ValidateOptions{Request: lab.Request{Where: machine.Where{Config: []string{writeTestFile(t, "site.hcl", c.Site)}}}, Strict: c.Strict}
			got, err := Validate(newTestEnv(), o)
			if err != nil {
				t.Fatalf("Validate: %v, want no error", err)
			}
			if got.IsValid() != c.Valid || (got.StrictErr != nil) != c.StrictErr ||
				got.Diagnostics.HasErrors() != c.HasErrors {
				t.Errorf("valid %v, strict error %v, errors %v; want %v, %v, %v\n%v", got.IsValid(), got.StrictErr,
					got.Diagnostics.HasErrors(), c.Valid, c.StrictErr, c.HasErrors, got.Diagnostics)
			}
			if c.StrictErr && fault.CodeOf(got.StrictErr) != fault.Evaluation {
				t.Errorf("strict error has code %q, want %q", fault.CodeOf(got.StrictErr), fault.Evaluation)
			}
		})
	}
}

func TestHasWarnings(t *testing.T) {
	warning := origin.Warning(fault.Drift, hcl.Range{}, "changed", "x")
	note := origin.Note(fault.Drift, hcl.Range{}, "by the way", "x")
	wrong := origin.Error(fault.Syntax, hcl.Range{}, "wrong", "x")

	for _, c := range []struct {
		name  string
		diags hcl.Diagnostics
		want  bool
	}{
		{"nothing", nil, false},
		{"an error", hcl.Diagnostics{wrong}, false},
		{"a note", hcl.Diagnostics{note}, false},
		{"a warning after both", hcl.Diagnostics{wrong, note, warning}, true},
	} {
		if got := hasWarnings(c.diags); got != c.want {
			t.Errorf("hasWarnings with %s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestValidateSaysWhatEachPlanRefuses holds that validate refuses what no machine and no cluster can make right, with
// the exit status of a plan.
func TestValidateSaysWhatEachPlanRefuses(t *testing.T) {
	const (
		trust = "cluster {\n  servers = [\"10.0.0.1:6443\"]\n  token   = credential(\"t\")\n  ca_file = " +
			"\"/ca.crt\"\n}\n"
		fetch = "stage \"fetch-ca\" \"c\" {}\nstage \"fetch-config\" \"k\" { config_map = " +
			"\"kube-system/kubelet-config\" }\n"
		write = "stage \"write\" \"kubelet\" {}\n"
		alone = "stage \"write\" \"kubelet\" {\n  bootstrap_kubeconfig { when = false }\n  ca_certificate { " +
			"when = false }\n" +
			"  kubelet_config { base = \"maxPods: 10\" }\n}\n"
	)
	for _, c := range []struct {
		name, site string
		want       fault.Code
		severity   hcl.DiagnosticSeverity
	}{
		{"no cluster block for a CA", fetch + write, fault.MissingArgument, hcl.DiagError},
		{"no cluster block for a ConfigMap", fetch[strings.Index(fetch, "\n")+1:] + alone, fault.MissingArgument, hcl.DiagError},
		{"no facts to reserve from", trust + fetch + write + "stage \"reserve\" \"r\" { policy = \"gke\" }\n", fault.MissingArgument, hcl.DiagError},
		{"ca_file", strings.Replace(trust, "/ca", "ca", 1) + fetch + write, fault.WrongType, hcl.DiagError},
		{"discovery_file", strings.Replace(trust, "ca_file = \"/ca.crt", "discovery_file = \"https://", 1) + fetch + write, fault.WrongType, hcl.DiagError},
		{"no token, where a node joins", strings.Replace(trust, "  token   = credential(\"t\")\n", "", 1) + fetch + write, fault.MissingArgument, hcl.DiagWarning},
		{"a base of the site", alone, fault.ConfigInvalid, hcl.DiagError},
		{"whole", trust + fetch + write, "", 0},
	} {
		o := ValidateOptions{Request: lab.Request{Where: machine.Where{Config: []string{writeTestFile(t, "site.hcl", c.site)}}}}
		got, err := Validate(newTestEnv(), o)
		must(t, err)
		found := ""
		for _, d := range got.Diagnostics {
			found += string(origin.CodeOf(d)) + ": " + d.Error() + "\n"
		}
		matches := len(got.Diagnostics) > 0 && slices.ContainsFunc(got.Diagnostics, func(d *hcl.Diagnostic) bool {
			return origin.CodeOf(d) == c.want && d.Severity == c.severity
		})
		if matches != (c.want != "") || got.IsValid() != (c.severity != hcl.DiagError) {
			t.Errorf("%s: got %q; want code %q with severity %d", c.name, found, c.want, c.severity)
		}
	}
}

// TestValidateWithoutBase holds that validate names the fields that it cannot check without the base, and that --objects
// decides them.
func TestValidateWithoutBase(t *testing.T) {
	const site = `cluster {
  servers        = ["192.0.2.1:6443"]
  ca_cert_hashes = ["sha256:0000000000000000000000000000000000000000000000000000000000000000"]
}
stage "fetch-config" "base" {
  config_map = "kube-system/kubelet-config"
}
stage "write" "x" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config {
    base = stage.fetch-config.base.data.kubelet
    patch = {
      %s
    }
  }
}
`
	for _, c := range table.YAML[[]struct {
		Name, Settings string
		Base           string // of the folder for --objects; "": no folder
		Note, Fails    string
	}](t, `
- {name: soft, settings: 'evictionSoft = { "memory.available" = "1Gi" }', note: evictionSoft.memory.available}
- name: soft with base
  settings: evictionSoft = { "memory.available" = "1Gi" }
  base: "\n    evictionSoftGracePeriod: {memory.available: 1m}\n"
- name: soft refused
  settings: evictionSoft = { "memory.available" = "1Gi" }
  base: "\n    maxPods: 100\n"
  fails: evictionSoft.memory.available
- {name: enforced, settings: 'enforceNodeAllocatable = ["pods", "system-reserved"]', note: enforceNodeAllocatable.1}
- name: enforced with base
  settings: enforceNodeAllocatable = ["pods", "system-reserved"]
  base: "\n    systemReservedCgroup: /system.slice\n    systemReserved: {cpu: 500m}\n"
- name: enforced refused
  settings: enforceNodeAllocatable = ["pods", "system-reserved"]
  base: "\n    maxPods: 100\n"
  fails: enforceNodeAllocatable.1
- {name: static, settings: cpuManagerPolicy = "static", note: cpuManagerPolicy}
- name: static with base
  settings: cpuManagerPolicy = "static"
  base: "\n    kubeReserved: {cpu: 500m}\n"
- name: static refused
  settings: cpuManagerPolicy = "static"
  base: "\n    maxPods: 100\n"
  fails: cpuManagerPolicy
- {name: independent, settings: maxPods = 20}
`) {
		t.Run(c.Name, func(t *testing.T) {
			o := ValidateOptions{Strict: true}
			o.Config = []string{writeTestFile(t, "site.hcl", fmt.Sprintf(site, c.Settings))}
			if c.Base != "" {
				o.Objects = t.TempDir()
				writeBase(t, o.Objects, c.Base)
			}
			got, err := Validate(newTestEnv(), o)
			if err != nil {
				t.Fatalf("Validate: got %v, want no error", err)
			}

			var notes, errors []string
			for _, d := range got.Diagnostics {
				switch {
				case d.Severity == hcl.DiagError:
					errors = append(errors, d.Summary+": "+d.Detail)
				case strings.Contains(d.Detail, "--objects DIR"):
					notes = append(notes, d.Detail)
				}
			}
			checkMessage(t, "notes", notes, c.Note)
			checkMessage(t, "errors", errors, c.Fails)
			if got.StrictErr != nil {
				t.Errorf("strict: got %v with %v, want no warnings", got.StrictErr, got.Diagnostics)
			}
		})
	}
}

// checkMessage checks that there is exactly one message, with a text, or none if the text is empty.
func checkMessage(t *testing.T, what string, got []string, want string) {
	t.Helper()
	hasOne := len(got) == 1 && strings.Contains(got[0], want)
	if want == "" && len(got) > 0 || want != "" && !hasOne {
		t.Errorf("%s: got %q, want one with %q, or none for an empty text", what, got, want)
	}
}

// writeBase writes kubeadm's ConfigMap with fields of the kubelet's configuration into a folder for --objects.
func writeBase(t *testing.T, folder, fields string) {
	t.Helper()
	text := `apiVersion: v1
kind: ConfigMap
metadata: {name: kubelet-config, namespace: kube-system}
data:
  kubelet: |
    apiVersion: kubelet.config.k8s.io/v1beta1
    kind: KubeletConfiguration` + fields
	file := filepath.Join(folder, "kube-system", "kubelet-config.yaml")
	osfile.Write(t, file, text, 0o644)
}

// TestValidateWithMissingObject holds that a ConfigMap that the folder for --objects does not have is a warning.
func TestValidateWithMissingObject(t *testing.T) {
	const site = `cluster {
  servers        = ["192.0.2.1:6443"]
  ca_cert_hashes = ["sha256:0000000000000000000000000000000000000000000000000000000000000000"]
}
stage "fetch-config" "base" {
  config_map = "kube-system/kubelet-config"
}
`
	o := ValidateOptions{}
	o.Config = []string{writeTestFile(t, "site.hcl", site)}
	o.Objects = t.TempDir()
	got, err := Validate(newTestEnv(), o)
	if err != nil {
		t.Fatalf("Validate: got %v, want no error", err)
	}
	hasWarning := slices.ContainsFunc(got.Diagnostics, func(d *hcl.Diagnostic) bool {
		return d.Severity == hcl.DiagWarning && !origin.IsNote(d) &&
			strings.Contains(d.Summary+d.Detail, "kube-system/kubelet-config")
	})
	if !got.IsValid() || !hasWarning {
		t.Errorf("got valid %t with %v, want a valid site with a warning about kube-system/kubelet-config", got.IsValid(),
			got.Diagnostics)
	}
}

// TestValidateOnMachines holds that validate plans a site on the machines and with the values that it is given, that an
// error of one of them is an error, and that what only a run has is none.
func TestValidateOnMachines(t *testing.T) {
	const (
		head  = "stage \"detect-hw\" \"hw\" {}\n"
		write = "stage \"write\" \"x\" {\n  bootstrap_kubeconfig { when = false }\n  ca_certificate { when = false }\n" +
			"  kubelet_config {\n    base = \"apiVersion: kubelet.config.k8s.io/v1beta1\\nkind: KubeletConfiguration\\n\"\n  }\n" +
			"  kubelet_flags { base = \"\" }\n}\n"
		reserve = "stage \"reserve\" \"x\" {\n  policy = \"gke\"\n  floor  = { memory = \"4Ti\" }\n}\n"
		cluster = "cluster {\n  servers = [\"10.0.0.1:6443\"]\n  token   = credential(\"t\")\n  ca_file = \"/ca.crt\"\n}\n" +
			"stage \"fetch-config\" \"other\" { config_map = \"kube-system/other\" }\n"
		variable = "variable \"rack\" {\n  type = number\n  validation {\n    condition     = var.rack > 3\n" +
			"    error_message = \"no such rack\"\n  }\n}\nstage \"label\" \"x\" { labels = { \"example.com/rack\" = \"r${var.rack}\" } }\n"
		vm        = "../../../testdata/hardware/facts/bare-vm.json"
		recording = "../../../testdata/recordings/v1/gpu.prelet"
	)
	for _, c := range []struct {
		name, site     string
		where          lab.Request
		notes, warning fault.Code // the only one of its kind; "" for none
		fails          fault.Code
	}{
		{"no machine", head + reserve, lab.Request{}, "", "", ""},
		{"a small machine", head + reserve, lab.Request{Where: machine.Where{Hardware: vm}}, "", "", fault.ReserveRefused},
		{"a good machine", head, lab.Request{Where: machine.Where{Hardware: vm}}, "", "", ""},
		{"a variable without a value", variable, lab.Request{}, fault.VariableMissing, "", ""},
		{"a machine without its value", variable, lab.Request{Where: machine.Where{Hardware: vm}}, "", fault.VariableMissing, ""},
		{"with its value", variable, lab.Request{Where: machine.Where{Hardware: vm, Variables: []string{"rack=4"}}}, "", "", ""},
		{"a value", variable, lab.Request{Where: machine.Where{Variables: []string{"rack=4"}}}, "", "", ""},
		{"a value that a rule refuses", variable, lab.Request{Where: machine.Where{Variables: []string{"rack=3"}}}, "", "", fault.VariableInvalid},
		{"a value of another type", variable, lab.Request{Where: machine.Where{Variables: []string{"rack=x"}}}, "", "", fault.VariableInvalid},
		{"an unknown variable", head, lab.Request{Where: machine.Where{Variables: []string{"rack=x"}}}, "", "", fault.VariableUnknown},
		{"an object that is not given", cluster, lab.Request{Where: machine.Where{Hardware: vm}}, "", fault.ClusterUnusable, ""},
		{"a detector's reply", "detector \"d\" { required = true }\n" + head, lab.Request{Where: machine.Where{Hardware: vm}}, "", fault.DetectorFailed, ""},
		{"what a recording was never asked", variable, lab.Request{From: recording}, fault.Unread, "", ""},
		{"a recording with a value", variable, lab.Request{Where: machine.Where{Variables: []string{"rack=4"}}, From: recording}, "", "", ""},
		{"a recording that is missing", head, lab.Request{From: "none.prelet"}, "", "", fault.RecordingInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.where.Config = []string{writeTestFile(t, "site.hcl", c.site+write)}
			got, err := Validate(newTestEnv(), ValidateOptions{Request: c.where})
			if err != nil {
				t.Fatalf("Validate: got %v, want no error", err)
			}
			found := map[string]fault.Code{}
			for _, d := range got.Diagnostics {
				kind := map[bool]string{true: "error", false: "warning"}[d.Severity == hcl.DiagError]
				if origin.IsNote(d) {
					kind = "note"
				}
				found[kind] = origin.CodeOf(d)
			}
			if found["note"] != c.notes || found["warning"] != c.warning || found["error"] != c.fails {
				t.Errorf("got %v with %v; want note %q, warning %q, error %q", found, got.Diagnostics, c.notes, c.warning, c.fails)
			}
		})
	}
}
