package hostfiles

import (
	"testing"

	"github.com/prelet/prelet/internal/node"
)

// TestIsReadByKubelet: the drop-ins of templates, prefixes and aliases of the kubelet's unit restart it, and those of
// other units do not.
func TestIsReadByKubelet(t *testing.T) {
	n := node.Node{Activation: &node.Activation{Unit: "kube-let@a.service"}, Aliases: []string{"node.service"}}
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
