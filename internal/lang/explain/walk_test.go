package explain_test

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/lang/explain"
)

// TestExpressions walks each form of the language: the value, and what the chain must say, in this order.
func TestExpressions(t *testing.T) {
	const more = `
variable "i" {
  type    = number
  default = 2
}
stage "reserve" "node" {
  policy   = "gke"
  max_pods = 64
}
stage "label" "first" { labels = { a = slug(local.hw.gpus[3].model) } }
locals { bad = tonumber("x") }
`
	gpu := func(n, field string) string { return "stage.detect-hw.node.gpus[" + n + "]." + field }
	for _, c := range []struct {
		expr, value string
		want        []string
	}{
		{`"literal"`, "literal", []string{`written here = "literal"`}},
		{`("in" == "in" ? "a" : "b")`, "a", []string{`written here = "a"`}},
		{`slug((local.hw.gpus[*].model)[0])`, "h100-80gb-hbm3", []string{gpu("0", "model")}},
		{`slug(join("-", [for g in local.hw.gpus : g.numa]))`, "0-0-0-0-1-1-1-1", []string{"keeps 8 of 8", gpu("0", "numa") + " = 0", "… and 5 more"}},
		{`length(local.hw.gpus[*].numa)`, "8", []string{gpu("0", "numa"), "stage.detect-hw.node.gpus = [8 objects]"}},
		{`slug(local.hw.gpus[var.i].model)`, "h100-80gb-hbm3", []string{"index var.i = 2", "its default", gpu("2", "model")}},
		{`slug([for g in local.hw.gpus : g.address if g.numa == 1][0])`, "0000-9d-00.0", []string{"[0] is its element [4]", gpu("4", "address"), "if g.numa == 1 is true", gpu("4", "numa")}},
		{`slug({ for k, g in local.hw.gpus : g.address => g.model }["0000:43:00.0"])`, "h100-80gb-hbm3", []string{`["0000:43:00.0"] is its element [1]`, "its key g.address", gpu("1", "address"), gpu("1", "model")}},
		{`length({ for g in local.hw.gpus : g.vendor => g.model... }["nvidia"])`, "8", []string{"keeps 8 of 8", gpu("0", "model")}},
		{`"%{if length(local.hw.gpus) > 0}yes%{else}no%{endif}"`, "yes", []string{"length(local.hw.gpus) > 0 is true", `so it is`}},
		{`"%{for g in slice(local.hw.gpus, 0, 1)}${slug(g.model)}%{endfor}"`, "h100-80gb-hbm3", []string{"keeps 1 of 1", gpu("0", "model")}},
		{`merge([{ a = "1" }, { b = slug(local.hw.gpus[5].model) }]...)["b"]`, "h100-80gb-hbm3", []string{"merge(", gpu("5", "model")}},
		{`merge({ b = "1" }, { b = slug(local.hw.gpus[6].model) }).b`, "h100-80gb-hbm3", []string{"argument 2 of 2 has it", gpu("6", "model")}},
		{`coalesce(local.hw.gpus[0].memory_gib, length(local.hw.numa))`, "2", []string{gpu("0", "memory_gib") + " = null", "length(local.hw.numa) = 2"}},
		{`try(local.hw.gpus[99].model, "none")`, "none", []string{"(error)", "argument 2: taken"}},
		{`concat(["a"], [local.hw.cpu.vendor])[1]`, "GenuineIntel", []string{"[1] is element [0] of argument 2", `stage.detect-hw.node.cpu.vendor = "GenuineIntel"`}},
		{`slug(reverse(local.hw.gpus)[0].address)`, "0000-df-00.0", []string{"[0] is element [7] of argument 1", gpu("7", "address")}},
		{`length(local.hw.gpus) * 2 + 1`, "17", []string{"length(local.hw.gpus) = 8"}},
		{`!can(local.hw.gpus[99])`, "true", []string{"can(local.hw.gpus[99]) = false", "stage.detect-hw.node.gpus[99] = (not there)"}},
		{`lookup({ a = local.hw.cpu.vendor }, "a", "")`, "GenuineIntel", []string{"lookup(", `cpu.vendor = "GenuineIntel"`}},
		{`slug(file("/etc/x"))`, "text-of-the-file", []string{`file("/etc/x") = "text of the file\n"`}},
		{`fileexists("/etc/none")`, "false", []string{`fileexists("/etc/none")`, "false", "absent"}},
		{`can(credential("none"))`, "false", []string{`can(credential("none"))`, "false", `credential("none") = (sensitive)`}},
		{`stage.label.first.labels["a"]`, "h100-80gb-hbm3", []string{`stage.label.first.labels.a = "h100-80gb-hbm3"`, gpu("3", "model")}},
		{`stage.fetch-ca.cluster.verified_by`, "ca_cert_hashes", []string{"stage.fetch-ca.cluster.verified_by"}},
		{`stage.fetch-config.kubelet.resource_version`, "219", []string{"ConfigMap kube-system/kubelet-config, resource version 219"}},
		{`stage.detect-hw.node.state`, "ok", []string{"stage.detect-hw.node.state"}},
		{`stage.reserve.node.max_pods`, "64", []string{"stage.reserve.node.max_pods = 64", "policy ="}},
		{`try(local.bad, "none")`, "", nil},
		{`local.hw.interfaces["eno1"].mtu`, "", nil},
		{`slug(one(distinct(local.hw.gpus[*].vendor)))`, "nvidia", []string{gpu("0", "vendor")}},
	} {
		t.Run(c.expr, func(t *testing.T) {
			p := sitePlan(t, more+`stage "label" "x" { labels = { l = `+c.expr+` } }`, nil)
			x, known := explain.Explain(p, explain.Item{Kind: explain.Label, Name: "l"})
			if c.value == "" { // an error of the site: it must be told, not hidden
				if x.Present || !known {
					t.Fatalf("there, or not known: %+v", x)
				}
				return
			}
			if !known || x.Whole != c.value {
				t.Fatalf("it is %v, known %v, not %q: %v\n%s", x.Whole, known, c.value, p.Diagnostics, text(t, x))
			}
			all := strings.Join(strings.Fields(strings.NewReplacer("│", "", "├", "", "└", "").Replace(text(t, x))), " ")
			rest := all
			for _, want := range c.want {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Fatalf("%q is not in it, or not there:\n%s", want, text(t, x))
				}
				rest = after
			}
		})
	}
}

// TestTaintOfSeveral explains one element of a list, and each effect of a key.
func TestTaintOfSeveral(t *testing.T) {
	p := sitePlan(t, `stage "taint" "x" { taints = ["a=${slug(local.hw.cpu.vendor)}:NoSchedule", "b=${slug(local.hw.product.vendor)}:NoSchedule", "a=z:NoExecute"] }`, nil)
	x := explained(t, p, "taint/b")
	if got := text(t, x); x.Value != `"b=nvidia:NoSchedule"` || !strings.Contains(got, "product.vendor") || strings.Contains(got, "cpu.vendor") {
		t.Errorf("b:\n%s", got)
	}
	if x := explained(t, p, "taint/a"); len(x.Whole.([]string)) != 2 {
		t.Errorf("a has the effects %v", x.Whole)
	}
	if x := explained(t, p, "taint/a:NoExecute"); x.Value != `"a=z:NoExecute"` || strings.Contains(text(t, x), "cpu.vendor") {
		t.Errorf("a:NoExecute:\n%s", text(t, x))
	}
}
