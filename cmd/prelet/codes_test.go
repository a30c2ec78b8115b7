package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// TestExamplesOfPages tries what the pages of codes show: each site is refused with the code whose page has it.
func TestExamplesOfPages(t *testing.T) {
	t.Parallel()
	const kubelet = "stage \"write\" \"x\" {\n  bootstrap_kubeconfig { when = false }\n  ca_certificate { when " +
		"= false }\n  kubelet_config {\n    base = \"apiVersion: kubelet.config.k8s.io/v1beta1\\nkind: " +
		"KubeletConfiguration\\n\"\n%s\n  }\n  kubelet_flags {\n    base = \"\"\n%s\n  }\n}"
	const hw = "stage \"detect-hw\" \"node\" {}\n"
	for _, c := range []struct {
		code fault.Code
		site string
		page string // the line of the page that the site was made of; empty: the site itself
	}{
		{fault.Syntax, `cluster { servers = ["10.0.0.1:6443"] token = credential("t") }`, ""},
		{fault.Limit, hw + `stage "label" "a" { labels = {for a in [1] : a => [for b in [1] : [for c in [1] : c]]} }`, "labels = {for a in x : a => [for b in y : [for c in z : c]]}"},
		{fault.UnknownBlock, `stage "write" {}`, ""},
		{fault.UnknownBlock, `wait {}`, ""},
		{fault.UnknownStage, `stage "labels" "gpu" {}`, ""},
		{fault.UnknownArgument, `stage "label" "a" { lables = {} }`, ""},
		{fault.MissingArgument, `cluster { servers = ["10.0.0.1:6443"] }`, ""},
		{fault.Duplicate, "stage \"label\" \"gpu\" {}\nstage \"label\" \"gpu\" {}", `stage "label" "gpu" {}`},
		{fault.OverrideMissing, "stage \"label\" \"gpu\" {}\noverride {\n  stage \"label\" \"gpus\" {}\n}", `override { stage "label" "gpus" {} }`},
		{fault.Cycle, "locals {\n  a = local.b\n  b = local.a\n}\nstage \"label\" \"x\" {}", "a = local.b"},
		{fault.Reference, hw + `stage "label" "x" { labels = { "example.com/x" = stage.detect-hw.node.gpuz } }`, "stage.detect-hw.node.gpuz"},
		{fault.Reference, hw + `stage "label" "x" { labels = { "example.com/x" = stage.detect-hw.node.gpus.model } }`, "stage.detect-hw.node.gpus.model"},
		{fault.Evaluation, hw + `stage "label" "x" { labels = { "example.com/x" = slug(stage.detect-hw.node.gpus[0].model) } }`, "stage.detect-hw.node.gpus[0].model"},
		{fault.WrongType, "stage \"fetch-config\" \"x\" {\n  file    = \"/a\"\n  timeout = 90\n}", "timeout = 90"},
		{fault.Sensitive, `stage "label" "x" { labels = { "example.com/key" = credential("key") } }`, `labels = { "example.com/key" = credential("key") }`},
		{fault.RequiredVersion, "prelet { required_version = \">= 99.3\" }\nstage \"label\" \"x\" {}", "prelet { required_version ="},
		{fault.DefaultChoice, `stage "write" "kubelet" {}`, ""},
		{fault.NoSite, "locals {}", "prelet init"},
		{fault.LabelInvalid, `stage "label" "x" { labels = { "example.com/cpu" = "Intel(R) Xeon(R)" } }`, `"example.com/cpu" = "Intel(R) Xeon(R)"`},
		{fault.LabelForbidden, `stage "label" "x" { labels = { "node-role.kubernetes.io/worker" = "" } }`, `"node-role.kubernetes.io/worker" = ""`},
		{fault.TaintInvalid, `stage "taint" "x" { taints = ["dedicated=gpu"] }`, `taints = ["dedicated=gpu"]`},
		{fault.Conflict, "stage \"label\" \"a\" { labels = { \"example.com/x\" = \"1\" } }\nstage \"label\" " +
			"\"b\" { labels = { \"example.com/x\" = \"2\" } }", `stage "label" "b" { labels = { "example.com/x" = "2" } }`},
		{fault.KubeletFlag, fmt.Sprintf(kubelet, "", `flags = { network-plugin = "cni" }`), `flags = { network-plugin = "cni" }`},
		{fault.KubeletGate, fmt.Sprintf(kubelet, `patch = { featureGates = { NodeSwap = false } }`, ""), `patch = { featureGates = { NodeSwap = false } }`},
		{fault.ConfigInvalid, fmt.Sprintf(kubelet, `patch = { evictionHard = { "memory.available" = "10 GB" } }`, ""), `patch = { evictionHard = { "memory.available" = "10 GB" } }`},
	} {
		t.Run(string(c.code), func(t *testing.T) {
			p, ok := c.code.Page()
			if c.page == "" {
				c.page = c.site
			}
			if !ok || !strings.Contains(p.Text, c.page) {
				t.Errorf("the page does not show %s", c.page)
			}
			file := filepath.Join(t.TempDir(), "site.hcl")
			if err := os.WriteFile(file, []byte(c.site+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			var stdout, stderr strings.Builder
			if code := run(
				[]string{"validate", "-o", "json", "--kubelet-version", "1.36", file},
				&stdout,
				&stderr,
			); code != c.code.Exit() {
				t.Errorf("exit %d, want %d: %s", code, c.code.Exit(), &stderr)
			}
			var out struct {
				Diagnostics []struct{ Code, Severity, Summary string }
			}
			if err := json.Unmarshal([]byte(stdout.String()), &out); err != nil {
				t.Fatalf("%s: %s", err, stdout.String())
			}
			if len(out.Diagnostics) == 0 {
				t.Fatal("no message")
			}
			for _, d := range out.Diagnostics {
				if d.Code != string(c.code) || d.Severity != "error" {
					t.Errorf("%s %s: %s; want an error %s", d.Severity, d.Code, d.Summary, c.code)
				}
			}
		})
	}
}
