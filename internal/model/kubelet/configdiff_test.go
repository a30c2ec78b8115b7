package kubelet

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestConfigDifferences(t *testing.T) {
	const running = `{"maxPods":64,"syncFrequency":"1m0s","kubeReserved":{"cpu":"200m","memory":"1Gi"},"systemReserved":{"cpu":"2"},"evictionHard":{"memory.available":"100Mi","nodefs.available":"10%"},
		"featureGates":{"A":true,"B":false},"clusterDNS":["10.96.0.10"],"cgroupDriver":"cgroupfs","registerWithTaints":[{"key":"a","effect":"NoSchedule","timeAdded":null}],"reservedSystemCPUs":"0-1","readOnly":true}`
	for _, c := range []struct{ planned, want string }{
		{`{"kind":"KubeletConfiguration","apiVersion":"x","maxPods":64.0,"syncFrequency":"60s","kubeReserved":{"memory":"1024Mi"},"cgroupDriver":"systemd"}`, ""},
		{`{"maxPods":110}`, "maxPods is 64 and not 110"},
		{`{"syncFrequency":"0s","maxPods":0,"failSwapOn":false,"staticPodPath":"","podCIDR":null}`, ""},
		{`{"readOnly":false}`, "readOnly is true and not false"},
		{`{"failSwapOn":true}`, "failSwapOn is not set and not true"},
		{`{"kubeReserved":{"cpu":"0.2","memory":"2Gi","ephemeral-storage":"1Gi"}}`, "kubeReserved.ephemeral-storage is not set and not 1Gi, kubeReserved.memory is 1Gi and not 2Gi"},
		{`{"featureGates":{"A":true,"B":true}}`, "featureGates.B is false and not true"},
		{`{"clusterDNS":["10.96.0.10","10.96.0.11"]}`, "clusterDNS is [10.96.0.10] and not [10.96.0.10 10.96.0.11]"},
		{`{"registerWithTaints":[{"key":"a","effect":"NoSchedule"}]}`, ""},
		{`{"registerWithTaints":[{"key":"b","effect":"NoSchedule"}]}`, "registerWithTaints is " +
			"[map[effect:NoSchedule key:a timeAdded:<nil>]] and not [map[effect:NoSchedule key:b]]"},
		{`{"evictionHard":{}}`, ""},
	} {
		var p, r map[string]any
		if json.Unmarshal([]byte(c.planned), &p) != nil || json.Unmarshal([]byte(running), &r) != nil {
			t.Fatal(c.planned)
		}
		if got := strings.Join(ConfigDifferences(p, r), ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.planned, got, c.want)
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
