package explain_test

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/lab/explain"
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
		{`("in" == "in" ? "a" : "b")`, "a", []string{`"in" == "in" is true`, `so it is "a", not "b"`}},
		{`slug((local.hw.gpus[*].model)[0])`, "h100-80gb-hbm3", []string{"stage.detect-hw.node.gpus = [8 elements]"}},
		{`slug(join("-", [for g in local.hw.gpus : g.numa]))`, "0-0-0-0-1-1-1-1", []string{"stage.detect-hw.node.gpus = [8 elements]"}},
		{`length(local.hw.gpus[*].numa)`, "8", []string{"stage.detect-hw.node.gpus = [8 elements]"}},
		{`slug(local.hw.gpus[var.i].model)`, "h100-80gb-hbm3", []string{gpu("2", "model"), "var.i = 2", "its default"}},
		{`slug([for g in local.hw.gpus : g.address if g.numa == 1][0])`, "0000-9d-00.0", []string{"stage.detect-hw.node.gpus = [8 elements]"}},
		{`slug({ for k, g in local.hw.gpus : g.address => g.model }["0000:43:00.0"])`, "h100-80gb-hbm3", []string{"stage.detect-hw.node.gpus = [8 elements]"}},
		{`length({ for g in local.hw.gpus : g.vendor => g.model... }["nvidia"])`, "8", []string{"stage.detect-hw.node.gpus = [8 elements]"}},
		{`"%{if length(local.hw.gpus) > 0}yes%{else}no%{endif}"`, "yes", []string{"length(local.hw.gpus) > 0 " +
			"is true", `so it is`}},
		{`"%{for g in slice(local.hw.gpus, 0, 1)}${slug(g.model)}%{endfor}"`, "h100-80gb-hbm3", []string{"stage.detect-hw.node.gpus = [8 elements]"}},
		{`merge([{ a = "1" }, { b = slug(local.hw.gpus[5].model) }]...)["b"]`, "h100-80gb-hbm3", []string{gpu("5", "model")}},
		{`merge({ b = "1" }, { b = slug(local.hw.gpus[6].model) }).b`, "h100-80gb-hbm3", []string{gpu("6", "model")}},
		{`coalesce(local.hw.gpus[0].memory_gib, length(local.hw.numa))`, "2", []string{gpu("0", "memory_gib") + " = null", "stage.detect-hw.node.numa = [2 elements]"}},
		{`try(local.hw.gpus[99].model, "none")`, "none", []string{gpu("99", "model") + " = (not there)"}},
		{`try(local.hw.gpus[length(local.hw.gpus)-9].model, "none")`, "none", []string{
			`stage.detect-hw.node.gpus["-1"].model = (not there)`,
		}},
		{`try(local.hw.nics[-1].model, "none")`, "none", []string{`(not there)`}},
		{`concat(["a"], [local.hw.cpu.vendor])[1]`, "GenuineIntel", []string{`stage.detect-hw.node.cpu.vendor = "GenuineIntel"`}},
		{`slug(reverse(local.hw.gpus)[0].address)`, "0000-df-00.0", []string{"stage.detect-hw.node.gpus = [8 " +
			"elements]"}},
		{`length(local.hw.gpus) * 2 + 1`, "17", []string{"stage.detect-hw.node.gpus = [8 elements]"}},
		{`!can(local.hw.gpus[99])`, "true", []string{"stage.detect-hw.node.gpus[99] = (not there)"}},
		{`lookup({ a = local.hw.cpu.vendor }, "a", "")`, "GenuineIntel", []string{`cpu.vendor = "GenuineIntel"`}},
		{`slug(file("/etc/x"))`, "text-of-the-file", []string{`file("/etc/x") = "text of the file\n"`}},
		{`fileexists("/etc/none")`, "false", []string{`fileexists("/etc/none")`, "false", "absent"}},
		{`can(credential("none"))`, "false", []string{`credential("none") = (error)`}},
		{`stage.label.first.labels["a"]`, "h100-80gb-hbm3", []string{`stage.label.first.labels.a = "h100-80gb-hbm3"`, gpu("3", "model")}},
		{`stage.fetch-ca.cluster.verified_by`, "ca_cert_hashes", []string{"stage.fetch-ca.cluster.verified_by"}},
		{`stage.fetch-config.kubelet.resource_version`, "219", []string{"ConfigMap kube-system/kubelet-config, " +
			"resource version 219"}},
		{`stage.detect-hw.node.state`, "ok", []string{"stage.detect-hw.node.state"}},
		{`stage.reserve.node.max_pods`, "64", []string{"stage.reserve.node.max_pods = 64", "policy ="}},
		{`try(local.bad, "none")`, "", nil},
		{`local.hw.interfaces["eno1"].mtu`, "", nil},
		{`slug(one(distinct(local.hw.gpus[*].vendor)))`, "nvidia", []string{"stage.detect-hw.node.gpus = [8 " +
			"elements]"}},
	} {
		t.Run(c.expr, func(t *testing.T) {
			p := sitePlan(t, more+`stage "label" "x" { labels = { l = `+c.expr+` } }`)
			x, known := explain.Explain(p, explain.Item{Kind: explain.Label, Name: "l"})
			if c.value == "" { // an error of the site must be shown, not hidden
				if x.Present || !known {
					t.Fatalf("got %+v; want a known, absent item", x)
				}
				return
			}
			if !known || x.Whole != c.value {
				t.Fatalf("got %v, known %t; want %q: %v\n%s", x.Whole, known, c.value, p.Diagnostics, text(t, x))
			}
			checkOrder(t, x, c.want)
		})
	}
}

// TestTaintOfSeveral explains one element of a list, and each effect of a key.
func TestTaintOfSeveral(t *testing.T) {
	p := sitePlan(
		t,
		`stage "taint" "x" { taints = ["a=${slug(local.hw.cpu.vendor)}:NoSchedule", "b=${slug(local.hw.product.vendor)}:NoSchedule", "a=z:NoExecute"] }`,
	)
	x := explained(t, p, "taint/b")
	if got := text(
		t,
		x,
	); x.Value != `"b=nvidia:NoSchedule"` || !strings.Contains(got, "product.vendor") ||
		strings.Contains(got, "cpu.vendor") {
		t.Errorf("got\n%s\nwant b and its product only", got)
	}
	if x := explained(t, p, "taint/a"); len(x.Whole.([]string)) != 2 {
		t.Errorf("got the effects %v of a, want two", x.Whole)
	}
	if x := explained(
		t,
		p,
		"taint/a:NoExecute",
	); x.Value != `"a=z:NoExecute"` ||
		strings.Contains(text(t, x), "cpu.vendor") {
		t.Errorf("got\n%s\nwant a:NoExecute only", text(t, x))
	}
}

// TestTaintIsNoOtherValue checks that a label, a flag or a field whose value is the name of a taint is not taken for it.
func TestTaintIsNoOtherValue(t *testing.T) {
	p := sitePlan(t, `
stage "label" "x" { labels = { role = "edge" } }
stage "taint" "x" { taints = ["edge=true:NoSchedule"] }
override {
  stage "write" "kubelet" {
    kubelet_flags { flags = { hostname-override = "edge" } }
    kubelet_config { patch = { clusterDomain = "edge" } }
  }
}`)
	if x := explained(t, p, "taint/edge"); x.Value != `"edge=true:NoSchedule"` || len(x.Origins) != 1 {
		t.Errorf("got %s with %d origins, want only edge=true:NoSchedule:\n%s", x.Value, len(x.Origins), text(t, x))
	}
}
