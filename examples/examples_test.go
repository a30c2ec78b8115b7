// Package examples contains example sites. Its tests validate each of them, plan it on recorded machines, compare the
// plan with the golden file next to it, and plan it again from its own recording.
package examples

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/printer"
	"github.com/prelet/prelet/internal/probe"
	"github.com/prelet/prelet/internal/sample"
	"github.com/prelet/prelet/internal/world"
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
		{
			name:     "containerd",
			machines: []string{"dgx-h100", "bare-vm"},
			root: map[string]string{
				"etc/containerd/config.toml": read("containerd/testdata/node/etc/containerd/config.toml"),
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

// secrets are credentials for a test.
type secrets map[string]string

func (s secrets) Read(name string) ([]byte, error) {
	if v, ok := s[name]; ok {
		return []byte(v + "\n"), nil
	}
	return nil, fs.ErrNotExist
}

const token = "abcdef.0123456789canary"

func (e example) load(t *testing.T) *lang.Site {
	t.Helper()
	paths := e.paths
	if paths == nil {
		paths = []string{e.name}
	}
	s, diags := lang.Load(lang.OS(), lang.Options{Paths: paths, Stages: builtin.Stages(), Version: "0.1.0"})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return s
}

// world answers for one machine: its facts as they were recorded, everything else through the live adapters.
func (e example) world(t *testing.T, s *lang.Site, machine string, creds probe.Credentials) world.Source {
	t.Helper()
	root := t.TempDir()
	for p, text := range e.root {
		must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(p)), 0o755))
		must(t, os.WriteFile(filepath.Join(root, p), []byte(text), 0o644))
	}
	facts, err := os.ReadFile(filepath.Join("../testdata/hardware/facts", machine+".json"))
	must(t, err)
	given := map[string]probe.Given{}
	for name, text := range e.vars {
		given[name] = probe.Given{Text: text, Source: "--var"}
	}
	l := probe.New(probe.Options{Root: root, Objects: "objects", Site: s, Variables: given, Credentials: creds})
	t.Cleanup(l.Close)
	return world.SourceFunc(func(ctx context.Context, q world.Question) world.Answer {
		if q.Kind == world.KindHardware {
			return world.Answer{Value: json.RawMessage(facts)}
		}
		return l.Ask(ctx, q)
	})
}

func TestExamplesAreValid(t *testing.T) {
	for _, e := range all() {
		t.Run(e.name, func(t *testing.T) {
			s := e.load(t)
			for _, d := range boot.Check(s, boot.SampleMachines(), boot.CheckOptions{}) {
				if d.Severity == hcl.DiagError {
					t.Error(d)
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
				p := boot.Run(
					context.Background(),
					s,
					boot.Options{Source: e.world(t, s, m, secrets{"bootstrap-token": token})},
				)
				var b bytes.Buffer
				_ = printer.Diagnostics(&b, s.Sources, printer.Sorted(p.Diagnostics), printer.Style{Width: 100})
				must(t, printer.PlanText(&b, printer.View{Plan: p}, printer.Style{Width: 100}))
				if !p.Complete {
					t.Errorf("the plan is not complete")
				}
				golden(t, filepath.Join(e.name, "golden", m+".txt"), b.Bytes())
			})
		}
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if bytes.Contains(got, []byte("canary")) {
		t.Errorf("a secret is in the output")
	}
	if *update {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s differs (-update writes it):\n%s", path, d)
	}
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
		creds := secrets{"bootstrap-token": "canary." + secret, "cloud-password": "canary" + secret}
		p := boot.Run(context.Background(), s, boot.Options{Source: shuffled(e.world(t, s, machine, creds), int64(n))})
		if !p.Complete {
			t.Fatalf("run %d is not complete: %v", n, p.Diagnostics)
		}
		if hash == "" {
			hash = p.Hash
		}
		if p.Hash != hash {
			t.Fatalf("run %d has another hash", n)
		}
		var b bytes.Buffer
		rec := &world.Recording{Header: world.Header{Site: s.Files}, Entries: p.Tape.Entries()}
		must(t, rec.Encode(&b))
		if bytes.Contains(b.Bytes(), []byte("canary")) || bytes.Contains(b.Bytes(), []byte(secret)) {
			t.Fatal("a secret is in the recording")
		}
		back, err := world.Decode(&b)
		must(t, err)
		again, diags := lang.Parse(back.Header.Site, lang.Options{Stages: builtin.Stages(), Version: "0.1.0"})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		q := boot.Run(context.Background(), again, boot.Options{Source: back.Source()})
		if q.Hash != hash {
			t.Fatalf("the replay of run %d has another hash, complete %v: %v", n, q.Complete, q.Diagnostics)
		}
	}
}

// shuffled delays each answer by a little that the seed gives, so that gatherers end in another order.
// It is for synctest's clock, on which a delay costs no time.
func shuffled(s world.Source, seed int64) world.Source {
	return world.SourceFunc(func(ctx context.Context, q world.Question) world.Answer {
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

func TestCloudSite(t *testing.T) {
	e := cloud()
	s := e.load(t)
	creds := secrets{"bootstrap-token": token, "cloud-password": `pa"ss\canary`}
	p := boot.Run(context.Background(), s, boot.Options{Source: e.world(t, s, "bare-vm", creds)})
	if !p.Complete {
		t.Fatal(p.Diagnostics)
	}
	i := slices.IndexFunc(p.Node.Files, func(f node.File) bool { return f.Path == "/etc/kubernetes/cloud.conf" })
	if i < 0 {
		t.Fatal("no cloud.conf in the plan")
	}
	f := p.Node.Files[i]
	if f.Mode != 0o600 {
		t.Errorf("a file with a secret has mode %04o", f.Mode)
	}
	text, err := f.Text.Bytes(func(name string) ([]byte, error) { return []byte(creds[name]), nil })
	must(t, err)
	if !strings.Contains(string(text), `password = "pa\"ss\\canary"`) {
		t.Errorf("the password is not in the file as the provider reads it:\n%s", text)
	}
	if strings.Contains(f.Text.String(), "canary") || strings.Contains(string(p.Node.Canonical()), "canary") {
		t.Error("the secret shows")
	}
	flags := p.Node.Files[slices.IndexFunc(p.Node.Files, func(f node.File) bool { return f.Purpose == "kubelet-flags" })].Text.Template()
	want := "# kept\nKUBELET_EXTRA_ARGS="
	if !strings.HasPrefix(flags, want) || !strings.Contains(flags, "--cloud-provider=external") ||
		!strings.Contains(flags, "--v=2") {
		t.Errorf("flags:\n%s", flags)
	}
}

// TestCloudWithoutPassword: a secret that is missing ends the run with its own exit status, before anything is planned.
func TestCloudWithoutPassword(t *testing.T) {
	e := cloud()
	s := e.load(t)
	p := boot.Run(
		context.Background(),
		s,
		boot.Options{Source: e.world(t, s, "bare-vm", secrets{"bootstrap-token": token})},
	)
	if got := origin.Code(p.Diagnostics).Exit(); got != 11 {
		t.Errorf("exit %d, want 11: %v", got, p.Diagnostics)
	}
}

// TestLayouts plans the same site on a deb and on an rpm system: the whole file, and the drop-in next to config.yaml.
func TestLayouts(t *testing.T) {
	const config = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: " +
		"250\nsystemReserved:\n  memory: 1Gi\n"
	flagsOf := map[string]string{"debian": "/etc/default/kubelet", "rocky": "/etc/sysconfig/kubelet"}
	for id, flags := range flagsOf {
		t.Run(id, func(t *testing.T) {
			e := example{
				paths: []string{"testdata/dropin"},
				root:  map[string]string{"var/lib/kubelet/config.yaml": config},
			}
			s := e.load(t)
			w := e.world(t, s, "two-sockets", secrets{"bootstrap-token": token})
			p := boot.Run(
				context.Background(),
				s,
				boot.Options{Source: world.SourceFunc(func(ctx context.Context, q world.Question) world.Answer {
					a := w.Ask(ctx, q)
					if q.Kind == world.KindHardware {
						var f world.Facts
						must(t, json.Unmarshal(a.Value, &f))
						f.OS = world.OS{ID: &id, IDLike: []string{}}
						if id == "rocky" {
							f.OS.IDLike = []string{"rhel", "fedora"}
						}
						return world.Hardware.Answer(f)
					}
					return a
				})},
			)
			if !p.Complete {
				t.Fatal(p.Diagnostics)
			}
			files := map[string]string{}
			for _, f := range p.Node.Files {
				files[f.Path] = f.Text.Template()
			}
			if _, ok := files["/var/lib/kubelet/config.yaml"]; ok {
				t.Error("config.yaml is written, though the layout is drop-in")
			}
			drop := files["/etc/kubernetes/kubelet.conf.d/90-prelet.conf"]
			for _, want := range []string{"apiVersion: kubelet.config.k8s.io/v1beta1", "kind: KubeletConfiguration", "serializeImagePulls: false", "registerWithTaints:", "kubeReserved:", "systemReserved:\n  memory: \"0\""} {
				if !strings.Contains(drop, want) {
					t.Errorf("the drop-in lacks %q:\n%s", want, drop)
				}
			}
			if strings.Contains(drop, "maxPods") {
				t.Errorf("the drop-in repeats what config.yaml says:\n%s", drop)
			}
			text, ok := files[flags]
			if !ok || !strings.Contains(text, "--config-dir=/etc/kubernetes/kubelet.conf.d") ||
				!strings.Contains(text, "--node-labels=topology.kubernetes.io/zone=az1") {
				t.Errorf("%s: %q", flags, text)
			}
		})
	}
}

// TestExamplesAreFormatted holds that the examples are as `prelet fmt --check` wants them in CI.
func TestExamplesAreFormatted(t *testing.T) {
	for _, pattern := range []string{"*/*.hcl", "*/*/*.hcl", "*/*/*.prelet.vars"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: got %d examples, %v; want some", pattern, len(names), err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			must(t, err)
			if got := lang.Format(text); string(got) != string(text) {
				t.Errorf("%s: got\n%s\nwant it as prelet fmt writes it:\n%s", name, text, got)
			}
		}
	}
}

// TestImageSiteIsValid checks the site that images of packaging/image contain, as `prelet seal` does at their build.
func TestImageSiteIsValid(t *testing.T) {
	o := lang.Options{
		Paths:   []string{"../packaging/image/site/usr/lib/prelet/site"},
		Stages:  builtin.Stages(),
		Version: "0.1.0",
	}
	s, diags := lang.Load(lang.OS(), o)
	if !diags.HasErrors() {
		diags = append(diags, boot.Check(s, boot.SampleMachines(), boot.CheckOptions{})...)
	}

	for _, d := range diags {
		if !origin.IsNote(d) {
			t.Errorf("got %s at %s, want no error or warning", d, d.Subject)
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
