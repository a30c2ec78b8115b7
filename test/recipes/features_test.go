package recipes

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"
)

// newFeatureMachine has every feature that talks to the cluster or the kubelet, under the hardened units of the package.
func newFeatureMachine(t *testing.T, name string) *machine {
	t.Helper()
	m := newMachine(t, name)
	const features = `
override {
  stage "restart" "kubelet" {
    reconcile_labels = true
    verify {
      settle             = "2s"
      timeout            = "60s"
      configz_credential = "kubelet-configz"
    }
  }
}
`
	m.Put("/etc/prelet/95-features.hcl", features, 0o644)
	for _, unit := range []string{"prelet", "prelet-apply", "prelet-verify"} {
		m.Put("/etc/systemd/system/"+unit+".service.d/50-configz.conf",
			"[Service]\nLoadCredential=kubelet-configz\n", 0o644)
	}
	pki := shared.folder + "/pki/apiserver-kubelet-client"
	m.Put("/etc/credstore/kubelet-configz", readFile(t, pki+".crt")+readFile(t, pki+".key"), 0o400)

	return m
}

// setPool gives the site of a machine a label and the revision of its annotations.
func (m *machine) setPool(pool, revision string) {
	m.T.Helper()
	m.Put("/etc/prelet/50-pool.hcl", fmt.Sprintf(`stage "label" "pool" {
  labels = { "example.com/pool" = %q }
}

override {
  stage "restart" "kubelet" {
    annotations { revision = %q }
  }
}
`, pool, revision), 0o644)
}

// requirePool waits until a Node has a label and annotations, which prelet patches up to half a minute after a verdict.
func (m *machine) requirePool(want string) {
	m.T.Helper()
	m.Within(commandTime, "pool, generation and revision are "+want, func() string {
		got, err := shared.kubectl("get", "node", m.name, "-o", `jsonpath={.metadata.labels.example\.com/pool} `+
			`{.metadata.annotations.prelet\.github\.io/generation} {.metadata.annotations.prelet\.github\.io/revision}`)
		if err != nil || got != want {
			return fmt.Sprintf("got %q, %v", got, err)
		}
		return ""
	})
}

// TestFeaturesUnderUnits joins, and is changed by hand, in the sandbox of the units: annotations, a label that prelet
// patches, and the kubelet's own configuration.
func TestFeaturesUnderUnits(t *testing.T) {
	requireWanted(t)
	m := newFeatureMachine(t, "features")
	m.Put("/etc/prelet/machine.prelet.vars", shared.variables(), 0o644)
	m.Put("/etc/credstore/bootstrap-token", shared.token+"\n", 0o400)
	m.setPool("one", "r1")

	m.Boot()
	m.requireJoined("unknown")
	m.requirePool("one 1 r1")

	m.setPool("two", "r2")
	out := m.Do("prelet", "run", "-o", "json")
	if want := `{"name":"configz","state":"ok"}`; !strings.Contains(out, want) {
		t.Errorf("prelet run: got no %s, want it in\n%s", want, out)
	}
	m.requirePool("two 2 r2")
	unit := m.Do("systemctl", "show", "prelet-apply.service", "--value", "-p", "ExecMainStartTimestampMonotonic")
	if strings.TrimSpace(unit) == "0" {
		t.Error("start of prelet-apply.service: got none, want that prelet run has used it")
	}
}

// TestPluginUnderUnits joins with the token of a credential plugin, which prelet starts in the sandbox of its unit.
func TestPluginUnderUnits(t *testing.T) {
	requireWanted(t)
	m := newFeatureMachine(t, "plugin")
	ca, err := os.ReadFile(shared.folder + "/pki/ca.crt")
	must(t, err)
	m.Put("/etc/kubernetes/bootstrap-kubelet.conf", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
users:
- name: u
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: /usr/local/bin/node-identity
      interactiveMode: Never
`, shared.url, base64.StdEncoding.EncodeToString(ca)), 0o600)
	m.Put("/usr/local/bin/node-identity", `#!/bin/sh
grep -q '^NoNewPrivs:.*1' /proc/self/status && touch /run/prelet/plugin-in-sandbox
cat <<'END'
{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "`+shared.token+`"}}
END
`, 0o700)
	m.Put("/etc/prelet/machine.prelet.vars", shared.variables(), 0o644)
	m.Put("/etc/prelet/60-plugin.hcl", `override {
  cluster { token = null }
  stage "write" "kubelet" {
    bootstrap_kubeconfig { when = false }
  }
}
`, 0o644)
	m.setPool("plugin", "r1")

	m.Boot()
	m.requireJoined("unknown")
	m.requirePool("plugin 1 r1")
	m.Do("test", "-e", "/run/prelet/plugin-in-sandbox")
}
