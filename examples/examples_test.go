// Package examples contains example sites. Its tests validate each of them, plan it on recorded machines, compare the
// plan with the golden file next to it, and plan it again from its own recording.
package examples

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/sample"
	"github.com/prelet/prelet/stages/builtin"
)

var update = flag.Bool("update", false, "write the golden files")

// example is one site with the machines that it is planned on.
type example struct {
	name     string
	paths    []string
	machines []string
	root     map[string]string // files of the node
	vars     map[string]string
}

func all() []example {
	etc := map[string]string{
		"etc/kubernetes/init-config": `{"apiserver": "10.178.4.10:6443", "k8s_version": "1.11", "listenInterface": "eth0", "nodeLabels": "beta.kubernetes.io/instance-type=virtualMachine, node.netease.com/pool=online", "nodeTaints": "node.netease.com/phase=online:NoSchedule", "resources": {"cpuRemained": 1, "memoryReserved": "50%"}}`,
		"etc/kubernetes/port.conf":   `{"id": "6a9a1c2e", "fixed_ips": [{"subnet_id": "9d2b40f1"}]}`,
	}
	return []example{
		{name: "minimal", machines: []string{"bare-vm", "two-sockets"}},
		{name: "kubeadm", machines: []string{"bare-vm", "two-sockets"}, vars: map[string]string{"zone": "az2-r03"}},
		{
			name:     "gpu-training",
			machines: []string{"dgx-h100", "mi300x", "two-sockets"},
			vars:     map[string]string{"zone": "az1-r07"},
		},
		{name: "gpu-fit", machines: []string{"dgx-h100", "two-sockets"}},
		{
			name:     "containerd",
			machines: []string{"dgx-h100", "bare-vm"},
			root: map[string]string{
				"etc/containerd/config.toml": read("containerd/testdata/node/etc/containerd/config.toml"),
			},
		},
		{name: "k3s", machines: []string{"dgx-h100", "two-sockets"}},
		{name: "by-subnet", machines: []string{"bare-vm", "two-sockets"}},
		{name: "by-inventory", machines: []string{"dgx-h100", "bare-vm", "two-sockets"}},
		{
			name:     "by-cloud",
			machines: []string{"dgx-h100"},
			root: map[string]string{
				"run/cloud-init/instance-data.json": read("by-cloud/testdata/node/run/cloud-init/instance-data.json"),
			},
		},
		{name: "legacy-vm", machines: []string{"legacy-mt27710", "legacy-82599", "bare-vm"}, root: etc},
		{
			name:     "layered",
			paths:    []string{"layered/image", "layered/site"},
			machines: []string{"two-sockets", "dgx-h100"},
			vars:     map[string]string{"zone": "az1-r07"},
			root:     map[string]string{"etc/prelet/ca.crt": read("objects/ca.crt")},
		},
	}
}

func read(p string) string {
	b, err := os.ReadFile(p)
	if err != nil {
		panic(err)
	}
	return string(b)
}

const token = "abcdef.0123456789canary"

func (e example) load(t *testing.T) *lang.Site {
	t.Helper()
	paths := e.paths
	if paths == nil {
		paths = []string{e.name}
	}
	s, diags := lang.Load(lang.OS(), lang.LoadOptions{Paths: paths, Stages: builtin.Stages(), Version: "0.1.0"})
	if len(diags) > 0 {
		t.Fatalf("got %v, want no message", diags)
	}
	return s
}

// world answers for one machine: its facts as they were recorded, everything else through the live adapters.
func (e example) world(t *testing.T, s *lang.Site, machine string, creds probe.Credentials) tape.Source {
	t.Helper()
	root := t.TempDir()
	osfile.WriteTree(t, root, e.root)
	facts := osfile.Read(t, filepath.Join("../testdata/hardware/facts", machine+".json"))
	given := map[string]probe.Given{}
	for name, text := range e.vars {
		given[name] = probe.Given{Text: text, Source: "--var"}
	}
	l := probe.New(probe.Sources{Root: root, Objects: "objects", Site: s, Variables: given, Credentials: creds})
	t.Cleanup(l.Close)
	return tape.SourceFunc(func(ctx context.Context, q tape.Question) tape.Answer {
		if q.Kind == tape.KindHardware {
			return tape.Answer{Value: json.RawMessage(facts)}
		}
		return l.Ask(ctx, q)
	})
}

// TestExamplesAreValid checks each example, and the site that images of packaging/image contain, as `prelet seal` does at
// their build.
func TestExamplesAreValid(t *testing.T) {
	image := example{name: "image", paths: []string{"../packaging/image/site/usr/lib/prelet/site"}}
	for _, e := range append(all(), image) {
		t.Run(e.name, func(t *testing.T) {
			for _, d := range evaluate.Check(e.load(t), evaluate.SampleMachines(), evaluate.CheckOptions{}) {
				if !origin.IsNote(d) {
					t.Errorf("got %s at %s, want no error or warning", d, d.Subject)
				}
			}
		})
	}
}

// TestPlans compares the printed form of each plan with the golden file next to the site.
func TestPlans(t *testing.T) {
	for _, e := range all() {
		for _, m := range e.machines {
			t.Run(e.name+"/"+m, func(t *testing.T) {
				s := e.load(t)
				p := planSite(t, s, e.world(t, s, m, demo.Credentials{"bootstrap-token": token}))
				var b bytes.Buffer
				_ = printer.Diagnostics(&b, s.Sources, printer.Sorted(p.Diagnostics), printer.Style{Width: 100})
				must(t, printer.PlanText(&b, printer.View{Plan: p, Full: true}, printer.Style{Width: 100}))
				golden(t, filepath.Join(e.name, "golden", m+".txt"), b.Bytes())
			})
		}
	}
}

// planSite plans a site, and ends the test unless the plan is complete.
func planSite(t *testing.T, s *lang.Site, source tape.Source) *evaluate.Plan {
	t.Helper()
	p := evaluate.Run(context.Background(), s, evaluate.RunInput{Source: source})
	if !p.Complete {
		t.Fatalf("got a plan that is not complete: %v", p.Diagnostics)
	}
	return p
}

// replay plans the site that is in a recording, from its answers.
func replay(t *testing.T, recording io.Reader) *evaluate.Plan {
	t.Helper()
	r, err := tape.Decode(recording)
	must(t, err)
	s, diags := lang.Parse(r.Header.Site, lang.LoadOptions{Stages: builtin.Stages(), Version: "0.1.0"})
	if diags.HasErrors() {
		t.Fatalf("got %v; want the site of the recording valid", diags)
	}
	return planSite(t, s, r.Source())
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if bytes.Contains(got, []byte("canary")) {
		t.Errorf("a secret is in the output")
	}
	osfile.Golden(t, path, got, *update)
}

// TestLiveAndReplay plans every example on every machine twenty times, with answers that come in another order each
// time, and once more from the recording of each run: one hash, and no adapter is touched by the replay. Secrets are
// in play: they change from run to run, and the hash does not see them. Every second run knows only the facts that
// its site refers to.
func TestLiveAndReplay(t *testing.T) {
	chosen := sample.New(t)
	for _, e := range append(all(), cloud()) {
		for _, m := range e.machines {
			t.Run(e.name+"/"+m, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { liveAndReplay(t, e, m, chosen) })
			})
		}
	}
}

func liveAndReplay(t *testing.T, e example, machine string, chosen sample.Sample) {
	s := e.load(t)
	hash := ""
	const orders = 20
	first, step := chosen.OneIn(7, e.name, machine)
	for n := first; n < orders; n += step {
		secret := strings.Repeat(string(rune('a'+n)), 16)
		creds := demo.Credentials{"bootstrap-token": "canary." + secret, "cloud-password": "canary" + secret}
		p := planSite(t, s, shuffled(e.world(t, s, machine, creds), int64(n)))
		if hash == "" {
			hash = p.Hash
		}
		if p.Hash != hash {
			t.Fatalf("run %d has hash %s, want %s", n, p.Hash, hash)
		}
		var b bytes.Buffer
		rec := &tape.Recording{Header: tape.Header{Site: s.Files}, Entries: p.Tape.Entries()}
		must(t, rec.Encode(&b))
		if bytes.Contains(b.Bytes(), []byte("canary")) || bytes.Contains(b.Bytes(), []byte(secret)) {
			t.Fatal("a secret is in the recording")
		}
		if got := replay(t, &b).Hash; got != hash {
			t.Fatalf("the replay of run %d has hash %s, want %s", n, got, hash)
		}
	}
}

// shuffled delays each answer by a little that the seed gives, so that gatherers end in another order.
// It is for synctest's clock, on which a delay costs no time.
func shuffled(s tape.Source, seed int64) tape.Source {
	return tape.SourceFunc(func(ctx context.Context, q tape.Question) tape.Answer {
		h := seed
		for _, r := range q.String() {
			h = h*31 + int64(r)
		}
		time.Sleep(time.Duration(rand.New(rand.NewSource(h)).Intn(1500)) * time.Microsecond)
		return s.Ask(ctx, q)
	})
}

// cloud is a site whose node talks to a cloud: a provider's flags, and a file with a password.
func cloud() example {
	return example{name: "cloud", paths: []string{"testdata/cloud"}, machines: []string{"bare-vm", "two-sockets"},
		root: map[string]string{"etc/default/kubelet": "# kept\nKUBELET_EXTRA_ARGS=--v=2\n"}}
}

// TestCloudSite holds that a password does not show in the plan. The files are those of TestStability.
func TestCloudSite(t *testing.T) {
	e := cloud()
	s := e.load(t)
	p := planSite(t, s, e.world(t, s, "bare-vm", demo.Credentials{"bootstrap-token": token, "cloud-password": `pa"ss\canary`}))
	got := string(p.Node.Canonical())
	for _, f := range p.Node.Files {
		got += f.Text.String()
	}
	if strings.Contains(got, "canary") || !strings.Contains(got, "/etc/kubernetes/cloud.conf") {
		t.Errorf("got a plan that shows the secret or lacks cloud.conf:\n%s", got)
	}
}

// TestLayouts plans the same site on a deb and on an rpm system: the whole file, and the drop-in next to config.yaml.
func TestLayouts(t *testing.T) {
	e := example{paths: []string{"testdata/dropin"}, root: map[string]string{"var/lib/kubelet/config.yaml": `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 250
systemReserved: {memory: 1Gi}
`}}
	for id, like := range map[string][]string{"debian": {}, "rocky": {"rhel", "fedora"}} {
		t.Run(id, func(t *testing.T) {
			s := e.load(t)
			source := e.world(t, s, "two-sockets", demo.Credentials{"bootstrap-token": stableSecrets["bootstrap-token"]})
			p := planSite(t, s, changeFacts(t, source, func(facts map[string]any) {
				facts["os"] = tape.OS{ID: &id, IDLike: like}
			}))

			golden(t, "testdata/dropin/golden/"+id+".txt", []byte(managed(t, p)))
		})
	}
}

// TestExamplesAreFormatted holds that the examples are as `prelet fmt --check` wants them in CI.
func TestExamplesAreFormatted(t *testing.T) {
	for _, pattern := range []string{"*/*.hcl", "*/*/*.hcl", "*/*/*.preletvars.hcl"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: got %d examples, %v; want some", pattern, len(names), err)
		}
		for _, name := range names {
			text := osfile.Read(t, name)
			if got := lang.Format(text); string(got) != string(text) {
				t.Errorf("%s: got\n%s\nwant it as prelet fmt writes it:\n%s", name, text, got)
			}
		}
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
