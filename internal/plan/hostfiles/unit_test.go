package hostfiles

import (
	"testing"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/secret"
)

// TestIsReadByKubelet: the drop-ins of templates, prefixes and aliases of the kubelet's unit restart it, and those of
// other units do not.
func TestIsReadByKubelet(t *testing.T) {
	n := desired.Node{Activation: &desired.Activation{Unit: "kube-let@a.service"}, Aliases: []string{"node.service"}}
	for file, want := range map[string]bool{
		"/etc/systemd/system/kube-let@a.service":                     true,
		"/etc/systemd/system/kube-let@a.service.d/1.conf":            true,
		"/etc/systemd/system.control/kube-let@a.service.d/1.conf":    true,
		"/usr/local/lib/systemd/system/kube-let@.service.d/1.conf":   true,
		"/etc/systemd/system/kube-.service.d/1.conf":                 true,
		"/etc/systemd/system/service.d/1.conf":                       true,
		"/etc/systemd/system/node.service.d/1.conf":                  true,
		"/etc/systemd/system/kube-let@b.service.d/1.conf":            false,
		"/etc/systemd/system/kube-let@a.service.d/1.conf.disabled":   false,
		"/etc/systemd/system/timers.target.wants/kube-let@a.service": false,
	} {
		if got := IsReadByKubelet(n, file); got != want {
			t.Errorf("%s: got %t; want %t", file, got, want)
		}
	}
}

// TestFindReader: the kubelet, its unit and its runtime are the readers that matter.
func TestFindReader(t *testing.T) {
	text := secret.PlainText("[Unit]\nRequires=odd.service\n[Service]\nExecStartPre=-/opt/before --with=/opt/with\n" +
		"ReadWritePaths=/srv\n")
	n := desired.Node{
		UnitFiles: []string{"/opt/env/*.env", "/opt/kubelet"},
		Flags:     []desired.Flag{{Name: "image-credential-provider-config", Value: "/opt/providers"}},
		Config: map[string]any{
			"staticPodPath":  "/opt/pods",
			"authentication": map[string]any{"x509": map[string]any{"clientCAFile": "ca.crt"}},
		},
		Files: []desired.File{
			{Path: "/opt/kube/config.yaml", Kind: desired.Regular, Purpose: "kubelet-config"},
			{Path: "/etc/systemd/system/kubelet.service.d/1.conf", Kind: desired.Regular, Text: text},
		},
	}
	for file, want := range map[string]Reader{
		"/etc/systemd/system/kubelet.service.d/1.conf":        AtStart,
		"/etc/default/kubelet":                                AtStart,
		"/var/lib/kubelet/kubeadm-flags.env":                  AtStart,
		"/opt/env/a.env":                                      AtStart,
		"/opt/kubelet":                                        AtStart,
		"/opt/providers/a.yaml":                               AtStart,
		"/opt/kube/ca.crt":                                    AtStart, // relative to the configuration
		"/opt/pods/a.yaml":                                    Later,
		"/etc/kubernetes/pki/ca.crt":                          Later,
		"/opt/before":                                         Later,
		"/opt/with":                                           Later,
		"/etc/containerd/conf.d/a.toml":                       ByRuntime,
		"/etc/crio/crio.conf.d/a.conf":                        ByRuntime,
		"/etc/systemd/system/containerd.service.d/proxy.conf": ByRuntime,
		"/etc/systemd/system/odd.service":                     ByRuntime,
		"/etc/default/containerd":                             ByRuntime,
		"/etc/cni/net.d/10-a.conflist":                        ByRuntime,
		"/etc/kubernetes/node-feature-discovery/features.d/a": NoReader,
		"/srv/a":                  NoReader,
		"/etc/motd":               NoReader,
		"/etc/sysctl.d/90-a.conf": NoReader,
		"/etc/systemd/system/chrony.service.d/a.conf":           NoReader,
		"/etc/systemd/system/kubelet.service.d/1.conf.disabled": NoReader,
		"/etc/default/kubelets":                                 NoReader,
	} {
		if got := FindReader(n, file); got != want {
			t.Errorf("%s: got reader %d; want %d", file, got, want)
		}
	}
}

// TestDecides: what a site restarts the kubelet or its runtime for decides, too.
func TestDecides(t *testing.T) {
	n := desired.Node{
		Activation: &desired.Activation{Stage: "kubelet", Unit: desired.DefaultUnit},
		Units:      []desired.Unit{{Stage: "runtime", Unit: "containerd.service"}, {Stage: "time", Unit: "chrony.service"}},
	}
	for notify, want := range map[string]bool{"kubelet": true, "runtime": true, "time": false, "": false} {
		f := desired.File{Path: "/opt/a", Kind: desired.Regular, Purpose: "file", Notify: []string{notify}}
		if got := Decides(n, f); got != want {
			t.Errorf("a file that notifies %q decides: got %t; want %t", notify, got, want)
		}
	}
	if !Decides(n, desired.File{Path: "/opt/b", Kind: desired.Regular, Purpose: "kubelet-config"}) {
		t.Error("the kubelet's configuration decides: got false; want true")
	}
}

func TestFindSuffix(t *testing.T) {
	for file, want := range map[string]string{
		"/etc/sysctl.d/90-kubernetes":                    ".conf",
		"/etc/sysctl.d/90-kubernetes.conf":               "",
		"/etc/udev/rules.d/99-nvme.rule":                 ".rules",
		"/etc/systemd/system/containerd.service.d/proxy": ".conf",
		"/etc/systemd/ntp-units.d/10-chrony.list":        "",
	} {
		if got := findSuffix(file); got != want {
			t.Errorf("findSuffix(%s): got %q, want %q", file, got, want)
		}
	}
}
