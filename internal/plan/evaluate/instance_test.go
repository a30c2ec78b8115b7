package evaluate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/origin"
)

// TestInstanceConfig: a site that does not write kubeadm's instance-config.yaml gets a note of what `kubeadm upgrade
// node` would undo, and a warning of a runtime's socket that it drops. A file that cannot be used never fails a boot.
func TestInstanceConfig(t *testing.T) {
	const (
		crio  = "containerRuntimeEndpoint: \"unix:///var/run/crio/crio.sock\"\n"
		base  = "maxPods: 110\nevictionHard: {memory.available: 100Mi, nodefs.available: 10%}\nclusterDNS: [10.96.0.10]\n"
		patch = `patch = { maxPods = 64, evictionHard = { "memory.available" = "1Gi", "nodefs.available" = null }, clusterDNS = null }`

		silent = "exit 0\ncomplete true\n!warning\n!undo\nconfig maxPods: 64"
	)
	exists := func(text string) string { return original("instance-config.yaml", text) }
	unusable := func(code, detail string) string {
		return `original instance-config.yaml => {"fail":"` + code + `","detail":"` + detail + "\"}\n"
	}
	write := func(text string) string {
		return fmt.Sprintf(
			"file \"instance\" {\n    path = \"/var/lib/kubelet/instance-config.yaml\"\n    content = %q\n  }\n", text,
		)
	}

	for _, c := range []struct {
		name, config, more, world string
		want                      string // by line; "!" before what must not be there
	}{
		{name: "the socket is dropped", config: patch, world: exists(crio),
			want: "exit 0\nwarning conflict site.hcl\nsocket of kubeadm is dropped\n!config containerRuntimeEndpoint\n" +
				"other values of clusterDNS, evictionHard, maxPods"},
		{name: "the socket is the default", config: patch,
			world: exists("containerRuntimeEndpoint: \"unix:///var/run/containerd/containerd.sock\"\n"),
			want:  "exit 0\n!warning\nnote conflict site.hcl\nkubeadm upgrade node would undo settings"},
		{name: "the site has the socket", config: `patch = { containerRuntimeEndpoint = "unix:///run/crio/crio.sock" }`,
			world: exists(crio), want: "exit 0\n!warning\n!undo"},
		{name: "fields of others", config: `patch = { podPidsLimit = 7 }`, world: exists("maxPods: 5\npodPidsLimit: 9\n"),
			want: "exit 0\n!warning\nnote conflict site.hcl:11:3 kubeadm upgrade node would undo settings\n" +
				"other values of maxPods, podPidsLimit\nconfig maxPods: 110"},
		{name: "the site writes the file", config: patch, more: write("maxPods: 64\n"), world: exists("maxPods: 5\n"), want: silent},
		{name: "the site writes the file without the socket", config: patch, more: write("maxPods: 64\n"),
			world: exists(crio), want: "exit 0\nwarning conflict site.hcl\nsocket of kubeadm is dropped\n!undo"},
		{name: "a drop-in", config: `layout = "drop-in"`, world: exists(crio) + "original /var/lib/kubelet/config.yaml => " +
			`{"value":{"exists":true,"text":"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"}}` + "\n",
			want: "exit 0\n!warning\n!undo"},
		{name: "another path", config: patch + "\n    path = \"/etc/kubelet.yaml\"", world: exists(crio), want: silent},
		{name: "no file", config: patch, want: silent},
		{name: "empty", config: patch, world: exists("\n"), want: silent},
		{name: "garbage", config: patch, world: exists("a: [\n"), want: silent},
		{name: "a list", config: patch, world: exists("- a\n"), want: silent},
		{name: "another kind", config: patch, world: exists("kind: Pod\n"), want: silent},
		{name: "two documents", config: patch, world: exists("maxPods: 3\n---\nmaxPods: 4\n"), want: silent},
		{name: "not UTF-8", config: patch, world: unusable("unusable", "not UTF-8 text"), want: silent},
		{name: "a folder", config: patch, world: unusable("absent", "a folder"), want: silent},
		{name: "not readable", config: patch, world: unusable("denied", "not root"), want: silent},
		{name: "an older recording", config: patch, world: unusable("unread", "never asked"), want: silent},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planSite(t, fmt.Sprintf(`
cluster {
  servers        = ["192.0.2.1:6443"]
  ca_cert_hashes = ["sha256:0000000000000000000000000000000000000000000000000000000000000000"]
  token          = credential("t")
}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config {
    %s
  }
  %s
}
`, c.config, c.more), c.world+fmt.Sprintf(`object => {"value":{"data":{"kubelet":%q}}}`, testKubeletConfig+base))

			var plan strings.Builder
			fmt.Fprintf(&plan, "exit %d\ncomplete %t\n%s", origin.Code(p.Diagnostics).Exit(), p.Complete, showDiagnostics(p.Diagnostics))
			for line := range strings.Lines(textOf(p, "kubelet-config")) {
				fmt.Fprintf(&plan, "config %s", line)
			}
			checkParts(t, plan.String(), c.want)
		})
	}
}
