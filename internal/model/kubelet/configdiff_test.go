package kubelet

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

func TestConfigDifferences(t *testing.T) {
	const running = `{"maxPods":64,"syncFrequency":"1m0s","kubeReserved":{"cpu":"200m","memory":"1Gi"},"systemReserved":{"cpu":"2"},"evictionHard":{"memory.available":"100Mi","nodefs.available":"10%"},
		"featureGates":{"A":true,"B":false},"clusterDNS":["10.96.0.10"],"cgroupDriver":"cgroupfs","registerWithTaints":[{"key":"a","effect":"NoSchedule","timeAdded":null}],"reservedSystemCPUs":"0-1","readOnly":true}`
	for _, c := range table.YAML[[]struct{ Planned, Want string }](t, `
- planned: '{"kind":"KubeletConfiguration","apiVersion":"x","maxPods":64.0,"syncFrequency":"60s","kubeReserved":{"memory":"1024Mi"},"cgroupDriver":"systemd"}'
- {planned: '{"maxPods":110}', want: maxPods is 64 and not 110}
- {planned: '{"syncFrequency":"0s","maxPods":0,"failSwapOn":false,"staticPodPath":"","podCIDR":null}'}
- {planned: '{"readOnly":false}', want: readOnly is true and not false}
- {planned: '{"failSwapOn":true}', want: failSwapOn is not set and not true}
- planned: '{"kubeReserved":{"cpu":"0.2","memory":"2Gi","ephemeral-storage":"1Gi"}}'
  want: kubeReserved.ephemeral-storage is not set and not 1Gi, kubeReserved.memory is 1Gi and not 2Gi
- {planned: '{"featureGates":{"A":true,"B":true}}', want: featureGates.B is false and not true}
- planned: '{"clusterDNS":["10.96.0.10","10.96.0.11"]}'
  want: clusterDNS is [10.96.0.10] and not [10.96.0.10 10.96.0.11]
- {planned: '{"registerWithTaints":[{"key":"a","effect":"NoSchedule"}]}'}
- planned: '{"registerWithTaints":[{"key":"b","effect":"NoSchedule"}]}'
  want: registerWithTaints is [map[effect:NoSchedule key:a timeAdded:<nil>]] and not [map[effect:NoSchedule key:b]]
- {planned: '{"evictionHard":{}}'}
`) {
		var p, r map[string]any
		if json.Unmarshal([]byte(c.Planned), &p) != nil || json.Unmarshal([]byte(running), &r) != nil {
			t.Fatal(c.Planned)
		}
		if got := strings.Join(ConfigDifferences(p, r), ", "); got != c.Want {
			t.Errorf("%s: %s, want %s", c.Planned, got, c.Want)
		}
	}
}

// A kubelet makes relative paths of its file absolute before it logs its configuration, and those of flags not.
func TestResolvePaths(t *testing.T) {
	const file = `{"staticPodPath":"manifests","resolvConf":"/etc/resolv.conf","tlsCertFile":"","volumePluginDir":"../plugins",
		"tlsPrivateKeyFile":"a.key","authentication":{"x509":{"clientCAFile":"pki/ca.crt"},"anonymous":{"enabled":false}}}`
	const planned = `{"staticPodPath":"manifests","resolvConf":"/etc/resolv.conf","tlsCertFile":"","volumePluginDir":"../plugins",
		"tlsPrivateKeyFile":"flag.key","podLogsDir":"dropin",
		"authentication":{"x509":{"clientCAFile":"pki/ca.crt"},"anonymous":{"enabled":false}}}`
	const running = `{"staticPodPath":"/var/lib/kubelet/manifests","resolvConf":"/etc/resolv.conf","volumePluginDir":"/var/lib/plugins",
		"tlsPrivateKeyFile":"flag.key","podLogsDir":"dropin",
		"authentication":{"x509":{"clientCAFile":"/var/lib/kubelet/pki/ca.crt"},"anonymous":{"enabled":false}}}`
	var objects [3]map[string]any
	for i, text := range []string{file, planned, running} {
		must(t, json.Unmarshal([]byte(text), &objects[i]))
	}
	if got := ConfigDifferences(objects[1], objects[2]); len(got) != 3 {
		t.Errorf("not resolved: got differences %q, want those of three paths", got)
	}
	resolved := ResolvePaths(objects[1], objects[0], "/var/lib/kubelet")
	if got := ConfigDifferences(resolved, objects[2]); len(got) > 0 {
		t.Errorf("resolved: got differences %q, want none", got)
	}
	if got := objects[1]["staticPodPath"]; got != "manifests" {
		t.Errorf("planned configuration: got staticPodPath %v afterwards, want it unchanged", got)
	}
}
