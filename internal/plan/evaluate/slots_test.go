package evaluate

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/sample"
	"github.com/prelet/prelet/internal/testing/table"
)

// nasty are expressions of all kinds of values: null, secret, unread in a replay, of the wrong type, empty.
func listNasty() []string {
	return table.Lines(`
null
true
-1.5
[]
{}
[null]
["a", 1]
toset(["a", "b"])
tomap({})
tolist([])
credential("s")
"x-${credential("s")}"
{ (credential("s")) = "a" }
merge({ a = credential("s") }, { b = "1" })
sha256(credential("s"))
credential("absent")
can(credential("absent"))
tolist([credential("s")])
jsonencode({ a = credential("s") })
var.secret
var.given
{ a = var.given }
{ (var.given) = "a" }
toset([var.given])
merge({ a = "1" }, { b = var.given })
file("/etc/x")
yamldecode(file("/etc/x"))
stage.detect-hw.node
stage.detect-hw.node.gpus
stage.detect-hw.node.product.serial
"${stage.detect-hw.node.product.serial}"
[stage.detect-hw.node.product.serial]
{ for n in stage.detect-hw.node.nics : n.interface => n }
stage.detect-hw.node.gpus[0].model
stage.fetch-config.c.data
stage.fetch-config.f.value
stage.fetch-config.f.value.a
{ for k, v in stage.fetch-config.c.data : k => v }
stage.fetch-config.each
stage.fetch-config.each["a"].state
stage.label.ok.labels
stage.label.ok.state
node.labels
node.kubelet_config
node.reserved.allocatable["cpu"]
stage.write.kubelet.files
each.value
jsondecode("null")
local.mixed
`)
}

// slots are the places where an expression may be.
func listSlots() map[string]string {
	return map[string]string{
		"when": "stage \"label\" \"x\" {\n  when = EXPR\n  labels = {}\n}\n",
		"for_each": "stage \"label\" \"x\" {\n  for_each = EXPR\n" +
			"  labels = { \"example.com/${each.key}\" = each.value }\n}\n",
		"labels":   "stage \"label\" \"x\" {\n  labels = EXPR\n}\n",
		"label":    "stage \"label\" \"x\" {\n  labels = { \"example.com/a\" = EXPR, \"example.com/b\" = \"1\" }\n}\n",
		"key":      "stage \"label\" \"x\" {\n  labels = { (EXPR) = \"a\" }\n}\n",
		"patterns": "stage \"label\" \"x\" {\n  from_detectors = EXPR\n}\n",
		"taints":   "stage \"taint\" \"x\" {\n  taints = EXPR\n}\n",
		"taint":    "stage \"taint\" \"x\" {\n  taints = [EXPR, \"a=b:NoSchedule\"]\n}\n",
		"local": "locals {\n  x = EXPR\n}\nstage \"label\" \"x\" {\n" +
			"  labels = { \"example.com/a\" = try(local.x, \"none\") }\n}\n",
		"config_map": "stage \"fetch-config\" \"x\" {\n  config_map = EXPR\n}\n",
		"optional":   "stage \"fetch-config\" \"x\" {\n  file = \"/etc/absent\"\n  optional = EXPR\n}\n",
		"copies": "stage \"fetch-config\" \"x\" {\n  for_each = EXPR\n  file = \"/etc/x\"\n}\n" +
			"stage \"label\" \"x\" {\n  labels = { \"example.com/a\" = length(stage.fetch-config.x) }\n}\n",
		"timeout":  "stage \"fetch-config\" \"x\" {\n  file = \"/etc/x\"\n  timeout = EXPR\n}\n",
		"node":     "node {\n  name = EXPR\n  ip = EXPR\n}\n",
		"detector": "detector \"x\" {\n  config {\n    a = EXPR\n  }\n}\n",
		"policy":   "stage \"reserve\" \"x\" {\n  policy = \"gke\"\n  max_pods = EXPR\n  floor = EXPR\n}\n",
	}
}

// inWrite are those inside of the write stage.
func listWriteSlots() map[string]string {
	return map[string]string{
		"content": "  file \"x\" {\n    path = \"/etc/x\"\n    content = EXPR\n  }\n",
		"path":    "  file \"x\" {\n    path = EXPR\n    content = \"\"\n  }\n",
		"mode": "  file \"x\" {\n    path = \"/etc/x\"\n    content = \"\"\n    mode = EXPR\n" +
			"    create_only = EXPR\n  }\n",
		"file when": "  file \"x\" {\n    when = EXPR\n    path = \"/etc/x\"\n    content = \"\"\n  }\n",
		"file each": "  file \"x\" {\n    for_each = EXPR\n    path = \"/etc/${each.key}\"\n" +
			"    content = each.value\n  }\n",
		"directory":   "  directory \"x\" {\n    path = EXPR\n  }\n",
		"patch":       "  kubelet_config {\n    patch = EXPR\n  }\n",
		"field":       "  kubelet_config {\n    patch = { maxPods = EXPR }\n  }\n",
		"base":        "  kubelet_config {\n    base = EXPR\n  }\n",
		"config when": "  kubelet_config {\n    when = EXPR\n  }\n",
		"flags":       "  kubelet_flags {\n    flags = EXPR\n  }\n",
		"flag":        "  kubelet_flags {\n    flags = { v = EXPR }\n  }\n",
		"flags base":  "  kubelet_flags {\n    base = EXPR\n  }\n",
		"ca":          "  ca_certificate {\n    content = EXPR\n  }\n",
		"server":      "  bootstrap_kubeconfig {\n    server = EXPR\n    ca = EXPR\n  }\n",
		"precondition": "}\nstage \"restart\" \"x\" {\n  precondition {\n    condition = EXPR\n" +
			"    error_message = \"no\"\n  }\n",
	}
}

// writeNothing is a stage that writes the kubelet's files without anything of the cluster.
const writeNothing = `stage "write" "w" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { base = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" }
}
`

const around = cluster + `variable "secret" {
  sensitive = true
}
variable "given" {}
locals {
  mixed = { a = var.given, b = stage.detect-hw.node.product.serial, c = credential("s") }
}
stage "detect-hw" "node" {}
stage "fetch-ca" "ca" {}
stage "fetch-config" "c" {
  config_map = "kube-system/kubelet-config"
}
stage "fetch-config" "f" {
  file = "/etc/yaml"
}
stage "fetch-config" "each" {
  for_each = toset(["a", "b"])
  file     = "/etc/${each.key}"
  optional = true
}
stage "label" "ok" {
  labels = { "example.com/ok" = "1" }
}
`

// TestEverySlot puts every kind of expression into every place: on a laptop, on a machine, and in a replay without its
// answers. It may be refused; it must not panic, and it must not show a secret's placeholder. A sample of the pairs is
// tried.
func TestEverySlot(t *testing.T) {
	chosen := sample.New(t)
	all := listSlots()
	for name, text := range listWriteSlots() {
		all["write "+name] = text
	}
	src := tape.SourceFunc(func(_ context.Context, q tape.Question) tape.Answer {
		switch {
		case q.Kind == tape.KindFile && !strings.Contains(q.Args, "absent"):
			return tape.File.Answer(tape.FileAns{Text: "a: b\n"})
		case q.Kind == tape.KindVariable && strings.Contains(q.Args, "secret"):
			return tape.Variable.Answer(tape.VariableAns{Source: "credential"})
		case q.Kind == tape.KindVariable:
			return tape.Variable.Answer(tape.VariableAns{Text: "x", Source: "flag"})
		case q.Kind == tape.KindCredential && strings.Contains(q.Args, "absent"):
			return tape.Failure(fault.Absent, "not there", "")
		case q.Kind == tape.KindHardware:
			return tape.Hardware.Answer(*findSample("null facts"))
		}
		return answerAsUsual(q, nil)
	})
	nothing := (&tape.Recording{}).Source()
	var complete atomic.Int64
	t.Cleanup(func() {
		if n := complete.Load(); n < 5 && !sample.IsQuick() {
			t.Errorf("complete plans: got %d, want at least 5: else the sites around the slots are wrong", n)
		}
	})
	for name, text := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expressions := listNasty()
			first, step := chosen.OneIn(sample.Quarter(9), name)
			for i := first; i < len(expressions); i += step {
				x := expressions[i]
				site := around + strings.ReplaceAll(text, "EXPR", x) + writeNothing
				if body, ok := strings.CutPrefix(name, "write "); ok && body != "" {
					site = around + "stage \"write\" \"kubelet\" {\n" + strings.ReplaceAll(text, "EXPR", x) + "}\n"
				}
				s, diags := parseCase(&txtar.Archive{Files: []txtar.File{{Name: "site.hcl", Data: []byte(site)}}})
				if diags.HasErrors() {
					continue
				}
				p := Run(context.Background(), s, RunInput{Source: src})
				q := Run(context.Background(), s, RunInput{Source: nothing})
				for where, ds := range map[string]string{"laptop": showDiagnostics(Check(s, SampleMachines()[3:4], CheckOptions{})),
					"machine": showPlan(p), "replay": showPlan(q)} {
					if strings.Contains(ds, " "+string(fault.Internal)+" ") {
						t.Errorf("%s on a %s: got %s\nwant no fault of prelet", x, where, ds)
					}
					if secret.HasPlaceholder(ds) {
						t.Errorf("%s on a %s: got a placeholder in %s\nwant none", x, where, ds)
					}
				}
				if q.Complete {
					t.Errorf("%s, a replay of nothing: got a complete plan, want none", x)
				}
				if p.Complete {
					complete.Add(1)
					n := p.Node
					n.Files = nil // the only place where secrets may be, by name
					if b := string(n.Canonical()); secret.HasPlaceholder(b) {
						t.Errorf("%s: got a secret in the plan: %s\nwant none", x, b)
					}
				}
			}
		})
	}
}
