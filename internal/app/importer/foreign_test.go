package importer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/app/importer"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages/builtin"
)

const known = "known1.0123456789abcdef"

// patchFolder reads testdata/patches in place of the folder that the file names.
func patchFolder(string) (files []importer.PatchFile, err error) {
	names, err := filepath.Glob("testdata/patches/*")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, importer.PatchFile{Name: name, Text: text})
	}
	return files, err
}

func foreignOptions() importer.Options {
	return importer.Options{Credential: "bootstrap-token", Version: "0.1.0", ReadPatches: patchFolder}
}

// checkNoSecrets fails if a token is in what a user sees.
func checkNoSecrets(t *testing.T, r importer.Result) {
	t.Helper()
	shown := string(r.Text) + strings.Join(r.Differences, "\n") + strings.Join(r.Open, "\n")
	for _, d := range r.Diagnostics {
		shown += d.Summary + d.Detail
	}
	for name, text := range r.Sources {
		shown += name + string(text)
	}
	if strings.Contains(shown, known) {
		t.Errorf("the token is shown in:\n%s", shown)
	}
}

// TestForeign compares the sites that are made of files of kubeadm and nodeadm with golden files.
func TestForeign(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("testdata/*.yaml: got %d files and %v, want at least 3", len(files), err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			o := foreignOptions()
			if strings.Contains(f, "troubled") {
				o.Servers = []string{"10.0.0.11:6443", "https://10.0.0.12:6443"}
			}
			r := importer.Import(f, src, o)
			if r.Diagnostics.HasErrors() {
				t.Fatalf("diagnostics: got %v, want no errors", r.Diagnostics)
			}
			checkNoSecrets(t, r)
			if got := lang.Format(r.Text); string(got) != string(r.Text) {
				t.Errorf("formatted text: got %s, want it unchanged by prelet fmt:\n%s", got, r.Text)
			}
			var notes strings.Builder
			for _, d := range r.Diagnostics {
				fmt.Fprintf(&notes, "%s:%s\n\t%s\n", filepath.Base(d.Subject.Filename), formatDiagnostic(d),
					strings.ReplaceAll(d.Detail, "\n", "\n\t"))
			}
			for _, line := range slices.Concat(r.Differences, r.Open) {
				fmt.Fprintf(&notes, "- %s\n", line)
			}
			golden(t, strings.TrimSuffix(f, ".yaml")+".yaml.hcl", r.Text)
			golden(t, strings.TrimSuffix(f, ".yaml")+".yaml.notes", []byte(notes.String()))
		})
	}
}

// join is a JoinConfiguration with the cluster and more fields.
func join(more string) string {
	return "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  bootstrapToken:\n" +
		"    token: " + known + "\n    apiServerEndpoint: h:6443\n    caCertHashes: [" + pin + "]\n" + more
}

// TestForeignRefused: what cannot be imported has a place, the token is never shown, and nothing is made.
func TestForeignRefused(t *testing.T) {
	discovery := func(text string) string {
		return "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  bootstrapToken:\n" +
			"    token: " + known + "\n" + text
	}
	eks := func(cluster string) string {
		return "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n" + cluster
	}
	for _, c := range []struct{ name, text, want string }{
		{"no YAML", "a: [\n", "error syntax 1:1-1 Invalid YAML"},
		{"a token in a text that is not YAML", join("a: [\n"), "error syntax"},
		{"not UTF-8", "a: \xff", "error encoding 1:1-1 This is not UTF-8"},
		{"too large", "a: " + strings.Repeat("x", 256<<10), "error limit 1:1-1 This file is too large"},
		{"too deep", "a: " + strings.Repeat("[", 70) + strings.Repeat("]", 70), "error limit 1:63-64 This document is too large"},
		{"an alias bomb", bomb(), "error limit"},
		{"a merge key", "a: &a {b: c}\nd:\n  <<: *a\n", "error wrong-type 3:3-5 This key cannot be imported"},
		{"too many documents", strings.Repeat("a: 1\n---\n", 40), "error limit 1:1-1 Too many documents"},
		{"another kind", "kind: Pod\n", "error wrong-type 1:1-1 Nothing to import"},
		{"a list", "- a\n", "error wrong-type 1:1-1 Nothing to import"},
		{"an InitConfiguration", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n", "error wrong-type 1:1-1 Nothing to import"},
		{"two of them", join("") + "---\n" + join(""), "error duplicate 9:1-2 A second JoinConfiguration"},
		{"an old version", strings.Replace(join(""), "v1beta4", "v1beta2", 1), "error wrong-type 1:13-35 This version of kubeadm's configuration is not known"},
		{"a control plane", join("controlPlane:\n  certificateKey: " + strings.Repeat("0", 64) + "\n"), "error unknown-argument 8:1-13 A control plane cannot be imported"},
		{"no pin", discovery("    apiServerEndpoint: h:6443\n"), "error missing-argument 4:3-17 No pin of the cluster's CA"},
		{"a pin that is none", discovery("    apiServerEndpoint: h:6443\n    caCertHashes: [abc]\n"), "error wrong-type 7:20-23 This is not a pin"},
		{"no server", discovery("    caCertHashes: [" + pin + "]\n"), "error missing-argument 4:3-17 No API server"},
		{"http", discovery("    apiServerEndpoint: http://h:8080\n    caCertHashes: [" + pin + "]\n"), "error wrong-type 6:24-37 The API server cannot be used"},
		{"a token that is a number", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  tlsBootstrapToken: 12\n", "error wrong-type 4:3-20 Wrong type for tlsBootstrapToken"},
		{"a relative discovery file", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  file:\n    kubeConfigPath: a.conf\n", "error path-invalid 5:21-27 kubeConfigPath cannot be used"},
		{"arguments as in v1beta3", join("nodeRegistration:\n  kubeletExtraArgs: {v: \"2\"}\n"), "error wrong-type 9:3-19 Wrong type for kubeletExtraArgs"},
		{"a name that no node has", join("nodeRegistration: {name: A_b}\n"), "error node-name 8:26-29 \"A_b\" is not a valid node name"},
		{"no cluster", "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {}\n", "error missing-argument 3:1-5 No cluster"},
		{"no certificate", eks("    name: x\n    apiServerEndpoint: h\n    certificateAuthority: AAAA\n"), "error wrong-type 7:27-31 This is not a certificate"},
		{"no name", eks("    apiServerEndpoint: h\n    certificateAuthority: AAAA\n"), "error missing-argument 4:3-10 cluster.name is missing"},
		{"no range", eks("    name: x\n    apiServerEndpoint: h\n    certificateAuthority: AAAA\n    cidr: 10\n"), "error wrong-type 8:5-9 Wrong type for cidr"},
		{"a newer NodeConfig", strings.Replace(eks(""), "v1alpha1", "v2", 1), "error wrong-type 1:1-11 This version of NodeConfig is not known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := importer.Import("join.yaml", []byte(c.text), foreignOptions())
			checkNoSecrets(t, r)
			var got []string
			for _, d := range r.Diagnostics {
				if origin.CodeOf(d) == fault.Internal {
					t.Errorf("got a bug: %s", d.Detail)
				}
				got = append(got, formatDiagnostic(d)+" "+d.Detail)
			}
			if !r.Diagnostics.HasErrors() || r.Text != nil || !strings.Contains(strings.Join(got, "\n"), c.want) {
				t.Errorf("got %q and a site %t, want %q", got, r.Text != nil, c.want)
			}
		})
	}
}

// bomb is a small text with a billion values.
func bomb() string {
	text := "a0: &a0 [x]\n"
	for i := range 9 {
		text += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	return text
}

// TestForeignAccepts: other forms of the same file, with the line of the site that they make.
func TestForeignAccepts(t *testing.T) {
	for _, c := range []struct {
		name, text string
		change     func(*importer.Options)
		want       []string
	}{
		{"JSON", `{"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration", "discovery": {"bootstrapToken": {"token": "` +
			known + `", "apiServerEndpoint": "h:6443", "caCertHashes": ["` + pin + `"]}}}`, nil, []string{`servers        = ["https://h:6443"]`}},
		{"without a pin, by the token", strings.Replace(join(""), "caCertHashes: ["+pin+"]", "unsafeSkipCAVerification: true", 1), nil,
			[]string{`trust   = "token"`, "warning cluster-untrusted 7:5-29"}},
		{"a pin of the command line", strings.Replace(join(""), "caCertHashes: ["+pin+"]", "unsafeSkipCAVerification: true", 1),
			func(o *importer.Options) { o.Hashes = []string{pin} }, []string{`ca_cert_hashes = ["` + pin}},
		{"no token", strings.Replace(join(""), "    token: "+known+"\n", "", 1), nil, []string{"!token", "The file has no token"}},
		{"a folder that is not here", join("patches: {directory: /none}\n"), func(o *importer.Options) {
			o.ReadPatches = func(string) ([]importer.PatchFile, error) { return nil, errors.New("no such folder") }
		}, []string{"warning file-missing 8:22-27 The patches are not imported", "--patches"}},
		{"a relative folder of the file is never read", join("patches: {directory: patches}\n"), nil, []string{"warning file-missing", "!maxPods"}},
		{"a folder of the command line", join(""), func(o *importer.Options) { o.Patches = "patches" }, []string{"maxPods"}},
		{"on is true, as for kubeadm", join(""), func(o *importer.Options) {
			o.Patches = "p"
			o.ReadPatches = func(string) ([]importer.PatchFile, error) {
				return []importer.PatchFile{{Name: "p/kubeletconfiguration.yaml", Text: []byte("enableServer: on\nclusterDomain: \"on\"\n")}}, nil
			}
		}, []string{"enableServer  = true", `clusterDomain = "on"`}},
		{"templates of the site's language are text", join(""), func(o *importer.Options) {
			o.Patches = "p"
			o.ReadPatches = func(string) ([]importer.PatchFile, error) {
				return []importer.PatchFile{{Name: "p/kubeletconfiguration.yaml", Text: []byte("clusterDomain: ${file(\"/etc/shadow\")}\n")}}, nil
			}
		}, []string{`clusterDomain = "$${file(\"/etc/shadow\")}"`}},
		{"a flag that no kubelet has", join("nodeRegistration:\n  kubeletExtraArgs:\n  - {name: no-such-flag, value: x}\n"), nil,
			[]string{"warning kubelet-flag 10:5-6", "no-such-flag = \"x\""}},
		{"a comment that is no comment", join(""), nil, []string{`imported from j\"\nx.yaml`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := foreignOptions()
			if c.change != nil {
				c.change(&o)
			}
			name := "join.yaml"
			if strings.Contains(c.name, "comment") {
				name = "j\"\nx.yaml"
			}
			r := importer.Import(name, []byte(c.text), o)
			checkNoSecrets(t, r)
			shown := string(r.Text) + strings.Join(r.Open, "\n") + "\n"
			for _, d := range r.Diagnostics {
				shown += formatDiagnostic(d) + " " + d.Detail + "\n"
			}
			for _, want := range c.want {
				unwanted, isUnwanted := strings.CutPrefix(want, "!")
				if isUnwanted {
					if strings.Contains(string(r.Text), unwanted) {
						t.Errorf("got %s\nwant no %q", r.Text, unwanted)
					}
				} else if !strings.Contains(shown, want) {
					t.Errorf("got %s\nwant %q", shown, want)
				}
			}
		})
	}
}

// TestForeignPlan: the site of a JoinConfiguration is planned, and its node has what kubeadm would make.
func TestForeignPlan(t *testing.T) {
	src, err := os.ReadFile("testdata/kubeadm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := importer.Import("kubeadm.yaml", src, foreignOptions())
	s, diags := lang.Parse(
		[]world.SiteFile{{Name: importer.FileName, Text: string(r.Text)}},
		lang.Options{Stages: builtin.Stages(), Version: "0.1.0"},
	)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	p := boot.Run(context.Background(), s, boot.Options{Source: world.SourceFunc(answerJoin)})
	if p.Diagnostics.HasErrors() {
		t.Fatalf("plan: got %v, want no errors", p.Diagnostics)
	}

	var got []string
	for _, l := range p.Node.Labels {
		got = append(got, "label "+l.Key+"="+l.Value)
	}
	for _, x := range p.Node.Taints {
		got = append(got, "taint "+x.String())
	}
	for _, f := range p.Node.Flags {
		got = append(got, "--"+f.Name+"="+f.Value)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Node.Config)) {
		got = append(got, fmt.Sprintf("%s: %v", name, p.Node.Config[name]))
	}
	for _, want := range []string{
		"label example.com/pool=gpu", "label example.com/zone=z1", "taint example.com/gpu=true:NoSchedule",
		"taint example.com/new:NoExecute", "--hostname-override=worker-7", "--node-ip=192.0.2.7", "--v=2",
		"--feature-gates=AllAlpha=false,AllBeta=false", "maxPods: 70", "podPidsLimit: 4096",
		"containerRuntimeEndpoint: unix:///var/run/crio/crio.sock", "kubeReserved: map[memory:1Gi]",
		"evictionHard: map[memory.available:200Mi nodefs.available:5%]", "clusterDNS: [10.96.0.10]",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("got %s\nwant %s", strings.Join(got, "\n"), want)
		}
	}
	if _, isSet := p.Node.Config["clusterDomain"]; isSet {
		t.Errorf("clusterDomain: got %v, want it removed by a patch", p.Node.Config["clusterDomain"])
	}
}

// answerJoin answers for a new machine of a cluster.
func answerJoin(_ context.Context, q world.Question) world.Answer {
	switch q.Kind {
	case world.KindTrust:
		return world.Trust.Answer(world.TrustAns{PEM: "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", Hash: pin, VerifiedBy: "pin"})
	case world.KindObject:
		return world.Object.Answer(world.ObjectAns{Data: map[string]string{"kubelet": "apiVersion: kubelet.config.k8s.io/v1beta1\n" +
			"kind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\nevictionSoft: {memory.available: 1Gi}\n"}})
	case world.KindKubelet:
		version := "v1.37.1"
		return world.Kubelet.Answer(world.KubeletAns{Version: &version})
	}
	if q.Kind == world.KindOriginal || q.Kind == world.KindTarget {
		return world.Original.Answer(world.TargetAns{})
	}

	return world.Answer{Fault: &fault.Fault{Code: fault.Absent, Why: "not here"}}
}
