package importer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/lab/sites/importer"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/machine/probe/hardware/hwtree"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/stages/builtin"
)

// plan imports the init-config and evaluates the site over the machine.
func (s situation) plan(t *testing.T, raw []byte, name string) *evaluate.Plan {
	t.Helper()
	r := importer.Import(
		"init-config.json",
		raw,
		importer.Values{Hashes: []string{pin}, Credential: "bootstrap-token", Version: "0.1.0"},
	)
	if r.Diagnostics.HasErrors() {
		t.Fatal(r.Diagnostics)
	}
	st, diags := lang.Parse(
		[]tape.SiteFile{{Name: importer.FileName, Text: string(r.Text)}},
		lang.LoadOptions{Stages: builtin.Stages(), Version: "0.1.0"},
	)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	root, tree, objects := t.TempDir(), t.TempDir(), t.TempDir()
	if s.portConf != "" {
		osfile.Write(t, filepath.Join(root, "etc/kubernetes/port.conf"), s.portConf, 0o644)
	}
	must(t, hwtree.Build(s.tree(), tree))
	ca := osfile.Read(t, caPEM)
	osfile.Write(t, filepath.Join(objects, "ca.crt"), ca, 0o644)
	cm, err := yaml.Marshal(
		map[string]any{
			"apiVersion": "v1",
			"kind":       "ConfigMap",
			"metadata":   map[string]any{"name": name, "namespace": "kube-system", "resourceVersion": "1"},
			"data": map[string]string{
				"vm-kubelet-config": s.vmKubeletConfig,
				"default-kubelet":   s.defaultKubelet,
			},
		},
	)
	must(t, err)
	osfile.Write(t, filepath.Join(objects, "kube-system", name+".yaml"), cm, 0o644)
	l := probe.New(
		probe.Sources{
			Root:        root,
			Hardware:    tree,
			Objects:     objects,
			Site:        st,
			Credentials: demo.Credentials{"bootstrap-token": token},
		},
	)
	t.Cleanup(l.Close)
	return evaluate.Run(
		context.Background(),
		st,
		evaluate.RunInput{Source: tape.SourceFunc(func(ctx context.Context, q tape.Question) tape.Answer {
			switch {
			case q.Kind == tape.KindLock && s.dpdk:
				describe, err := os.ReadFile(
					"../../../../plugins/detectors/ovs/testdata/describe.json",
				) // the detector's own tests keep it
				must(t, err)
				return tape.Lock.Answer(
					tape.LockAns{LockEntry: tape.LockEntry{Name: "ovs", SHA256: strings.Repeat("0", 64), Describe: describe}},
				)
			case q.Kind == tape.KindDetector && s.dpdk:
				return tape.Detector.Answer(
					tape.DetectorAns{
						Attributes: map[string]string{"dpdk": "true"},
						Facts:      map[string]any{"dpdk": true},
					},
				)
			}
			return l.Ask(ctx, q)
		})},
	)
}

// tree describes the machine as the folders that facts are read from.
func (m machine) tree() hwtree.Spec {
	s := hwtree.Spec{
		CPU: hwtree.CPU{
			Vendor:  "GenuineIntel",
			Model:   "Intel Xeon Processor",
			Sockets: 1,
			Cores:   m.cpus,
			Threads: 1,
		},
		MemoryKiB: m.memoryKiB,
		Addresses: map[string][]string{},
		Files: map[string]string{
			"proc/sys/kernel/osrelease": "4.19.0-27-amd64",
			"etc/machine-id":            "0123456789abcdef0123456789abcd05",
			"etc/os-release": "PRETTY_NAME=\"Debian GNU/Linux 12 " +
				"(bookworm)\"\nID=debian\nVERSION_ID=\"12\"\n",
		},
	}
	for name, a := range m.interfaces {
		s.Addresses[name] = []string{a + "/24", "203.0.113.77/32"}
	}
	for i, c := range m.cards {
		p := hwtree.Port{Name: fmt.Sprintf("ens%d", i), MTU: 1500, State: "down"}
		if c.gbps > 0 {
			p.State, p.Speed = "up", fmt.Sprint(c.gbps*1000)
		}
		s.Devices = append(
			s.Devices,
			hwtree.Device{
				Address:   fmt.Sprintf("0000:%02x:00.0", 5+i),
				ID:        c.id,
				Subsystem: c.id[:5] + "0003",
				Class:     "020000",
				Driver:    "some",
				Net:       []hwtree.Port{p},
			},
		)
	}
	for i, name := range m.gpus {
		a := fmt.Sprintf("0000:%02x:00.0", 0x40+i)
		s.Devices = append(
			s.Devices,
			hwtree.Device{Address: a, ID: "10de:1b38", Subsystem: "10de:11d9", Class: "030200", Driver: "nvidia"},
		)
		s.Files["proc/driver/nvidia/gpus/"+a+"/information"] = "Model: \t\t " + name + "\nIRQ:   \t\t 40\n"
	}
	return s
}

func textOf(t *testing.T, p *evaluate.Plan, purpose string) string {
	t.Helper()
	i := slices.IndexFunc(p.Node.Files, func(f desired.File) bool { return f.Purpose == purpose })
	if i < 0 {
		t.Fatalf("the plan has no %s", purpose)
	}
	return p.Node.Files[i].Text.Template()
}

// planned reads back, from the files of a plan, what they say.
func planned(t *testing.T, p *evaluate.Plan) outcome {
	t.Helper()
	out := outcome{Labels: map[string]string{}, Kubeconfig: map[string]string{}, CA: textOf(t, p, "ca")}
	out.Flags = flagsOf(textOf(t, p, "kubelet-flags"))
	for _, l := range strings.Split(out.Flags["node-labels"], ",") {
		if k, v, ok := strings.Cut(l, "="); ok {
			if _, twice := out.Labels[k]; twice {
				t.Errorf("label %s is given twice", k)
			}
			out.Labels[k] = v
		}
	}
	taints := []string{}
	if f := out.Flags["register-with-taints"]; f != "" {
		taints = strings.Split(f, ",")
	}
	delete(out.Flags, "node-labels")
	delete(out.Flags, "register-with-taints")
	must(t, yaml.Unmarshal([]byte(textOf(t, p, "kubelet-config")), &out.Config))
	if list, ok := out.Config["registerWithTaints"].([]any); ok {
		delete(out.Config, "registerWithTaints")
		if len(taints) > 0 {
			t.Error("taints in both places: the kubelet takes those of the flag only")
		}
		for _, x := range list {
			m := x.(map[string]any)
			v, _ := m["value"].(string)
			taints = append(taints, fmt.Sprintf("%s=%s:%s", m["key"], v, m["effect"]))
		}
	}
	for _, x := range taints {
		pair, effect, _ := strings.Cut(x, ":")
		if !strings.Contains(pair, "=") {
			pair += "="
		}
		out.Taints = append(out.Taints, pair+":"+effect)
	}
	slices.Sort(out.Taints)

	var k struct {
		Current  string `json:"current-context"`
		Clusters []struct {
			Name    string
			Cluster struct {
				Server string
				CA     []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			Name string
			User struct{ Token string }
		}
		Contexts []struct {
			Name    string
			Context struct{ Cluster, User string }
		}
	}
	must(t, yaml.Unmarshal([]byte(textOf(t, p, "bootstrap-kubeconfig")), &k))
	if len(k.Clusters) != 1 || len(k.Users) != 1 || len(k.Contexts) != 1 || k.Contexts[0].Name != k.Current ||
		k.Contexts[0].Context.Cluster != k.Clusters[0].Name || k.Contexts[0].Context.User != k.Users[0].Name || !strings.Contains(k.Users[0].User.Token, "bootstrap-token") {
		t.Errorf("the kubeconfig does not hold together: %+v", k)
	}
	out.Kubeconfig = map[string]string{
		"cluster": k.Clusters[0].Name,
		"user":    k.Users[0].Name,
		"context": k.Current,
		"server":  k.Clusters[0].Cluster.Server,
		"ca":      string(k.Clusters[0].Cluster.CA),
	}

	paths := map[string]string{
		"bootstrap-kubeconfig": "/etc/kubernetes/bootstrap-kubelet.conf",
		"ca":                   "/etc/kubernetes/pki/ca.crt",
		"kubelet-config":       "/var/lib/kubelet/config.yaml",
		"kubelet-flags":        "/etc/default/kubelet",
	}
	for _, f := range p.Node.Files {
		switch {
		case f.Kind == desired.Directory:
			out.Folders = append(out.Folders, f.Path)
		case f.CreateOnly && f.Text.Template() == "":
			out.Empty = append(out.Empty, f.Path)
		case paths[f.Purpose] != f.Path:
			t.Errorf("the plan has %s, which the script did not write", f.Path)
		}
	}
	return out
}

// quantities writes amounts in one form: 1 and 1000m are the same.
func quantities(t *testing.T, doc map[string]any) {
	t.Helper()
	for _, field := range []string{"kubeReserved", "systemReserved"} {
		list, _ := doc[field].(map[string]any)
		for name, x := range list {
			q, err := resource.ParseQuantity(fmt.Sprint(x))
			if err != nil {
				t.Errorf("%s of %s: %v", name, field, err)
				continue
			}
			list[name] = q.AsDec().String()
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
