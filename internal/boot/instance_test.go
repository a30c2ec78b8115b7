package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang/origin"
)

// TestInstanceConfig: with instance_config, what kubeadm makes of the cluster's configuration and instance-config.yaml
// is what the plan has in config.yaml. Files that kubeadm did not write never fail a boot.
func TestInstanceConfig(t *testing.T) {
	const (
		crio  = "containerRuntimeEndpoint: \"unix:///var/run/crio/crio.sock\"\n"
		base  = "maxPods: 110\nevictionHard: {memory.available: 100Mi, nodefs.available: 10%}\nclusterDNS: [10.96.0.10]\n"
		patch = `patch = { maxPods = 64, evictionHard = { "memory.available" = "1Gi", "nodefs.available" = null }, clusterDNS = null }`
		on    = "instance_config = true\n"
		file  = "original instance-config.yaml => "

		notText = file + `{"fail":"unusable","detail":"/var/lib/kubelet/instance-config.yaml is not UTF-8 text"}` + "\n"
	)
	exists := func(text string) string {
		quoted, _ := json.Marshal(text)
		return file + `{"value":{"exists":true,"text":` + string(quoted) + "}}\n"
	}
	for _, c := range []struct {
		name, config, world string
		fetch               string // of fetch-config
		file                string // the planned instance-config.yaml; "": none
		want                string // by line; "!" before what must not be there
	}{
		{name: "kubeadm's file", config: on + patch, world: exists(crio),
			file: "clusterDNS: null\ncontainerRuntimeEndpoint: unix:///var/run/crio/crio.sock\n" +
				"evictionHard:\n  memory.available: 1Gi\n  nodefs.available: null\nmaxPods: 64\n",
			want: "exit 0\n!warning\nconfig containerRuntimeEndpoint: unix:///var/run/crio/crio.sock"},
		{name: "no file", config: on + patch,
			file: "clusterDNS: null\nevictionHard:\n  memory.available: 1Gi\n  nodefs.available: null\nmaxPods: 64\n", want: "exit 0"},
		{name: "no file and no difference", config: on, want: "exit 0"},
		{name: "fields of others", config: on + `patch = { maxPods = 64 }`,
			world: exists(crio + "maxPods: 30\npodPidsLimit: 99\nevictionHard: {nodefs.available: 10%}\nfeatureGates: {AllBeta: true}\nclusterDNS: null\n"),
			file: "clusterDNS: null\ncontainerRuntimeEndpoint: unix:///var/run/crio/crio.sock\nevictionHard:\n" +
				"  nodefs.available: 10%\nfeatureGates:\n  AllBeta: true\nmaxPods: 64\npodPidsLimit: 99\n",
			want: "exit 0\n!config clusterDNS\nconfig podPidsLimit: 99\nnote base-replaced\nThe base has 30"},
		{name: "its field is removed", config: on + `patch = { podPidsLimit = null }`, world: exists("podPidsLimit: 99\n"),
			file: "podPidsLimit: null\n", want: "exit 0\n!config podPidsLimit"},
		{name: "what the cluster has too", config: on + `patch = { maxPods = 110, podPidsLimit = 5, clusterDomain = null,
			evictionHard = { "memory.available" = "100Mi", "imagefs.available" = null }, kubeReserved = { cpu = null } }`,
			file: "clusterDomain: null\nevictionHard:\n  imagefs.available: null\n  memory.available: 100Mi\n" +
				"maxPods: 110\npodPidsLimit: 5\n", want: "exit 0\n!config kubeReserved"},
		{name: "a header and comments", config: on, world: exists("# of us\n---\nkind: KubeletConfiguration\nmaxPods: 30\n"),
			file: "maxPods: 30\n", want: "exit 0"},
		{name: "empty", config: on + `patch = { maxPods = 64 }`, world: exists("\n"), file: "maxPods: 64\n", want: "exit 0"},
		{name: "another base", config: on + `base = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 64\n"`,
			world: exists(crio), file: "containerRuntimeEndpoint: unix:///var/run/crio/crio.sock\nmaxPods: 64\n", want: "exit 0"},
		{name: "another ConfigMap", config: on, fetch: "ours/kubelet",
			file: "clusterDNS:\n- 10.96.0.10\nevictionHard:\n  memory.available: 100Mi\n  nodefs.available: 10%\nmaxPods: 110\n", want: "exit 0"},

		{name: "garbage", config: on + patch, world: exists("a: [\n"),
			want: "exit 0\ncomplete true\nwarning kubelet-config site.hcl\ninstance-config.yaml cannot be used\nleft as it is\nconfig maxPods: 64"},
		{name: "a list", config: on + patch, world: exists("- a\n"), want: "exit 0\ncomplete true\nwarning kubelet-config site.hcl\na list"},
		{name: "another kind", config: on + patch, world: exists("kind: Pod\n"), want: "exit 0\nwarning kubelet-config\nkind is \"Pod\""},
		{name: "two documents", config: on + patch, world: exists("maxPods: 3\n---\nmaxPods: 4\n"),
			want: "exit 0\nwarning kubelet-config\nseveral documents, which only kubeadm merges\nconfig maxPods: 64\n!the kubelet ignores"},
		{name: "a wrong type", config: on + `patch = { podPidsLimit = 5 }`, world: exists("maxPods: abc\n"),
			want: "exit 0\ncomplete true\nwarning kubelet-config site.hcl\ninstance-config.yaml: the kubelet would not start with maxPods: " +
				"json: cannot unmarshal string\nleft as it is\nconfig maxPods: 110"},
		{name: "a value that no kubelet takes", config: on, world: exists("evictionHard: {memory.free: 1Gi}\n"),
			want: "exit 0\nwarning kubelet-config\nwould not start with evictionHard\n!config   memory.free"},
		{name: "a field that needs one of the site", config: on + `patch = { kubeReservedCgroup = "/k", kubeReserved = { cpu = "1" } }`,
			world: exists("enforceNodeAllocatable: [pods, kube-reserved]\n"),
			file:  "enforceNodeAllocatable:\n- pods\n- kube-reserved\nkubeReserved:\n  cpu: \"1\"\nkubeReservedCgroup: /k\n", want: "exit 0\n!warning"},
		{name: "taints that no kubelet takes", config: on, world: exists("registerWithTaints: [{key: a, effect: Never}]\n"),
			want: "exit 0\nwarning kubelet-config\ninstance-config.yaml: \nNever\n!config registerWithTaints"},
		{name: "a field that is wrong with one of the site", config: on + `patch = { kubeReservedCgroup = "/k" }`,
			world: exists("enforceNodeAllocatable: [pods, kube-reserved]\n"),
			file:  "enforceNodeAllocatable:\n- pods\n- kube-reserved\nkubeReservedCgroup: /k\n",
			want:  "exit 10\nerror kubelet-config site.hcl:11\n(set by kubeadm's instance-config.yaml)\n!cluster-unusable"},
		{name: "not UTF-8", config: on + patch, world: notText,
			want: "exit 0\ncomplete true\nwarning kubelet-config\ncannot be used: /var/lib/kubelet/instance-config.yaml is not UTF-8 text. It is left"},
		{name: "repeated keys", config: on + patch, world: exists("maxPods: 3\nmaxPods: 4\n"),
			want: "exit 0\nwarning kubelet-config\nis repeated\nconfig maxPods: 64"},
		{name: "a directive", config: on + patch, world: exists("evictionHard: {$patch: replace}\n"),
			want: "exit 0\nwarning kubelet-config\n$patch is a directive\nconfig maxPods: 64"},
		{name: "a folder", config: on + patch, world: file + `{"fail":"absent","detail":"a folder"}` + "\n",
			want: "exit 0\ncomplete true\nwarning kubelet-config\na folder\nconfig maxPods: 64"},
		{name: "not readable", config: on + patch, world: file + `{"fail":"denied","detail":"not root"}` + "\n",
			want: "exit 0\ncomplete false\nnot root"},
		{name: "an older recording", config: on + patch, world: file + `{"fail":"unread","detail":"never asked"}` + "\n",
			want: "complete false\ninstance-config.yaml"},
		{name: "a drop-in", config: on + `layout = "drop-in"`, world: "original /var/lib/kubelet/config.yaml => " +
			`{"value":{"exists":true,"text":"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"}}` + "\n",
			want: "exit 10\ninstance_config has no effect here"},
		{name: "another path", config: on + `path = "/etc/kubelet.yaml"`, want: "exit 10\nwrites /etc/kubelet.yaml"},

		{name: "off, and the socket is dropped", config: patch, world: exists(crio),
			want: "exit 0\nwarning conflict site.hcl\nsocket of kubeadm is dropped\n!config containerRuntimeEndpoint\nwithout clusterDNS, evictionHard, maxPods"},
		{name: "off, and the socket is the default", config: patch, world: exists("containerRuntimeEndpoint: \"unix:///var/run/containerd/containerd.sock\"\n"),
			want: "exit 0\n!warning\nnote conflict site.hcl\nkubeadm upgrade node would undo settings"},
		{name: "off, and the site has the socket", config: `patch = { containerRuntimeEndpoint = "unix:///run/crio/crio.sock" }`, world: exists(crio),
			want: "exit 0\n!warning\n!undo"},
		{name: "off, without a file", config: patch, want: "exit 0\n!warning\n!undo"},
		{name: "off, and garbage", config: patch, world: exists("a: [\n"), want: "exit 0\nwarning kubelet-config\n!left as it is"},
		{name: "off, and not UTF-8", config: patch, world: notText,
			want: "exit 0\nwarning kubelet-config\nused: /var/lib/kubelet/instance-config.yaml is not UTF-8 text. Fix"},
		{name: "off, and a wrong type", config: patch, world: exists("maxPods: abc\n"), want: "exit 0\nwarning kubelet-config\nwith maxPods"},
		{name: "off, and not readable", config: patch, world: file + `{"fail":"denied","detail":"not root"}` + "\n", want: "exit 0\n!warning"},
		{name: "off, and its fields are dropped", config: `patch = { podPidsLimit = 7 }`, world: exists("maxPods: 5\npodPidsLimit: 9\n"),
			want: "exit 0\n!warning\nnote conflict site.hcl:11:3 Settings of kubeadm's instance-config.yaml are dropped\n" +
				"has maxPods, and this site writes /var/lib/kubelet/config.yaml without them: the kubelet gets the cluster's values\n" +
				"would bring them back\nagain without podPidsLimit.\nconfig maxPods: 110"},
		{name: "off, and an older recording", config: patch, world: file + `{"fail":"unread","detail":"never asked"}` + "\n",
			want: "exit 0\ncomplete true\n!undo"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.fetch == "" {
				c.fetch = "kube-system/kubelet-config"
			}
			s, diags := parseCase(&txtar.Archive{Files: []txtar.File{{Name: "site.hcl", Data: fmt.Appendf(nil, `
cluster {
  servers        = ["192.0.2.1:6443"]
  ca_cert_hashes = ["sha256:0000000000000000000000000000000000000000000000000000000000000000"]
  token          = credential("t")
}
stage "fetch-config" "kubelet" { config_map = %q }
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config {
    %s
  }
}
`, c.fetch, c.config)}}})
			if diags.HasErrors() {
				t.Fatalf("parsing the site: got %v, want no error", diags)
			}
			cluster := testKubeletHeader + base
			quoted, err := json.Marshal(cluster)
			if err != nil {
				t.Fatal(err)
			}
			answers := c.world + `object => {"value":{"data":{"kubelet":` + string(quoted) + "}}}\n"
			p := Run(context.Background(), s, Options{
				Source: fakeWorld(t, &txtar.Archive{Files: []txtar.File{{Name: "world", Data: []byte(answers)}}}),
			})

			texts := map[string]string{}
			for _, f := range p.Node.Files {
				texts[f.Purpose] = f.Text.Template()
			}
			if d := cmp.Diff(c.file, texts["instance-config"]); d != "" {
				t.Errorf("instance-config.yaml (-want +got):\n%s", d)
			}
			var plan strings.Builder
			fmt.Fprintf(&plan, "exit %d\ncomplete %t\n%s", origin.Exit(p.Diagnostics), p.Complete, showDiagnostics(p.Diagnostics))
			for line := range strings.Lines(texts["kubelet-config"]) {
				fmt.Fprintf(&plan, "config %s", line)
			}
			for want := range strings.Lines(c.want) {
				want = strings.TrimSpace(want)
				unwanted, isUnwanted := strings.CutPrefix(want, "!")
				if strings.Contains(plan.String(), unwanted) == isUnwanted {
					t.Errorf("want %q, got\n%s", want, plan.String())
				}
			}
			if c.file != "" {
				checkUpgrade(t, cluster, c.file, texts["kubelet-config"])
			}
		})
	}
}

const testKubeletHeader = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// checkUpgrade merges instance-config.yaml over the cluster's configuration, and compares the result with the planned
// config.yaml. Fields that only the cluster has are left out: a site with another base cannot know them.
func checkUpgrade(t *testing.T, cluster, instance, config string) {
	t.Helper()
	after, err := kubelet.ParseConfig(cluster)
	if err != nil {
		t.Fatal(err)
	}
	fields, err := kubelet.ParseFields(instance)
	if err != nil {
		t.Fatalf("instance-config.yaml: got %v, want fields", err)
	}
	if err := after.Merge(fields); err != nil {
		t.Fatal(err)
	}
	planned, err := kubelet.ParseConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for pointer, v := range kubelet.MergePatch(after.Object(), planned.Object()) {
		if v != nil {
			t.Errorf("after kubeadm upgrade node, %s: got %v, want %v", pointer, after.Object()[pointer], v)
		}
	}
}
