package explain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/lab/explain"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/stages/builtin"
)

const (
	examplesDir = "../../../examples/"
	factsDir    = "../../../testdata/hardware/facts/"
	canary      = "canary0123456789"
)

// example is one of the project's example sites on one recorded machine.
type example struct {
	site, machine string
	paths         []string
	root          map[string]string
	vars          map[string]string
}

func (e example) name() string { return e.site + "/" + e.machine }

func examples() (out []example) {
	etc := map[string]string{
		"etc/kubernetes/init-config": `{"apiserver": "10.178.4.10:6443", "k8s_version": "1.11", "listenInterface": "eth0", "nodeLabels": "beta.kubernetes.io/instance-type=virtualMachine, node.netease.com/pool=online", "nodeTaints": "node.netease.com/phase=online:NoSchedule", "resources": {"cpuRemained": 1, "memoryReserved": "50%"}}`,
		"etc/kubernetes/port.conf":   `{"id": "6a9a1c2e", "fixed_ips": [{"subnet_id": "9d2b40f1"}]}`,
	}
	zone := map[string]string{"zone": "az1-r07"}
	add := func(site string, paths []string, root, vars map[string]string, machines ...string) {
		for _, m := range machines {
			out = append(out, example{site, m, paths, root, vars})
		}
	}
	add("minimal", nil, nil, nil, "two-sockets")
	add("kubeadm", nil, nil, map[string]string{"zone": "az2-r03"}, "two-sockets")
	add("gpu-training", nil, nil, zone, "dgx-h100", "mi300x", "two-sockets")
	add("legacy-vm", nil, etc, nil, "legacy-mt27710", "legacy-82599")
	add(
		"layered",
		[]string{"layered/image", "layered/site"},
		map[string]string{"etc/prelet/ca.crt": "objects/ca.crt"},
		zone,
		"two-sockets",
	)
	add(
		"cloud",
		[]string{"testdata/cloud"},
		map[string]string{"etc/default/kubelet": "# kept\nKUBELET_EXTRA_ARGS=--v=2\n"},
		nil,
		"bare-vm",
	)
	return out
}

var dgx = example{site: "gpu-training", machine: "dgx-h100", vars: map[string]string{"zone": "az1-r07"}}

// plan evaluates an example in process.
func (e example) plan(t *testing.T) *evaluate.Plan {
	t.Helper()
	root := t.TempDir()
	for p, text := range e.root {
		if b, err := os.ReadFile(examplesDir + text); err == nil {
			text = string(b)
		}
		write(t, filepath.Join(root, p), text)
	}
	var paths []string
	for _, p := range e.paths {
		paths = append(paths, examplesDir+p)
	}
	if paths == nil {
		paths = []string{examplesDir + e.site}
	}
	facts := osfile.Read(t, factsDir+e.machine+".json")
	return plan(t, paths, root, facts, e.vars)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	osfile.Write(t, path, text, 0o644)
}

func plan(t *testing.T, paths []string, root string, facts []byte, vars map[string]string) *evaluate.Plan {
	t.Helper()
	s, diags := lang.Load(lang.OS(), lang.LoadOptions{Paths: paths, Stages: builtin.Stages(), Version: "0.1.0"})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	given := map[string]probe.Given{}
	for name, text := range vars {
		given[name] = probe.Given{Text: text, Source: "--var"}
	}
	l := probe.New(probe.Sources{Root: root, Objects: examplesDir + "objects", Site: s, Variables: given,
		Credentials: demo.Credentials{"bootstrap-token": "abcdef." + canary, "cloud-password": canary}})
	t.Cleanup(l.Close)
	return evaluate.Run(
		context.Background(),
		s,
		evaluate.RunInput{Source: tape.SourceFunc(func(ctx context.Context, q tape.Question) tape.Answer {
			if q.Kind == tape.KindHardware {
				return tape.Answer{Value: json.RawMessage(facts)}
			}
			return l.Ask(ctx, q)
		}), Explains: true},
	)
}

// text is an explanation as people see it.
func text(t *testing.T, x explain.Explanation) string {
	t.Helper()
	var b bytes.Buffer
	must(t, printer.ExplainText(&b, x, printer.Style{Width: 80}))
	return strings.ReplaceAll(b.String(), examplesDir, "")
}

// explained explains one item that must be known.
func explained(t *testing.T, p *evaluate.Plan, word string) explain.Explanation {
	t.Helper()
	i, ok := explain.Parse(word)
	if !ok {
		t.Fatalf("got no item of %s, want one", word)
	}
	x, known := explain.Explain(p, i)
	if !known {
		t.Fatalf("%s: got an unknown item, want a known one: %v", word, p.Diagnostics)
	}
	return x
}

// checkOrder looks for texts in an explanation, in their order.
func checkOrder(t *testing.T, x explain.Explanation, wants []string) {
	t.Helper()
	rest := strings.Join(strings.Fields(strings.NewReplacer("│", "", "├", "", "└", "").Replace(text(t, x))), " ")
	for _, want := range wants {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("got\n%s\nwant %q, after what is before it in the list", text(t, x), want)
		}
		rest = after
	}
}

// replay plans the site of a plan again, from other answers.
func replay(p *evaluate.Plan, entries []tape.Entry) *evaluate.Plan {
	rec := &tape.Recording{Entries: entries}
	return evaluate.Run(context.Background(), p.Site, evaluate.RunInput{Source: rec.Source(), Explains: true})
}

// namesOf lists the variables, locals and stages of a plan, as sep writes them.
func namesOf(p *evaluate.Plan, sep string) []string {
	var names []string
	for name := range p.Site.Variables {
		names = append(names, "var"+sep+name)
	}
	for name := range p.Site.Locals {
		names = append(names, "local"+sep+name)
	}
	for _, i := range p.Site.Stages {
		names = append(names, "stage"+sep+i.Addr())
	}
	return names
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
