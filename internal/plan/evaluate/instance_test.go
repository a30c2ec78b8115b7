package evaluate

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestInstanceConfig: a site that does not write kubeadm's instance-config.yaml gets a note of what `kubeadm upgrade
// node` would undo, and a warning of a runtime's socket that it drops. A file that cannot be used never fails a boot.
func TestInstanceConfig(t *testing.T) {
	const (
		base  = "maxPods: 110\nevictionHard: {memory.available: 100Mi, nodefs.available: 10%}\nclusterDNS: [10.96.0.10]\n"
		patch = `patch = { maxPods = 64, evictionHard = { "memory.available" = "1Gi", "nodefs.available" = null }, clusterDNS = null }`

		silent = "exit 0\ncomplete true\n!warning\n!undo\nconfig maxPods: 64"
	)
	for _, c := range table.YAML[[]struct {
		Name, Config, More, World string // config: patch, if empty
		Want                      string // by line; "!" before what must not be there; silent, if empty
	}](t, `
- name: the socket is dropped
  world: |
    original instance-config.yaml => {"value":{"exists":true,"text":"containerRuntimeEndpoint: \"unix:///var/run/crio/crio.sock\"\n"}}
  want: |-
    exit 0
    warning conflict site.hcl
    socket of kubeadm is dropped
    !config containerRuntimeEndpoint
    other values of clusterDNS, evictionHard, maxPods
- name: the socket is the default
  world: |
    original instance-config.yaml => {"value":{"exists":true,"text":"containerRuntimeEndpoint: \"unix:///var/run/containerd/containerd.sock\"\n"}}
  want: |-
    exit 0
    !warning
    note conflict site.hcl
    kubeadm upgrade node would undo settings
- name: the site has the socket
  config: patch = { containerRuntimeEndpoint = "unix:///run/crio/crio.sock" }
  world: |
    original instance-config.yaml => {"value":{"exists":true,"text":"containerRuntimeEndpoint: \"unix:///var/run/crio/crio.sock\"\n"}}
  want: |-
    exit 0
    !warning
    !undo
- name: fields of others
  config: patch = { podPidsLimit = 7 }
  world: |
    original instance-config.yaml => {"value":{"exists":true,"text":"maxPods: 5\npodPidsLimit: 9\n"}}
  want: |-
    exit 0
    !warning
    note conflict site.hcl:11:3 kubeadm upgrade node would undo settings
    other values of maxPods, podPidsLimit
    config maxPods: 110
- name: the site writes the file
  more: |
    file "instance" {
        path = "/var/lib/kubelet/instance-config.yaml"
        content = "maxPods: 64\n"
      }
  world: |
    original instance-config.yaml => {"value":{"exists":true,"text":"maxPods: 5\n"}}
- name: the site writes the file without the socket
  more: |
    file "instance" {
        path = "/var/lib/kubelet/instance-config.yaml"
        content = "maxPods: 64\n"
      }
  world: |
    original instance-config.yaml => {"value":{"exists":true,"text":"containerRuntimeEndpoint: \"unix:///var/run/crio/crio.sock\"\n"}}
  want: |-
    exit 0
    warning conflict site.hcl
    socket of kubeadm is dropped
    !undo
- name: a drop-in
  config: layout = "drop-in"
  world: |
    original instance-config.yaml => {"value":{"exists":true,"text":"containerRuntimeEndpoint: \"unix:///var/run/crio/crio.sock\"\n"}}
    original /var/lib/kubelet/config.yaml => {"value":{"exists":true,"text":"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"}}
  want: |-
    exit 0
    !warning
    !undo
- name: another path
  config: |-
    patch = { maxPods = 64, evictionHard = { "memory.available" = "1Gi", "nodefs.available" = null }, clusterDNS = null }
        path = "/etc/kubelet.yaml"
  world: |
    original instance-config.yaml => {"value":{"exists":true,"text":"containerRuntimeEndpoint: \"unix:///var/run/crio/crio.sock\"\n"}}
- name: no file
- name: empty
  world: |
    original instance-config.yaml => {"value":{"exists":true,"text":"\n"}}
- name: garbage
  world: |
    original instance-config.yaml => {"value":{"exists":true,"text":"a: [\n"}}
- name: a list
  world: |
    original instance-config.yaml => {"value":{"exists":true,"text":"- a\n"}}
- name: another kind
  world: |
    original instance-config.yaml => {"value":{"exists":true,"text":"kind: Pod\n"}}
- name: two documents
  world: |
    original instance-config.yaml => {"value":{"exists":true,"text":"maxPods: 3\n---\nmaxPods: 4\n"}}
- name: not UTF-8
  world: |
    original instance-config.yaml => {"fail":"unusable","detail":"not UTF-8 text"}
- name: a folder
  world: |
    original instance-config.yaml => {"fail":"absent","detail":"a folder"}
- name: not readable
  world: |
    original instance-config.yaml => {"fail":"denied","detail":"not root"}
- name: an older recording
  world: |
    original instance-config.yaml => {"fail":"unread","detail":"never asked"}
`) {
		t.Run(c.Name, func(t *testing.T) {
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
`, cmp.Or(c.Config, patch), c.More), c.World+fmt.Sprintf(`object => {"value":{"data":{"kubelet":%q}}}`, testKubeletConfig+base))

			var plan strings.Builder
			fmt.Fprintf(&plan, "exit %d\ncomplete %t\n%s", origin.Code(p.Diagnostics).Exit(), p.Complete, showDiagnostics(p.Diagnostics))
			for line := range strings.Lines(textOf(p, "kubelet-config")) {
				fmt.Fprintf(&plan, "config %s", line)
			}
			checkParts(t, plan.String(), cmp.Or(c.Want, silent))
		})
	}
}
