package kube

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	kubeletconfig "k8s.io/kubelet/config/v1"
)

const pluginSite = quick + `
stage "write" "kubelet" {
  credential_providers {
    bin_dir = "/opt/plugins"
    provider "vault" {
      match_images           = ["registry.example:8080/team", "*.registry.example"]
      default_cache_duration = "12h"
      args                   = ["get"]
      env                    = { REGION = "eu" }
      token_attributes {
        service_account_token_audience           = "registry"
        cache_type                               = "Token"
        require_service_account                  = true
        required_service_account_annotation_keys = ["example.com/Role"]
      }
    }
  }
  preloaded_images {
    images = ["registry.example/team/*", "registry.example/tool"]
  }
}
`

// TestCredentialPlugins: a real kubelet starts with what the blocks write, and logs the same settings. Without its
// plugin it does not start, in the words of the rule, and plan reports that before.
func TestCredentialPlugins(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	m := newMember(t, c, NodeOptions{}, quick)
	journal(t, m.Node)
	site := strings.Replace(pluginSite, "stage \"write\" \"kubelet\" {}\n", "", 1)
	const plugin = "/opt/plugins/vault"

	m.site(site)
	refuses := func(what, words string) {
		t.Helper()
		r := prelet(t, m.Node, 30, "plan")
		text := strings.Join(strings.Fields(r.Out+r.Err), " ")
		if !strings.Contains(text, words) {
			t.Errorf("plan %s: got %s; want %q", what, r, words)
		}
	}
	refuses("without the folder", "plugin binary directory /opt/plugins did not exist")
	must(t, m.Write(plugin, "#!/bin/sh\nexit 1\n", 0o644))
	refuses("with a plugin that cannot be executed", `exec: "/opt/plugins/vault": permission denied`)
	_, err := m.Run(t.Context(), "chmod", "0755", plugin)
	must(t, err)
	if r := m.run(0); strings.Contains(r.Out+r.Err, "config-drift") {
		t.Errorf("run: got %s; want no difference to the configuration that the kubelet logs", r)
	}

	text, err := m.Read("/etc/kubernetes/credential-providers.yaml")
	must(t, err)
	var written kubeletconfig.CredentialProviderConfig
	if err := yaml.UnmarshalStrict([]byte(text), &written); err != nil || len(written.Providers) != 1 ||
		written.Providers[0].DefaultCacheDuration.Duration != 12*time.Hour {
		t.Errorf("the file as Kubernetes' own type: got %+v, %v; want one provider with 12h\n%s", written, err, text)
	}
	for _, words := range []string{"NeverVerifyAllowlistedImages", "registry.example/team/*"} {
		if !strings.Contains(m.KubeletLog(), words) {
			t.Errorf("the kubelet's log: want %q in it", words)
		}
	}

	_, err = m.Run(t.Context(), "rm", plugin)
	must(t, err)
	refuses("without the plugin", "plugin binary executable did not exist: /opt/plugins/vault")
	must(t, m.Systemctl(t.Context(), "restart"))
	must(t, waitFor(t.Context(), 30*time.Second, "the kubelet exits", func() string {
		if strings.Contains(m.KubeletLog(), `err="plugin binary executable  did not exist"`) {
			return ""
		}
		return last(m.KubeletLog(), 500)
	}))
}
