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
	"github.com/prelet/prelet/internal/origin"
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
	if strings.Contains(shown, known) {
		t.Errorf("the token is shown in:\n%s", shown)
	}
}

// TestForeign compares the sites that are made of files of kubeadm with golden files.
func TestForeign(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("testdata/*.yaml: got %d files and %v, want at least 2", len(files), err)
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
				fmt.Fprintf(&notes, "%s\n\t%s\n", formatDiagnostic(d), strings.ReplaceAll(d.Detail, "\n", "\n\t"))
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

// TestForeignRefused: what cannot be imported is named, the token is never shown, and nothing is made.
func TestForeignRefused(t *testing.T) {
	discovery := func(text string) string {
		return "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  bootstrapToken:\n" +
			"    token: " + known + "\n" + text
	}
	for _, c := range []struct{ name, text, want string }{
		{"no YAML", "a: [\n", "error syntax Invalid YAML"},
		{"a token in a text that is not YAML", join("a: [\n"), "error syntax"},
		{"not UTF-8", "a: \xff", "error syntax Invalid YAML"},
		{"too large", "a: " + strings.Repeat("x", 256<<10), "error limit This file is too large"},
		{"too deep", "a: " + strings.Repeat("[", 70) + strings.Repeat("]", 70), "error syntax Invalid YAML"},
		{"an alias bomb", bomb(), "error syntax Invalid YAML"},
		{"a NodeConfig of nodeadm", "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {}\n", "error wrong-type A NodeConfig of nodeadm is not imported"},
		{"another kind", "kind: Pod\n", "error wrong-type Nothing to import"},
		{"a list", "- a\n", "error wrong-type Nothing to import"},
		{"an InitConfiguration", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n", "error wrong-type Nothing to import"},
		{"two of them", join("") + "---\n" + join(""), "error duplicate A second JoinConfiguration"},
		{"an old version", strings.Replace(join(""), "v1beta4", "v1beta2", 1), "error wrong-type This version of kubeadm's configuration is not known"},
		{"a control plane", join("controlPlane:\n  certificateKey: " + strings.Repeat("0", 64) + "\n"), "error unknown-argument A control plane cannot be imported"},
		{"no pin", discovery("    apiServerEndpoint: h:6443\n"), "error missing-argument No pin of the cluster's CA"},
		{"a pin that is none", discovery("    apiServerEndpoint: h:6443\n    caCertHashes: [abc]\n"), "error wrong-type caCertHashes has an entry that is not a pin"},
		{"no server", discovery("    caCertHashes: [" + pin + "]\n"), "error missing-argument No API server"},
		{"http", discovery("    apiServerEndpoint: http://h:8080\n    caCertHashes: [" + pin + "]\n"), "error wrong-type The API server cannot be used"},
		{"a token that is a number", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  tlsBootstrapToken: 12\n", "discovery.tlsBootstrapToken of type string"},
		{"a relative discovery file", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  file:\n    kubeConfigPath: a.conf\n", "error path-invalid kubeConfigPath cannot be used"},
		{"arguments as in v1beta3", join("nodeRegistration:\n  kubeletExtraArgs: {v: \"2\"}\n"), "error wrong-type Wrong type for kubeletExtraArgs"},
		{"a flag that no kubelet has", join("nodeRegistration:\n  kubeletExtraArgs:\n  - {name: no-such-flag, value: x}\n"),
			"error kubelet-flag The kubelet would not start with --no-such-flag"},
		{"a name that no node has", join("nodeRegistration: {name: A_b}\n"), "error node-name \"A_b\" is not a valid node name"},
		{"an empty file", "", "error wrong-type Nothing to import"},
		{"an experimental version", strings.Replace(join(""), "v1beta4", "v1", 1), "it needs --allow-experimental-api too"},
		{"a token and a file", join("  file: {kubeConfigPath: /etc/d.conf}\n"), "error conflict discovery.bootstrapToken and discovery.file cannot both be set"},
		{"a token and a file without a path", join("  file: {}\n"), "error conflict discovery.bootstrapToken and discovery.file cannot both be set"},
		{"no pin, and two tokens", strings.Replace(join("  tlsBootstrapToken: other1.0123456789abcdef\n"),
			"caCertHashes: ["+pin+"]", "unsafeSkipCAVerification: true", 1), "error missing-argument No pin of the cluster"},
		{"a boolean that is a text", join("    unsafeSkipCAVerification: \"true\"\n"), "discovery.bootstrapToken.unsafeSkipCAVerification of type bool"},
		{"no version", "kind: JoinConfiguration\n", "error wrong-type This version of kubeadm's configuration is not known"},
		{"no discovery", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n", "error missing-argument No API server"},
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

// TestForeignSecrets: the place of a discovery file is refused if it may contain a secret, and no secret is shown.
func TestForeignSecrets(t *testing.T) {
	for _, server := range []string{"https://user:SECRETPASS@h:6443", "https://h:6443/?token=SECRETPASS", "https://h:6443#SECRETPASS"} {
		text := strings.Replace(join(""), "h:6443", `"`+server+`"`, 1)
		r := importer.Import("join.yaml", []byte(text), foreignOptions())
		shown := string(r.Text) + r.Diagnostics.Error()
		if strings.Contains(shown, "SECRETPASS") || !strings.Contains(shown, "The API server cannot be used") {
			t.Errorf("%s: got %s, want a refusal without the secret", server, shown)
		}
	}
	for _, place := range []string{
		"https://user:SECRETPASS@h/kc", "https://SECRETPASS@h/kc", "https://h/kc?key=SECRETPASS", "https://h/kc#SECRETPASS",
		"https://h/" + known, "/etc/" + known, "https://user:SECRETPASS@h:x/%zz", "http://user:SECRETPASS@h/kc",
	} {
		for _, text := range []string{
			"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  file:\n    kubeConfigPath: " + place + "\n",
			`{"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration", "discovery": {"file": {"kubeConfigPath": "` + place + `"}}}`,
		} {
			o := foreignOptions()
			o.Servers = []string{"h:6443"}
			r := importer.Import("join.yaml", []byte(text), o)
			checkNoSecrets(t, r)
			shown := string(r.Text) + strings.Join(r.Open, "\n") + r.Diagnostics.Error()
			if strings.Contains(shown, "SECRETPASS") || !strings.Contains(shown, "kubeConfigPath") || r.Text != nil {
				t.Errorf("%s: got %s and a site %t, want a refusal without the secret", place, shown, r.Text != nil)
			}
		}
	}
}

// TestMessagesHideSecrets: no message has a part of a URL that may have a secret, in any form of YAML.
func TestMessagesHideSecrets(t *testing.T) {
	const head = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n"
	for _, c := range []struct{ discovery, want string }{
		{`  file: {kubeConfigPath: "https://user:S3C/S3CR3T@h.example/kc"}`, "may contain a secret"},
		{`  file: {kubeConfigPath: "https://user:8/S3CR3T@h.example/kc"}`, "may contain a secret"},
		{`  file: {kubeConfigPath: "//user:S3CR3T@h.example/kc"}`, "may contain a secret"},
		{`  file: {kubeConfigPath: "https://user:S3C S3CR3T@h.example/kc"}`, "may contain a secret"},
		{`  file: {kubeConfigPath: 'https://user:it''s-S3CR3T@h.example/kc'}`, "may contain a secret"},
		{`  file: {kubeConfigPath: "https:\u002f\u002fuser:S3CR3T@h.example/kc"}`, "may contain a secret"},
		{`  file: {"kube\u0043onfigPath": "https://user:S3C/S3CR3T@h.example/kc"}`, "may contain a secret"},
		{"  file: {kubeConfigPath: \"https:\\/\\/user:S3CR3T@h.example\\/kc?token=S3CR\n", "Invalid YAML"},
		{`  file: {kubeConfigPath: "https://user:S3CR3T?x#y@h.example/kc"}`, "may contain a secret"},
		{`  file: {kubeConfigPath: "user:S3CR3T@h.example/kc"}`, "kubeConfigPath"},
		{`  file: {kubeConfigPath: "user S3CR3T"}`, "kubeConfigPath"},
		{"  file:\n    kubeConfigPath:\n      https://user:S3C/S3CR3T@h.example/kc", "may contain a secret"},
		{"  file:\n    kubeConfigPath: \"https://user:S3C\n     S3CR3T: @h.example/kc\"", "may contain a secret"},
		{"  file:\n    kubeConfigPath: >-\n      https://user:S3C\n      S3CR3T@h.example/kc", "may contain a secret"},
		{"  file:\n    ? kubeConfigPath\n    : https://user:S3C/S3CR3T@h.example/kc", "may contain a secret"},
		{"  file: {kubeConfigPath:\n    \"https://user:S3C/S3CR3T\"}", "may contain a secret"},
		{"  x: &a\n    user:S3CR3T\n  file: {kubeConfigPath: *a}", "kubeConfigPath"},
		{"  file: {kubeConfigPath: *S3CR3T}", "Invalid YAML"},
		{`  bootstrapToken: {apiServerEndpoint: "user:S3CR3T@10.0.0.1:6443"}`, "The API server cannot be used"},
		{`  bootstrapToken: {apiServerEndpoint: "10.0.0.1:6443?token=S3CR3T"}`, "The API server cannot be used"},
		{`  bootstrapToken: {apiServerEndpoint: "https://user:S3C/S3CR3T@h:6443"}`, "The API server cannot be used"},
		{`  bootstrapToken: {apiServerEndpoint: "user:S3CR3T"}`, "The API server cannot be used"},
		{`  bootstrapToken: {apiServerEndpoint: "S3CR3T://h"}`, "The API server cannot be used"},
		{`  bootstrapToken: S3CR3T`, "discovery.bootstrapToken of type"},
		{"  bootstrapToken:\n    token:\n    - S3CR3T", "discovery.bootstrapToken.token of type string"},
	} {
		o := foreignOptions()
		if !strings.Contains(c.discovery, "apiServerEndpoint") {
			o.Servers = []string{"h:6443"}
		}
		r := importer.Import("join.yaml", []byte(head+c.discovery+"\n"), o)
		shown := r.Diagnostics.Error()
		for _, d := range r.Diagnostics {
			shown += d.Summary + d.Detail
		}
		if strings.Contains(shown, "S3C") || !strings.Contains(shown, c.want) || r.Text != nil {
			t.Errorf("%s: got %s and a site %t, want a refusal about %q without the secret",
				c.discovery, shown, r.Text != nil, c.want)
		}
	}

	r := importer.Import("init.json", []byte(`{"nodeLabels": "a=b", "apiserver": "user:S3CR3T"}`), foreignOptions())
	if shown := r.Diagnostics.Error(); strings.Contains(shown, "S3C") {
		t.Errorf("init-config: got %s, want no secret", shown)
	}
}

// TestReplacedObjects: kubeadm replaces these objects, so they are not imported, and the patch is named.
func TestReplacedObjects(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []string // name and text
		field string
		want  string // in the site
	}{
		{"null, then an object", []string{"1+merge.yaml", "evictionSoft: null\n", "2.yaml", "evictionSoft: {memory.available: 2Gi}\nmaxPods: 7\n"},
			"evictionSoft", "maxPods                  = 7"},
		{"null below, then an object", []string{"1.yaml", "authentication: {webhook: null, x509: {clientCAFile: /a}}\n",
			"2.yaml", "authentication: {webhook: {enabled: true}}\n"}, "authentication.webhook", `clientCAFile = "/a"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := foreignOptions()
			o.Patches = "p"
			o.ReadPatches = func(string) (files []importer.PatchFile, err error) {
				for i := 0; i < len(c.files); i += 2 {
					name := "p/kubeletconfiguration" + c.files[i]
					files = append(files, importer.PatchFile{Name: name, Text: []byte(c.files[i+1])})
				}
				return files, nil
			}
			r := importer.Import("join.yaml", []byte(join("nodeRegistration: {criSocket: /c}\n")), o)
			var got []string
			for _, d := range r.Diagnostics {
				if origin.CodeOf(d) == fault.UnknownArgument {
					got = append(got, d.Summary)
				}
			}
			if want := []string{c.field + " is not imported"}; !slices.Equal(got, want) {
				t.Errorf("diagnostics: got %q, want %q", got, want)
			}
			name := c.field[strings.LastIndex(c.field, ".")+1:]
			if strings.Contains(string(r.Text), name) || !strings.Contains(string(r.Text), c.want) || r.Text == nil {
				t.Errorf("got %s\nwant no %s, and %q", r.Text, name, c.want)
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
			[]string{`trust   = "token"`, "warning cluster-untrusted "}},
		{"a pin of the command line", strings.Replace(join(""), "caCertHashes: ["+pin+"]", "unsafeSkipCAVerification: true", 1),
			func(o *importer.Options) { o.Hashes = []string{pin} }, []string{`ca_cert_hashes = ["` + pin}},
		{"no token", strings.Replace(join(""), "    token: "+known+"\n", "", 1), nil, []string{"!\n  token ", "The file has no token"}},
		{"without a pin, the help is about pins", strings.Replace(join(""), "caCertHashes: ["+pin+"]", "unsafeSkipCAVerification: true", 1), nil,
			[]string{"print-join-command", "!not offered"}},
		{"the flow style", "{apiVersion: kubeadm.k8s.io/v1beta4, kind: JoinConfiguration, discovery: {bootstrapToken: {token: " + known +
			", apiServerEndpoint: 'h:6443', caCertHashes: ['" + pin + "']}}}", nil, []string{`servers        = ["https://h:6443"]`}},
		{"a second token", join("  tlsBootstrapToken: other1.0123456789abcdef\n"), nil, []string{"bootstrap-token must contain that of tlsBootstrapToken", "!other1"}},
		{"the same token twice", join("  tlsBootstrapToken: " + known + "\n"), nil, []string{"!two tokens"}},
		{"no socket", join(""), nil, []string{"The file has no criSocket"}},
		{"a socket", join("nodeRegistration: {criSocket: /run/crio/crio.sock}\n"), nil, []string{"!no criSocket", "unix:///run/crio/crio.sock"}},
		{"a flag with taints replaces earlier ones", join("nodeRegistration:\n  taints: [{key: a, value: '1', effect: NoSchedule}]\n  kubeletExtraArgs:\n" +
			"  - {name: register-with-taints, value: 'b=2:NoSchedule,d=4:NoSchedule'}\n  - {name: register-with-taints, value: 'c=3:NoSchedule'}\n"), nil,
			[]string{`"c=3:NoSchedule"`, "!a=1:NoSchedule", "!b=2", "!d=4", "note duplicate Earlier taints are not imported"}},
		{"a flag without taints", join("nodeRegistration:\n  taints: [{key: a, value: '1', effect: NoSchedule}]\n  kubeletExtraArgs:\n" +
			"  - {name: register-with-taints, value: ''}\n"), nil, []string{"!a=1:NoSchedule", "note duplicate"}},
		{"taints of the flag and of a patch", join("nodeRegistration: {taints: [{key: a, value: '1', effect: NoSchedule}]}\n"), func(o *importer.Options) {
			o.Patches = "p"
			o.ReadPatches = func(string) ([]importer.PatchFile, error) {
				return []importer.PatchFile{{Name: "p/kubeletconfiguration.yaml", Text: []byte("registerWithTaints: [{key: e, effect: NoSchedule}]\n")}}, nil
			}
		}, []string{"a=1:NoSchedule", "registerWithTaints is not imported", "!registerWithTaints = "}},
		{"a folder that is not here", join("patches: {directory: /none}\n"), func(o *importer.Options) {
			o.ReadPatches = func(string) ([]importer.PatchFile, error) { return nil, errors.New("no such folder") }
		}, []string{"warning file-missing The patches are not imported", "--patches"}},
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
		{"a flag of other versions", join("nodeRegistration:\n  kubeletExtraArgs:\n  - {name: container-runtime, value: x}\n"), nil,
			[]string{"warning kubelet-flag ", "container-runtime = \"x\""}},
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
					if strings.Contains(shown, unwanted) {
						t.Errorf("got %s\nwant no %q", shown, unwanted)
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
