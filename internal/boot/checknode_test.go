package boot_test

import (
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages/builtin"
)

// TestCheckNode checks sites whose render stages look at the node: the base, which no witness has, may bring any
// field, flag, label and taint, and a precondition is about the machine that it fails on.
func TestCheckNode(t *testing.T) {
	for _, c := range []struct{ name, write, restart, want string }{
		{"a field that only the base can have", `file "x" {
  path    = "/etc/x"
  content = node.kubelet_config.clusterDomain
}`, "", ""},
		{"a flag that only the base can have", `file "x" {
  path    = "/etc/x"
  content = node.flags["log-dir"]
}`, "", ""},
		{"a label that only the base can have", "", `precondition {
  condition     = node.labels["site"] == "a"
  error_message = "no"
}`, ""},
		{"a misspelt part of the node", `file "x" {
  path    = "/etc/x"
  content = node.flagz["log-dir"]
}`, "", "reference"},
		{"a precondition that a bare VM fails", "", `precondition {
  condition     = length(stage.detect-hw.node.gpus) == 8
  error_message = "Eight GPUs are needed."
}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "stage \"detect-hw\" \"node\" {}\nstage \"write\" \"kubelet\" {\n  kubelet_config { when = " +
				"false }\n" +
				"  ca_certificate { when = false }\n  bootstrap_kubeconfig { when = false }\n" + c.write +
				"\n}\nstage \"restart\" \"kubelet\" {\n" + c.restart + "\n}\n"
			if c.name == "a field that only the base can have" {
				text = "cluster {\n  servers = [\"a.example:6443\"]\n  trust = \"token\"\n  token = " +
					"credential(\"t\")\n}\n" +
					"stage \"fetch-ca\" \"c\" {}\nstage \"fetch-config\" \"k\" { config_map = " +
					"\"kube-system/kubelet-config\" }\n" +
					"stage \"write\" \"kubelet\" {\n" + c.write + "\n}\n"
			}
			s, diags := lang.Parse(
				[]world.SiteFile{{Name: "site.hcl", Text: text}},
				lang.Options{Stages: builtin.Stages()},
			)
			diags = append(diags, boot.Check(s, boot.SampleMachines(), boot.CheckOptions{})...)
			got := ""
			for _, d := range diags {
				if d.Severity == hcl.DiagError {
					got = string(origin.CodeOf(d))
					t.Log(d)
				}
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
