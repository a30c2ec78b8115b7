package explain_test

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/lab/explain"
	"github.com/prelet/prelet/internal/testing/table"
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
	for _, c := range table.YAML[[]struct {
		Expr, Value string
		Want        []string
	}](t, `
- {expr: '"literal"', value: literal, want: [written here = "literal"]}
- {expr: '("in" == "in" ? "a" : "b")', value: a, want: ['"in" == "in" is true', 'so it is "a", not "b"']}
- expr: slug((local.hw.gpus[*].model)[0])
  value: h100-80gb-hbm3
  want: ['stage.detect-hw.node.gpus = [8 elements]']
- expr: 'slug(join("-", [for g in local.hw.gpus : g.numa]))'
  value: 0-0-0-0-1-1-1-1
  want: ['stage.detect-hw.node.gpus = [8 elements]']
- {expr: 'length(local.hw.gpus[*].numa)', value: '8', want: ['stage.detect-hw.node.gpus = [8 elements]']}
- expr: slug(local.hw.gpus[var.i].model)
  value: h100-80gb-hbm3
  want: ['stage.detect-hw.node.gpus[2].model', var.i = 2, its default]
- expr: 'slug([for g in local.hw.gpus : g.address if g.numa == 1][0])'
  value: 0000-9d-00.0
  want: ['stage.detect-hw.node.gpus = [8 elements]']
- expr: 'slug({ for k, g in local.hw.gpus : g.address => g.model }["0000:43:00.0"])'
  value: h100-80gb-hbm3
  want: ['stage.detect-hw.node.gpus = [8 elements]']
- expr: 'length({ for g in local.hw.gpus : g.vendor => g.model... }["nvidia"])'
  value: '8'
  want: ['stage.detect-hw.node.gpus = [8 elements]']
- expr: '"%{if length(local.hw.gpus) > 0}yes%{else}no%{endif}"'
  value: 'yes'
  want: [length(local.hw.gpus) > 0 is true, so it is]
- expr: '"%{for g in slice(local.hw.gpus, 0, 1)}${slug(g.model)}%{endfor}"'
  value: h100-80gb-hbm3
  want: ['stage.detect-hw.node.gpus = [8 elements]']
- expr: merge([{ a = "1" }, { b = slug(local.hw.gpus[5].model) }]...)["b"]
  value: h100-80gb-hbm3
  want: ['stage.detect-hw.node.gpus[5].model']
- expr: merge({ b = "1" }, { b = slug(local.hw.gpus[6].model) }).b
  value: h100-80gb-hbm3
  want: ['stage.detect-hw.node.gpus[6].model']
- expr: coalesce(local.hw.gpus[0].memory_gib, length(local.hw.numa))
  value: '2'
  want: ['stage.detect-hw.node.gpus[0].memory_gib = null', 'stage.detect-hw.node.numa = [2 elements]']
- expr: try(local.hw.gpus[99].model, "none")
  value: none
  want: ['stage.detect-hw.node.gpus[99].model = (not there)']
- expr: try(local.hw.gpus[length(local.hw.gpus)-9].model, "none")
  value: none
  want: ['stage.detect-hw.node.gpus["-1"].model = (not there)']
- {expr: 'try(local.hw.nics[-1].model, "none")', value: none, want: [(not there)]}
- expr: concat(["a"], [local.hw.cpu.vendor])[1]
  value: GenuineIntel
  want: [stage.detect-hw.node.cpu.vendor = "GenuineIntel"]
- expr: slug(reverse(local.hw.gpus)[0].address)
  value: 0000-df-00.0
  want: ['stage.detect-hw.node.gpus = [8 elements]']
- {expr: length(local.hw.gpus) * 2 + 1, value: '17', want: ['stage.detect-hw.node.gpus = [8 elements]']}
- {expr: '!can(local.hw.gpus[99])', value: 'true', want: ['stage.detect-hw.node.gpus[99] = (not there)']}
- {expr: 'lookup({ a = local.hw.cpu.vendor }, "a", "")', value: GenuineIntel, want: [cpu.vendor = "GenuineIntel"]}
- {expr: slug(file("/etc/x")), value: text-of-the-file, want: [file("/etc/x") = "text of the file\n"]}
- {expr: fileexists("/etc/none"), value: 'false', want: [fileexists("/etc/none"), 'false', absent]}
- {expr: can(credential("none")), value: 'false', want: [credential("none") = (error)]}
- expr: stage.label.first.labels["a"]
  value: h100-80gb-hbm3
  want: [stage.label.first.labels.a = "h100-80gb-hbm3", 'stage.detect-hw.node.gpus[3].model']
- {expr: stage.fetch-ca.cluster.verified_by, value: ca_cert_hashes, want: [stage.fetch-ca.cluster.verified_by]}
- expr: stage.fetch-config.kubelet.resource_version
  value: '219'
  want: ['ConfigMap kube-system/kubelet-config, resource version 219']
- {expr: stage.detect-hw.node.state, value: ok, want: [stage.detect-hw.node.state]}
- {expr: stage.reserve.node.max_pods, value: '64', want: [stage.reserve.node.max_pods = 64, policy =]}
- {expr: 'try(local.bad, "none")'}
- {expr: 'local.hw.interfaces["eno1"].mtu'}
- expr: slug(one(distinct(local.hw.gpus[*].vendor)))
  value: nvidia
  want: ['stage.detect-hw.node.gpus = [8 elements]']
`) {
		t.Run(c.Expr, func(t *testing.T) {
			p := sitePlan(t, more+`stage "label" "x" { labels = { l = `+c.Expr+` } }`)
			x, known := explain.Explain(p, explain.Item{Kind: explain.Label, Name: "l"})
			if c.Value == "" { // an error of the site must be shown, not hidden
				if x.Present || !known {
					t.Fatalf("got %+v; want a known, absent item", x)
				}
				return
			}
			if !known || x.Whole != c.Value {
				t.Fatalf("got %v, known %t; want %q: %v\n%s", x.Whole, known, c.Value, p.Diagnostics, text(t, x))
			}
			checkOrder(t, x, c.Want)
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

// TestOfflineCA explains the CA of --objects: a ca_file that is not on this machine has not verified it.
func TestOfflineCA(t *testing.T) {
	const file = "/etc/kubernetes/pki/ca.crt"
	for _, c := range []struct {
		root map[string]string
		want string
	}{
		{nil, "assumed: ca.crt of --objects, which stands for the ca_file: sha256:"},
		{map[string]string{"etc/prelet/ca.crt": "objects/ca.crt"}, "verified by ca_file: sha256:"},
	} {
		e := example{
			site: "layered", machine: "two-sockets", paths: []string{"layered/image", "layered/site"}, root: c.root,
			vars: map[string]string{"zone": "az1-r07"},
		}
		x, isKnown := explain.Explain(e.plan(t), explain.Item{Kind: explain.File, Name: file})
		if got := strings.Join(strings.Fields(text(t, x)), " "); !isKnown || !strings.Contains(got, c.want) {
			t.Errorf("%s with the root %v: got %s; want %q in it", file, c.root, got, c.want)
		}
	}
}
